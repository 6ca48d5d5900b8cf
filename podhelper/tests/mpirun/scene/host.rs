//! Creates hosts with names and a network of their own, in namespaces of this machine.

use std::{
    fs,
    net::TcpListener,
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use nix::sched::{CloneFlags, setns};

/// Address of the Kubernetes API for pods.
pub(super) const API: &str = "10.99.0.250";

/// A host: the namespaces of a process that sleeps.
#[derive(Debug)]
pub(super) struct Host(Child);

impl Host {
    fn new() -> Self {
        let mut child = command("unshare")
            .args(["--net", "--uts", "--mount", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        // The process has entered its namespaces once it is `sleep`.
        let name = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&name).unwrap() != "sleep\n" {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "unshare creates no host: {ended:?}");
            thread::yield_now();
        }
        Self(child)
    }

    /// Returns the beginning of a command within the host's namespaces.
    pub(super) fn within(&self) -> Command {
        let mut nsenter = command("nsenter");
        nsenter.args(["-t", &self.0.id().to_string(), "-n", "-u", "-m"]);
        nsenter
    }

    pub(super) fn run(&self, words: &[&str]) {
        let done = self.within().args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network that connects hosts, separate from this machine's own.
#[derive(Debug)]
pub(super) struct Network {
    switch: Host,
    api_calls: Arc<AtomicUsize>,
}

impl Network {
    pub(super) fn new() -> Self {
        let switch = Host::new();
        switch.run(&["ip", "link", "set", "lo", "up"]);
        switch.run(&["ip", "link", "add", "switch", "type", "bridge"]);
        switch.run(&["ip", "address", "add", &format!("{API}/24"), "dev", "switch"]);
        switch.run(&["ip", "link", "set", "switch", "up"]);
        let api_calls = count_api_calls(&switch);
        Self { switch, api_calls }
    }

    /// Adds a new host to the network.
    pub(super) fn plug_in(&self, place: usize) -> Host {
        let host = Host::new();
        let (port, process) = (port(place), host.0.id().to_string());
        let plug = ["ip", "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns"];
        self.switch.run(&[&plug[..], &[&process]].concat());
        self.switch.run(&["ip", "link", "set", &port, "master", "switch", "up"]);
        host.run(&["ip", "address", "add", &format!("{}/24", address(place)), "dev", "eth0"]);
        host.run(&["ip", "link", "set", "eth0", "up"]);
        host.run(&["ip", "link", "set", "lo", "up"]);
        host
    }

    /// Drops all packets to and from this host, without any notice.
    pub(super) fn cut(&self, place: usize) {
        self.switch.run(&["ip", "link", "set", &port(place), "nomaster"]);
    }

    /// Returns how often a host called the Kubernetes API.
    pub(super) fn api_calls(&self) -> usize {
        self.api_calls.load(Ordering::SeqCst)
    }
}

fn port(place: usize) -> String {
    format!("port{place}")
}

/// Returns the address of a host.
pub(super) fn address(place: usize) -> String {
    format!("10.99.0.{}", place + 1)
}

/// Counts calls to the address of the Kubernetes API.
fn count_api_calls(switch: &Host) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let network = fs::File::open(format!("/proc/{}/ns/net", switch.0.id())).unwrap();
    // Only this thread enters the network.
    let listener = thread::spawn(move || {
        setns(network.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
        TcpListener::bind((API, 443)).unwrap()
    });
    let listener = listener.join().unwrap();
    thread::spawn(move || {
        for call in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(call);
        }
    });
    calls
}

#[expect(clippy::disallowed_methods, reason = "what an administrator would type")]
pub(super) fn command(program: &str) -> Command {
    Command::new(program)
}
