//! Fetches job packages from real servers and real files into a directory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::Sender},
    time::{Duration, Instant},
};

use containers::{JobPackage, package::Source};
use packages::{JobPackages, Progress, content};
use ring::digest::{SHA256, digest};
use tempfile::TempDir;
use tests::file_server::{FileServer, give, hold, pour, say};
use tokio::sync::Notify;
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);
const DATA: &[u8] = b"what containers read\n";

fn package(bytes: &[u8], url: &str) -> JobPackage {
    let source = match url.starts_with('/') {
        true => Source::File(url.into()),
        false => Source::Server(url.to_owned()),
    };
    let sha256 = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    JobPackage { name: "data".to_owned(), source, sha256, size: bytes.len() as u64, unpacked: None }
}

/// The job packages of a node.
struct Node {
    directory: TempDir,
    packages: Option<JobPackages>,
}

impl Node {
    fn new() -> Self {
        let mut node = Self { directory: tempfile::tempdir().unwrap(), packages: None };
        node.start();
        node
    }

    /// Starts another agent that uses the same disk.
    fn start(&mut self) {
        self.packages = Some(JobPackages::new(self.directory.path(), Arc::new(Notify::new())));
    }

    fn bring(&self, uid: Uuid, package: &JobPackage) -> Progress {
        self.packages.as_ref().unwrap().bring(uid, std::slice::from_ref(package)).unwrap()
    }

    /// Calls `bring` until it returns a progress that satisfies `is`.
    async fn until(
        &self,
        uid: Uuid,
        package: &JobPackage,
        is: impl Fn(&Progress) -> bool,
    ) -> Progress {
        let begin = Instant::now();
        loop {
            let now = self.bring(uid, package);
            if is(&now) {
                return now;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{now:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn in_place(&self, uid: Uuid, package: &JobPackage) -> PathBuf {
        let is_done = |now: &Progress| !matches!(now, Progress::Awaited(_));
        assert_eq!(self.until(uid, package, is_done).await, Progress::InPlace);
        content(self.directory.path(), package)
    }

    async fn impossible(&self, package: &JobPackage) -> String {
        let is_done = |now: &Progress| !matches!(now, Progress::Awaited(_));
        match self.until(RUN, package, is_done).await {
            Progress::Impossible(why) => why,
            other => panic!("{other:?}"),
        }
    }

    async fn failed_attempt(&self, package: &JobPackage) -> String {
        let has_failed_attempt =
            |now: &Progress| matches!(now, Progress::Awaited(why) if why.contains("retries"));
        match self.until(RUN, package, has_failed_attempt).await {
            Progress::Awaited(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the number of entries in a subdirectory of the store.
    fn entries(&self, part: &str) -> usize {
        fs::read_dir(self.directory.path().join(part)).map_or(0, Iterator::count)
    }

    /// Waits until the store has no files.
    async fn wait_until_empty(&self) {
        let begin = Instant::now();
        while ["ready", "fetching", "uses"].iter().any(|part| self.entries(part) > 0) {
            assert!(begin.elapsed() < Duration::from_secs(10), "files are left");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_file_of_a_server_is_fetched_once_for_two_runs_and_is_readable_by_every_user() {
    let (server, node) = (FileServer::serving(DATA), Node::new());
    let package = package(DATA, &server.url());
    let path = node.in_place(RUN, &package).await;
    assert_eq!(fs::read(&path).unwrap(), DATA);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o555);
    assert_eq!(node.in_place(OTHER, &package).await, path);
    assert_eq!((server.requests(), node.entries("fetching"), node.entries("ready")), (1, 0, 1));
}

/// Starts a server that answers only after the returned sender was dropped.
fn held_server() -> (Sender<()>, FileServer) {
    let (release_server, wait) = hold();
    let server = FileServer::new(move |_, stream| {
        wait();
        give(stream, DATA.len(), DATA);
    });
    (release_server, server)
}

#[tokio::test]
async fn two_concurrent_runs_fetch_a_file_once_and_the_last_release_removes_it() {
    let (release_server, server) = held_server();
    let node = Node::new();
    let package = package(DATA, &server.url());
    assert!(matches!(node.bring(RUN, &package), Progress::Awaited(_)));
    assert!(matches!(node.bring(OTHER, &package), Progress::Awaited(_)));
    drop(release_server);
    let path = node.in_place(RUN, &package).await;
    node.in_place(OTHER, &package).await;
    assert_eq!(server.requests(), 1);
    let packages = node.packages.as_ref().unwrap();
    packages.release(RUN).unwrap();
    assert!(path.exists());
    packages.release(OTHER).unwrap();
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_fetch_continues_for_a_second_run_when_the_first_run_is_released() {
    let (release_server, server) = held_server();
    let node = Node::new();
    let package = package(DATA, &server.url());
    node.bring(RUN, &package);
    node.bring(OTHER, &package);
    node.packages.as_ref().unwrap().release(RUN).unwrap();
    drop(release_server);
    node.in_place(OTHER, &package).await;
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_fetch_is_retried_when_the_server_fails_or_closes_the_connection() {
    let server = FileServer::new(|count, stream| match count {
        1 => say(stream, "503 Service Unavailable"),
        2 => give(stream, DATA.len(), &DATA[..5]),
        3 => pour(stream, &DATA[..7]),
        _ => give(stream, DATA.len(), DATA),
    });
    let node = Node::new();
    let package = package(DATA, &server.url());
    let why = node.failed_attempt(&package).await;
    let begin = format!("job package data from {}: ", server.url());
    assert!(why.starts_with(&begin) && why.contains("503 Service Unavailable"), "{why}");
    let path = node.in_place(RUN, &package).await;
    assert_eq!((fs::read(path).unwrap(), server.requests()), (DATA.to_vec(), 4));
}

#[tokio::test]
async fn a_fetch_succeeds_once_its_server_has_started() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let node = Node::new();
    let package = package(DATA, &format!("http://127.0.0.1:{port}/data"));
    let why = node.failed_attempt(&package).await;
    assert!(why.contains("refused"), "{why}");
    let _server = FileServer::at(port, |_, stream| give(stream, DATA.len(), DATA));
    node.in_place(RUN, &package).await;
}

#[tokio::test]
async fn a_wrong_digest_is_reported_with_the_expected_digest_and_not_retried_for_the_same_run() {
    let server = FileServer::serving(DATA);
    let node = Node::new();
    let wrong = JobPackage { sha256: "0".repeat(64), ..package(DATA, &server.url()) };
    let why = node.impossible(&wrong).await;
    for part in [&"0".repeat(64), &package(DATA, "/").sha256, &server.url(), "job package data"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!((node.impossible(&wrong).await, server.requests()), (why, 1));
    assert_eq!((node.entries("ready"), node.entries("fetching")), (0, 0));
    // The fetch for another object starts anew: the file may be correct by then.
    node.bring(OTHER, &wrong);
    node.impossible(&wrong).await;
    assert_eq!(server.requests(), 2);
    let packages = node.packages.as_ref().unwrap();
    packages.release(RUN).unwrap();
    packages.release(OTHER).unwrap();
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_file_with_more_bytes_than_its_profile_says_is_refused() {
    let announced = FileServer::new(|_, stream| give(stream, 1 << 40, DATA));
    let unannounced = FileServer::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        // The server would send bytes without end.
        while stream.write_all(&[0; 4096]).is_ok() {}
    });
    for (server, part) in [
        (announced, "the file has 1099511627776 bytes, but the field size is 21"),
        (unannounced, "more than 21 bytes"),
    ] {
        let node = Node::new();
        let why = node.impossible(&package(DATA, &server.url())).await;
        assert!(why.contains(part), "{why}");
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn redirects_are_followed_at_most_5_times_and_only_to_http_servers() {
    let server = FileServer::serving(DATA);
    let to = server.url();
    let first =
        FileServer::new(move |_, stream| say(stream, &format!("302 Found\r\nLocation: {to}")));
    Node::new().in_place(RUN, &package(DATA, &first.url())).await;
    let endless = FileServer::new(|_, stream| say(stream, "302 Found\r\nLocation: /again"));
    let why = Node::new().failed_attempt(&package(DATA, &endless.url())).await;
    assert!(why.contains("more than 5 times") && endless.requests() >= 6, "{why}");
    let away =
        FileServer::new(|_, stream| say(stream, "302 Found\r\nLocation: file:///etc/shadow"));
    let why = Node::new().failed_attempt(&package(DATA, &away.url())).await;
    assert!(why.contains("file:///etc/shadow"), "{why}");
}

fn shared(directory: &Path, bytes: &[u8]) -> String {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join("data");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn only_a_file_that_every_user_may_read_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let package = package(DATA, &shared(directory.path(), DATA));
    let node = Node::new();
    assert_eq!(fs::read(node.in_place(RUN, &package).await).unwrap(), DATA);
    let secret = JobPackage { source: Source::File("/etc/shadow".into()), ..package };
    let other = JobPackage { sha256: "1".repeat(64), ..secret };
    let why = node.failed_attempt(&other).await;
    assert!(why.contains("/etc/shadow is not readable by everybody"), "{why}");
}

/// The agent was killed in the middle of a fetch; the next agent starts the fetch anew.
#[tokio::test]
async fn files_that_a_killed_agent_left_are_not_used() {
    let node = Node::new();
    let server = FileServer::serving(DATA);
    let package = package(DATA, &server.url());
    let half = node.directory.path().join("fetching").join(&package.sha256);
    fs::create_dir_all(half.join("content")).unwrap();
    fs::write(half.join("archive"), &DATA[..5]).unwrap();
    fs::write(half.join("package.json"), "{}").unwrap();
    let path = node.in_place(RUN, &package).await;
    assert_eq!(fs::read(path).unwrap(), DATA);
    assert_eq!(node.entries("fetching"), 0);
}

#[tokio::test]
async fn a_stopped_agent_ends_its_fetches_and_the_next_agent_starts_them_again() {
    let (_let_go, held) = hold();
    let server = FileServer::new(move |count, stream| {
        if count == 1 {
            give(stream, DATA.len(), &DATA[..5]);
            held();
        } else {
            give(stream, DATA.len(), DATA);
        }
    });
    let mut node = Node::new();
    let package = package(DATA, &server.url());
    node.bring(RUN, &package);
    while server.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // When the agent stops, it drops the job packages.
    node.packages = None;
    let begin = Instant::now();
    while node.entries("fetching") > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the fetch did not stop");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.start();
    node.in_place(RUN, &package).await;
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn an_archive_is_unpacked_into_a_directory_and_a_refused_archive_leaves_nothing() {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    archive.append_data(&mut header, "in/data", &b"data"[..]).unwrap();
    let archive = archive.into_inner().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let plain = package(&archive, &shared(directory.path(), &archive));
    let node = Node::new();
    let unpacked = JobPackage { unpacked: Some(1 << 20), ..plain.clone() };
    let path = node.in_place(RUN, &unpacked).await;
    assert_eq!(fs::read(path.join("in/data")).unwrap(), b"data");
    assert!(!path.with_file_name("archive").exists(), "the archive is removed");
    let small = JobPackage { unpacked: Some(100), ..plain };
    let other = Node::new();
    let why = other.impossible(&small).await;
    assert!(why.contains("the decompressed archive has more than 100 bytes"), "{why}");
    assert_eq!((other.entries("ready"), other.entries("fetching")), (0, 0));
}
