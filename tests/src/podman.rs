//! Runs podman with its own network, mounts and storage, and with an image that needs no registry.
//!
//! A site runs podman with its usual configuration. Tests may run as root in a container, where podman can create no
//! cgroups, and podman must leave the machine unchanged. The configuration and the scripts in this file ensure both.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::program::plant;

/// podman's configuration. It sets no resource limits and uses no cgroups, since this machine may allow neither.
const CONFIGURATION: &str = "[containers]\ndefault_ulimits = []\ncgroups = \"disabled\"\n";
/// Script of the process that holds podman's mount namespace and network namespace. It mounts only cgroup2 at
/// /sys/fs/cgroup, where podman reads which controllers it may use.
const HOLDER: &str = "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && ip link set lo up && echo held && exec sleep infinity";
/// Script that mounts only cgroup2 at /sys/fs/cgroup on a node, as [`HOLDER`] does in podman's namespaces.
const ON_A_NODE: &str = "test -e /sys/fs/cgroup/cgroup.controllers || { umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; }\n";
/// Programs in the image.
const APPLETS: [&str; 17] = [
    "cat", "date", "dd", "echo", "env", "false", "grep", "head", "hostname", "httpd", "id", "ls",
    "mkdir", "sh", "sleep", "touch", "wget",
];

/// podman with its namespaces, which exist until this value is dropped.
#[derive(Debug)]
pub struct Podman {
    directory: TempDir,
    holder: Child,
}

impl Default for Podman {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::disallowed_methods, reason = "a harness starts programs")]
impl Podman {
    /// Sets podman up, with the image.
    ///
    /// # Panics
    /// When the set-up fails.
    #[must_use]
    pub fn new() -> Self {
        // The directory's name has no upper case: podman makes the image's name from it, and accepts only lower case.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warren-podman-{}-{count}", std::process::id());
        let directory = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir();
        let directory = directory.expect("a directory");
        let mut holder = Command::new("unshare")
            .args(["--mount", "--net", "--propagation", "slave", "sh", "-c", HOLDER])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        let output = holder.stdout.take().expect("the output of unshare is piped");
        BufReader::new(output).read_line(&mut line).expect("the holder says that it holds");
        assert_eq!(line, "held\n", "no namespaces for podman");
        let place = Self { directory, holder };
        fs::write(place.at("containers.conf"), CONFIGURATION).expect("a configuration");
        let holder = place.holder.id();
        let mounts = format!("nsenter --mount=/proc/{holder}/ns/mnt");
        plant(&place.program(), &place.script("", &mounts)).expect("a script");
        plant(&place.program_on_a_node(), &place.script(ON_A_NODE, "exec")).expect("a script");
        place.make_image();
        place
    }

    /// Returns the program to run as podman.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.at("podman")
    }

    /// Returns the program to run as podman on a node that has its own mounts, so that podman sees the node's storage.
    #[must_use]
    pub fn program_on_a_node(&self) -> PathBuf {
        self.at("podman-on-a-node")
    }

    /// Returns the address of an image with a shell; podman reads the image from a file.
    #[must_use]
    pub fn image(&self) -> String {
        format!("oci-archive:{}", self.at("busybox.tar").display())
    }

    /// Returns the address of the same image; podman reads the image from a directory.
    #[must_use]
    pub fn image_directory(&self) -> String {
        format!("oci:{}", self.at("busybox").display())
    }

    /// Runs podman with these arguments.
    ///
    /// # Panics
    /// When podman fails.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.program()).args(arguments).output().expect("podman starts");
        assert!(output.status.success(), "podman {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Creates a file in a container from outside. A program that podman runs in the container could be killed
    /// meanwhile: a container that waits for this file ends as soon as the file exists.
    ///
    /// # Panics
    /// When the file cannot be created.
    pub fn touch(&self, container: &str, file: &str) {
        let pid = self.run(&["inspect", "--format", "{{.State.Pid}}", container]);
        fs::write(format!("/proc/{}/root{file}", pid.trim()), "").expect("a file in a container");
    }

    /// Returns the names of all pods.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        let names = self.run(&["pod", "ps", "--format", "{{.Name}}"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Returns the network namespace, as a file.
    #[must_use]
    pub fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Connects this podman's network with another podman's network. This one gets the first address, the
    /// other one the second.
    ///
    /// # Panics
    /// When `ip` fails.
    pub fn connect(&self, other: &Self, addresses: [&str; 2]) {
        let peer = other.holder.id().to_string();
        let cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable"];
        let mut all = vec![(self, [&cable[..], &["netns", &peer]].concat())];
        for (own, address) in [self, other].into_iter().zip(addresses) {
            all.push((own, vec!["ip", "address", "add", address, "dev", "cable"]));
            all.push((own, vec!["ip", "link", "set", "dev", "cable", "up"]));
        }
        for (own, words) in all {
            let done = own.in_network(&words);
            assert!(done.status.success(), "{words:?}: {done:?}");
        }
    }

    /// Runs a program in podman's network namespace, in which the rabbit's ports are reachable.
    ///
    /// # Panics
    /// When the program does not start.
    #[must_use]
    pub fn in_network(&self, program: &[&str]) -> Output {
        let net = format!("--net={}", self.network());
        Command::new("nsenter").arg(net).args(program).output().expect("nsenter starts")
    }

    /// Returns the processes in podman's network namespace, and their descendants in the
    /// network namespaces of containers.
    fn processes(&self) -> Vec<i32> {
        let network = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let holder = i32::try_from(self.holder.id()).unwrap_or(0);
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let own = network(holder);
        let own: Vec<i32> =
            all.filter(|pid| *pid != holder && own.is_some() && network(*pid) == own).collect();
        let children = |pid: &i32| {
            let path = format!("/proc/{pid}/task/{pid}/children");
            let text = fs::read_to_string(path).unwrap_or_default();
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        };
        own.iter().flat_map(children).chain(own.iter().copied()).collect()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn script(&self, first: &str, within: &str) -> String {
        let (holder, at) = (self.holder.id(), self.directory.path().display());
        // The script calls podman by its full path, because a test may install this script under the name podman.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|place| place.join("podman"));
        let program = places.find(|program| program.exists()).expect("podman is installed");
        let program = program.display();
        format!(
            "#!/bin/sh\nexport CONTAINERS_CONF={at}/containers.conf\n{first}\
             {within} nsenter --net=/proc/{holder}/ns/net {program} --root {at}/root --runroot {at}/run \
             --tmpdir {at}/tmp --storage-driver vfs \"$@\"\n"
        )
    }

    fn make_image(&self) {
        let root = self.at("image");
        for directory in ["bin", "etc", "tmp"] {
            fs::create_dir_all(root.join(directory)).expect("a directory of the image");
        }
        let for_everybody = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(root.join("tmp"), for_everybody).expect("a directory for everybody");
        let busybox =
            ["/bin/busybox", "/usr/sbin/busybox"].into_iter().find(|path| Path::new(path).exists());
        fs::copy(busybox.expect("busybox is installed"), root.join("bin/busybox")).expect("a copy");
        for applet in APPLETS {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).expect("a link");
        }
        let tar = self.at("root.tar");
        let status =
            Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status();
        assert!(status.is_ok_and(|status| status.success()), "no image");
        let tar = tar.display().to_string();
        drop(self.run(&["import", "--quiet", &tar, "busybox:test"]));
        for (format, name) in [("oci-archive", "busybox.tar"), ("oci-dir", "busybox")] {
            let path = self.at(name).display().to_string();
            drop(self.run(&["save", "--quiet", "--format", format, "-o", &path, "busybox:test"]));
        }
        drop(self.run(&["rmi", "--force", "busybox:test"]));
    }
}

#[expect(clippy::disallowed_methods, reason = "a harness starts programs")]
impl Drop for Podman {
    fn drop(&mut self) {
        let mut removal = Command::new(self.program());
        drop(removal.args(["pod", "rm", "--all", "--force", "--time", "0"]).output());
        // Kills processes that podman itself cannot find: after a failed test, the mounts in which podman was started
        // are gone.
        for process in self.processes() {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
