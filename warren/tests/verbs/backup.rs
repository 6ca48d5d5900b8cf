//! `warren backup`: files, incomplete answers, and the restore of a damaged store.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::standalone_coordinator::{StandaloneCoordinator, configuration, mount, warren};

/// Returns all objects, without the resourceVersion of the lists.
fn all_objects(here: &StandaloneCoordinator) -> Vec<Value> {
    ["clientmounts", "systemconfigurations", "namespaces", "customresourcedefinitions"]
        .map(|kind| here.json(&["get", kind, "-A", "--json"])["items"].clone())
        .to_vec()
}

/// Restores a store. Retries while the store is locked: a program that another test starts holds this process's lock
/// for a moment, between fork(2) and execve(2).
fn restore(data: &Path, backup: &str) -> Result<(), String> {
    loop {
        match coordinator::restore(data, Path::new(backup)) {
            Err(error) if format!("{error:?}").contains("InUse") => std::thread::yield_now(),
            result => return result.map(drop).map_err(|error| format!("{error:?}")),
        }
    }
}

#[test]
fn a_damaged_store_is_refused_and_a_backup_takes_its_place() {
    let here = StandaloneCoordinator::start();
    let mut held = mount("job", "mounted");
    held["metadata"]["finalizers"] = serde_json::json!(["x.io/held"]);
    // The coordinator creates the nodes' namespaces one after the other; `apply` waits for the namespaces that it
    // needs.
    let [on_rabbit, on_other] = ["rabbit-1", "compute-2"].map(|node| {
        let mut mount = mount("other", "mounted");
        mount["metadata"]["namespace"] = json!(node);
        mount["spec"]["node"] = json!(node);
        mount
    });
    let file = here.file("first.yaml", &[configuration(), held, on_rabbit, on_other]);
    here.warren(&["apply", "-f", &file]).assert().success();
    let before = all_objects(&here);
    let backup = here.path("backup").display().to_string();
    let stdout = here.output(&["backup", &backup]);
    assert!(stdout.contains("objects written to"), "{stdout}");
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let later = here.file("later.yaml", &[mount("later", "mounted")]);
    here.warren(&["apply", "-f", &later]).assert().success();

    let directory = here.stop();
    let data = directory.path().join("data");
    let store = data.join("objects.redb");
    let file = std::fs::File::options().write(true).open(&store).unwrap();
    file.write_all_at(&[0xff; 40_000], 4096).unwrap();
    let Err((directory, why)) = StandaloneCoordinator::start_in(directory) else {
        panic!("a damaged store is served")
    };
    assert!(why.contains(&store.display().to_string()), "{why}");
    assert!(why.contains("coordinator --data-dir") && why.contains("warren backup"), "{why}");

    let error = restore(&data, &backup).unwrap_err();
    assert!(error.contains("Exists"), "{error}");
    std::fs::rename(&store, directory.path().join("objects.redb")).unwrap();
    restore(&data, &backup).unwrap();
    let here =
        StandaloneCoordinator::start_in(directory).unwrap_or_else(|(_, why)| panic!("{why}"));
    assert_eq!(all_objects(&here), before);
    here.warren(&["apply", "-f", &here.path("later.yaml").display().to_string()])
        .assert()
        .success();
}

/// Starts a server that answers the first line of a request with `answer`, and then closes the connection,
/// unless `keeps` is set.
pub(crate) fn answering(
    socket: &Path,
    answer: impl Fn(&str) -> String + Send + 'static,
    keeps: bool,
) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
            // `warren` first opens a connection without a request, to check that a server listens.
            if let Some(first) = request.collect::<Vec<_>>().first() {
                drop(stream.write_all(answer(first).as_bytes()));
            }
            kept.extend(keeps.then_some(stream));
        }
    });
}

/// Runs `warren backup` against a server that answers every request with `answer`. Returns exit status, standard
/// error, and whether a file was written.
fn against(answer: &str) -> (i32, String, bool) {
    let answer = answer.to_owned();
    against_server(move |_| answer.clone())
}

fn against_server(answer: impl Fn(&str) -> String + Send + 'static) -> (i32, String, bool) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    answering(&socket, answer, false);
    let file = directory.path().join("backup");
    let server = format!("unix://{}", socket.display());
    let mut command = warren(&["--server", &server, "backup", &file.display().to_string()]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    (output.status.code().unwrap(), stderr, files > 1)
}

#[test]
fn a_backup_replaces_only_regular_files() {
    let here = StandaloneCoordinator::start();
    let (target, link) = (here.path("target"), here.path("link"));
    std::fs::write(&target, "before").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for file in ["/dev/null", &*link.display().to_string()] {
        here.warren(&["backup", file]).assert().code(2);
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"before");
    assert!(link.is_symlink());
    here.warren(&["backup", &target.display().to_string()]).assert().success();
}

#[test]
fn an_incomplete_backup_is_not_written() {
    let header = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"objects\":2,\"unread\":[]}\n";
    for lines in ["", "{}\n{}\n"] {
        let (code, stderr, kept) = against(&format!("{header}{lines}"));
        assert_eq!((code, kept), (3, false), "{stderr}");
        assert!(stderr.contains("the backup is incomplete"), "{stderr}");
    }
    let (code, stderr, kept) = against(&format!("{header}{{}}\n{{}}\n{{}}\n"));
    assert_eq!((code, kept), (0, true), "{stderr}");
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (code, stderr, kept) = against(missing);
    assert_eq!((code, kept), (2, false), "{stderr}");
    assert!(stderr.contains("etcd"), "{stderr}");
    let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0+warren.0.0.9", "gitCommit": "",
        "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    let version = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{version}");
    let old = move |request: &str| {
        if request.contains("/version") { version.clone() } else { missing.to_owned() }
    };
    let (code, stderr, kept) = against_server(old);
    assert_eq!((code, kept), (1, false), "{stderr}");
    assert!(stderr.contains("0.0.9") && !stderr.contains("etcd"), "{stderr}");
}
