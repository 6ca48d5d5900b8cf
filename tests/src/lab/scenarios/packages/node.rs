use std::{cell::RefCell, env, fs, path::PathBuf};

use anyhow::{Context, ensure};
use control_plane::{Authority, Certified};

use super::{MOUNT_ROOT, STEP, format::Format};
use crate::{
    centre::Chassis,
    lab::{Guest, job::Job, system::quote},
    run::Machines,
};

/// Environment variable with the directory in which `tests/packages/run` built the packages. It has the
/// directories `before` and `now`.
const PACKAGES: &str = "WARREN_LAB_PACKAGES";

/// Shell function `file PATH MODE`: writes its standard input to a file with this mode, and creates the directory.
const FILES: &str =
    "file() { mkdir -p \"$(dirname \"$1\")\"; cat > \"$1\"; chmod \"$2\" \"$1\"; }\n";

/// Settings that a site adds below the examples in the packages' files. In this scenario one computer is coordinator,
/// rabbit and compute. The rabbit's agent reaches the coordinator by the Unix socket, the compute's agent by TLS.
const SETTINGS: &str = "
cat >> /etc/warren/coordinator <<'END'
WARREN_COORDINATOR_LISTEN=127.0.0.1:7443
WARREN_WORKLOADS_SOCKET=/run/warren/coordinator/workloads.sock
WARREN_WLM_USER=slurm
END
cat >> /etc/warren/rabbit-agent <<'END'
WARREN_NODE=rabbit-1
WARREN_COORDINATOR=unix:///run/warren/coordinator.sock
WARREN_FILE_POOL=/var/tmp/pool
WARREN_MOUNT_ROOT=/mnt/rabbit
END
cat >> /etc/warren/clientmount-agent <<'END'
WARREN_IDLE_EXIT=0
WARREN_NODE=compute-1
WARREN_COORDINATOR=https://127.0.0.1:7443
WARREN_CA=/etc/warren/ca
WARREN_CERTIFICATE=/etc/warren/compute/certificate
WARREN_KEY=/etc/warren/compute/key
WARREN_FILE_POOL=/var/tmp/pool
END
mkdir -p /etc/systemd/system/warren-coordinator.service.d
cp /usr/share/doc/warren-coordinator/examples/credentials.conf /etc/systemd/system/warren-coordinator.service.d/
printf '[Service]\\nPrivateUsers=no\\n' > /etc/systemd/system/warren-coordinator.service.d/slurm.conf
";

/// Script that lets the agent run all the time. A site may choose this instead of the start by the socket.
const START: &str = "
systemctl --quiet disable --now warren-clientmount-agent.socket
systemctl --quiet enable --now warren-coordinator warren-rabbit-agent warren-clientmount-agent
systemctl is-active warren-coordinator warren-rabbit-agent warren-clientmount-agent
ps -o user= -C coordinator
stat -c %U:%a /etc/warren/key
";

/// Script that calls `warren workload` for a job of another user. It calls as the user of slurmctld, over the
/// coordinator's socket at the default path.
const AS_SLURM: &str = "
as_slurm='setpriv --reuid slurm --regid slurm --clear-groups warren --coordinator unix:///run/warren/workloads.sock'
$as_slurm workload capacity
$as_slurm workload create 1 --manager slurm --user 1050 --group 1050 '#DW jobdw type=raw capacity=1MiB name=scratch'
$as_slurm workload teardown 1 --manager slurm
";

/// Script that prints all files of packages, processes, units and parts of a job that are left.
const LEFT: &str = "
ps -e -o comm= | grep -E '^(coordinator|rabbit-agent|clientmount-age)' || true
# systemctl also lists, as not-found, a removed unit of which only the site's drop-in is left.
systemctl list-units --all --plain --no-legend 'warren*' | grep -v ' not-found ' || true
systemctl list-unit-files --no-legend 'warren*' || true
getent passwd warren || true
ls -d /var/lib/warren /usr/share/warren /usr/libexec/warren 2>/dev/null || true
find /run/warren -type s -o -type l 2>/dev/null || true
losetup --list --noheadings
findmnt --list --noheadings --types xfs || true
";

/// One computer with systemd, which is coordinator, rabbit and compute at the same time.
#[derive(Debug)]
pub(super) struct Node {
    guest: RefCell<Guest>,
    format: Format,
    chassis: Chassis,
}

impl Node {
    /// Copies the packages to the guest.
    pub(super) fn new(guest: Guest, format: Format) -> anyhow::Result<Self> {
        let packages = env::var_os(PACKAGES).map(PathBuf::from).with_context(|| {
            format!(
                "{PACKAGES} is not set: run tests/packages/run lab, which builds them and sets it"
            )
        })?;
        for age in ["before", "now"] {
            let to = guest.exchange().join(age);
            fs::create_dir_all(&to).context("make a directory for packages")?;
            for package in fs::read_dir(packages.join(age)).context("list the packages")? {
                let package = package.context("list the packages")?;
                fs::copy(package.path(), to.join(package.file_name())).context("copy a package")?;
            }
        }
        let node = Self { guest: RefCell::new(guest), format, chassis: Chassis::new(1) };
        // dpkg's settings on the guests' disk exclude documentation, but this scenario uses an example in it.
        node.run("rm -f /etc/dpkg/dpkg.cfg.d/*")?;
        Ok(node)
    }

    /// Installs all packages of the directory `age`, or upgrades to them.
    pub(super) fn install(&self, age: &str) -> anyhow::Result<()> {
        self.run(&self.format.install(age)).map(drop)
    }

    /// Removes the package `name`, but not its configuration.
    pub(super) fn remove_one(&self, name: &str) -> anyhow::Result<()> {
        self.run(&self.format.remove(name)).map(drop)
    }

    /// Installs the package `name` again, with the configuration that it had, and starts its service.
    pub(super) fn install_one(&self, name: &str) -> anyhow::Result<()> {
        self.run(&self.format.install_again(name)).map(drop)
    }

    /// Configures the node by the steps of docs/operate/install.md.
    pub(super) fn configure(&self) -> anyhow::Result<()> {
        let socket = self.run("systemctl is-active warren-clientmount-agent.socket")?;
        ensure!(socket.trim() == "active", "after the installation the socket is {socket}");
        let authority = Authority::new("the site")?;
        let server = authority.server_at(&["127.0.0.1"])?;
        let compute = authority.client("compute-1", None)?;
        let files = [
            file("ca", "0644", authority.certificate()),
            certificate_files("", &server),
            certificate_files("compute/", &compute),
        ];
        self.run(&format!("{FILES}{}{SETTINGS}systemctl daemon-reload", files.concat())).map(drop)
    }

    /// Starts the three programs as services, and checks their users.
    pub(super) fn start(&self) -> anyhow::Result<()> {
        let printed = self.run(&format!("mkdir -p {MOUNT_ROOT} /mnt/rabbit\n{START}"))?;
        ensure!(
            printed == "active\nactive\nactive\nwarren\nroot:600\n",
            "under systemd: {printed}"
        );
        self.run(AS_SLURM).map(drop)
    }

    /// Removes all packages, and checks that only the site's files are left.
    pub(super) fn purge(&self) -> anyhow::Result<()> {
        self.run(self.format.purge())?;
        let left = self.run(LEFT)?;
        ensure!(left.trim().is_empty(), "left after the purge: {left}");
        self.run("test -s /etc/warren/ca && test -s /etc/warren/compute/key").map(drop)
    }

    pub(super) fn run(&self, script: &str) -> anyhow::Result<String> {
        self.guest.borrow_mut().run(script, STEP)
    }

    pub(super) fn background(&self, script: &str) -> anyhow::Result<Job> {
        self.guest.borrow_mut().start(script)
    }

    pub(super) fn wait_for_print(&self, job: Job, text: &str) -> anyhow::Result<String> {
        self.guest.borrow().wait_for_print(job, text, STEP)
    }

    pub(super) fn lines_written(&self, job: Job) -> anyhow::Result<usize> {
        Ok(self.guest.borrow().printed(job)?.lines().count())
    }

    pub(super) fn finish(&self, job: Job) -> anyhow::Result<String> {
        self.guest.borrow().finish(job, STEP)
    }

    /// Adds the units' last log lines to an error.
    pub(super) fn explained(&self, failure: anyhow::Error) -> anyhow::Error {
        let log = self.run("journalctl --no-pager -q -n 60 -u 'warren-*'");
        failure.context(log.unwrap_or_default())
    }
}

fn file(name: &str, mode: &str, text: &str) -> String {
    format!("file /etc/warren/{name} {mode} <<'END'\n{}\nEND\n", text.trim_end())
}

fn certificate_files(directory: &str, own: &Certified) -> String {
    file(&format!("{directory}certificate"), "0644", &own.certificate)
        + &file(&format!("{directory}key"), "0600", &own.key)
}

impl Machines for Node {
    fn chassis(&self) -> &Chassis {
        &self.chassis
    }

    fn connected_nodes(&self) -> Vec<String> {
        vec!["rabbit-1".to_owned(), "compute-1".to_owned()]
    }

    fn hand_over(&self, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
        fs::write(self.guest.borrow().exchange().join(name), bytes)
            .with_context(|| format!("write {name}"))?;
        Ok(format!("/lab/{name}"))
    }

    fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run(&format!("warren{}", quote(words)))
    }

    fn run_on(&self, _node: &str, id: u32, script: &str) -> anyhow::Result<String> {
        let user = format!("setpriv --reuid {id} --regid {id} --clear-groups /bin/sh -ec");
        self.run(&format!("{user}{}", quote(&[script])))
    }
}
