mod programs;

use std::{
    cell::{RefCell, RefMut},
    collections::BTreeMap,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Cluster, Guest};
use crate::{
    centre::{self, Chassis},
    cluster::patience,
    program::until,
    run::Machines,
};
use programs::Api;

const STEP: Duration = Duration::from_secs(180);
/// Deadline for reading a node's last log lines after a failure; the node may hang.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// Directory beneath which nodes mount.
pub const MOUNT_ROOT: &str = "/mnt/nnf";

/// Directory in which a node's programs keep their state. The state survives a loss of power if a disk is
/// mounted at this directory.
pub const STATE: &str = "/var/lib/warren";

/// Directory of fence requests and their answers.
pub const FENCE: &str = "/var/lib/warren/fence";

/// Text in every log line about a step.
pub const STEP_TAKEN: &str = "storage::execute";

/// Serial number of the disk of a node's operating system, which is an NVMe drive too, and whose data survives a loss of
/// power.
pub(super) const SYSTEM_DISK: &str = "SYSTEM";

/// Script that prints everything of a job that exists on a node: device mappings, lock spaces of volume groups, mounts.
/// The script fails when it cannot list one of these, since an empty output would then prove nothing.
pub const LEFT: &str = r"
dmsetup ls | awk '!/^No devices/'
for each in /sys/kernel/dlm/lvm_[0-9a-f]*; do [ ! -e $each ] || echo $each; done
awk '$3 ~ /^(gfs2|xfs)$/' /proc/self/mounts
";

/// Rabbits and their computes, on which our programs run as in production. Each node is a computer with its
/// own kernel. The coordinator runs on the first rabbit, and the other nodes reach it over TLS. A rabbit and
/// its computes share drives.
#[derive(Debug)]
pub struct System {
    guests: RefCell<BTreeMap<String, Guest>>,
    api: Api,
    chassis: Vec<Chassis>,
    /// Scripts that install a node's certificate, by node. A node that was switched off gets
    /// the same certificate again.
    certificates: BTreeMap<String, String>,
}

impl System {
    /// Starts the programs of a rabbit and its computes.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start(cluster: Cluster) -> anyhow::Result<Self> {
        Self::start_all(vec![cluster])
    }

    /// Starts the programs of several chassis on one network.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start_all(clusters: Vec<Cluster>) -> anyhow::Result<Self> {
        let chassis = clusters.iter().map(chassis).collect();
        let guests = clusters
            .into_iter()
            .flat_map(|cluster| cluster.computes.into_iter().chain([cluster.rabbit]));
        Self::new(chassis, guests, Api::Embedded)
    }

    /// Starts the programs on the API of a Kubernetes cluster, of which the rabbit
    /// is a node ([`kubernetes`](super::kubernetes)).
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start_on_kubernetes(cluster: Cluster) -> anyhow::Result<Self> {
        let chassis = vec![chassis(&cluster)];
        Self::new(chassis, cluster.computes.into_iter().chain([cluster.rabbit]), Api::Kubernetes)
    }

    /// Starts the programs of a rabbit whose only compute is missing.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn of_rabbit(rabbit: Guest) -> anyhow::Result<Self> {
        let chassis = Chassis {
            rabbit: rabbit.machine().name.clone(),
            computes: vec![("compute-0".to_owned(), 0)],
        };
        Self::new(vec![chassis], [rabbit], Api::Embedded)
    }

    fn new(
        chassis: Vec<Chassis>,
        guests: impl IntoIterator<Item = Guest>,
        api: Api,
    ) -> anyhow::Result<Self> {
        let guests = guests.into_iter().map(|guest| (guest.machine().name.clone(), guest));
        let guests: BTreeMap<_, _> = guests.collect();
        let certificates = programs::certificates(&chassis[0].rabbit, guests.keys())?;
        let system = Self { guests: RefCell::new(guests), api, chassis, certificates };
        system.start_programs()?;
        Ok(system)
    }

    /// Starts the programs of every node: at the beginning, and after all nodes have lost their power.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start_programs(&self) -> anyhow::Result<()> {
        for node in self.nodes() {
            self.prepare(&node)?;
            self.start_agent(&node)?;
        }
        Ok(())
    }

    /// Installs the files that a node's agent needs, and starts the coordinator on the coordinator's node: at the
    /// beginning, and after the node has lost its power.
    ///
    /// # Errors
    /// When the coordinator cannot be started.
    pub fn prepare(&self, node: &str) -> anyhow::Result<()> {
        self.run(node, &self.certificates[node]).context("install a certificate")?;
        if node == self.head() {
            self.run(node, &programs::coordinator(self.api))?;
            if self.chassis.len() > 1 {
                self.run(node, programs::WAY_IN)?;
            }
        } else if self.is_rabbit(node) {
            let kubeconfig = self.run(self.head(), programs::KUBECONFIG)?;
            self.run(node, &programs::script_to_reach_coordinator(&kubeconfig))?;
        }
        Ok(())
    }

    /// Returns the node of the coordinator: the first rabbit.
    fn head(&self) -> &str {
        &self.chassis[0].rabbit
    }

    fn is_rabbit(&self, node: &str) -> bool {
        self.chassis.iter().any(|chassis| chassis.rabbit == node)
    }

    /// Returns the names of all nodes that exist, each rabbit before its computes.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        let guests = self.guests.borrow();
        let all = self.chassis.iter().flat_map(|chassis| {
            let computes = chassis.computes.iter().map(|(name, _)| name);
            [&chassis.rabbit].into_iter().chain(computes)
        });
        all.filter(|name| guests.contains_key(*name)).cloned().collect()
    }

    /// Returns the name of the agent's program on a node.
    #[must_use]
    pub fn agent(&self, node: &str) -> &'static str {
        if self.is_rabbit(node) { "rabbit-agent" } else { "clientmount-agent" }
    }

    /// Starts a node's agent.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn start_agent(&self, node: &str) -> anyhow::Result<()> {
        let script = if node == self.head() {
            programs::rabbit_agent(node, self.api)
        } else if self.is_rabbit(node) {
            programs::distant_rabbit_agent(node)
        } else {
            programs::clientmount_agent(node)
        };
        self.run(node, &script).map(drop)
    }

    /// Borrows the computer of a node.
    ///
    /// # Panics
    /// When there is no node of this name.
    pub fn guest(&self, node: &str) -> RefMut<'_, Guest> {
        RefMut::map(self.guests.borrow_mut(), |guests| {
            guests.get_mut(node).unwrap_or_else(|| panic!("{node} is a node"))
        })
    }

    /// Returns a script that runs a `warren` command on the coordinator's node.
    pub(super) fn warren(&self, words: &[&str]) -> String {
        let at = format!(
            "export WARREN_API={} WARREN_COORDINATOR=unix:///run/warren/coordinator.sock",
            self.api.address()
        );
        format!("{at}\n/programs/warren{}", quote(words))
    }

    /// Runs a bash script on a node, as root.
    ///
    /// # Errors
    /// When the script fails; the message has the script's stderr.
    pub fn run(&self, node: &str, script: &str) -> anyhow::Result<String> {
        self.guest(node).run(script, STEP).with_context(|| format!("on {node}"))
    }

    /// Adds the last log lines of the nodes' agents to an error.
    #[must_use]
    pub fn explained(&self, failure: anyhow::Error) -> anyhow::Error {
        self.nodes().iter().fold(failure, |failure, node| {
            let log = "tail -n 30 /var/log/*-agent.log /var/log/slurm*.log 2>/dev/null || true";
            let log = self.guest(node).run(log, LAST_WORDS);
            failure.context(format!("{node}: {}", log.unwrap_or_default()))
        })
    }

    /// Waits until no node has a namespace besides the disk of its operating system, a mapping, a lock space of a volume group, or a mount of a job. The wait is
    /// necessary because a compute notices a moment later that a namespace was detached.
    ///
    /// # Errors
    /// When a node still has one of these after the wait.
    pub fn until_empty(&self) -> anyhow::Result<()> {
        until("nothing to be left", patience(), || self.is_empty())
    }

    fn is_empty(&self) -> anyhow::Result<()> {
        let look = format!(
            "{LEFT}for each in /sys/block/nvme*; do [ ! -e $each ] || grep -qw {SYSTEM_DISK} $each/device/serial || echo $each; done"
        );
        for node in self.nodes() {
            let left = self.run(&node, &look)?;
            ensure!(left.is_empty(), "left on {node}: {left}");
        }
        Ok(())
    }
}

/// Describes a cluster's guests as a chassis.
fn chassis(cluster: &Cluster) -> Chassis {
    let name = |guest: &Guest| guest.machine().name.clone();
    let computes = cluster.computes.iter().map(name).zip(0..).collect();
    Chassis { rabbit: name(&cluster.rabbit), computes }
}

/// Quotes words for a shell, each with a blank before it.
pub(super) fn quote(words: &[&str]) -> String {
    words.iter().map(|word| format!(" '{}'", word.replace('\'', r"'\''"))).collect()
}

impl Machines for System {
    fn chassis(&self) -> &Chassis {
        &self.chassis[0]
    }

    fn system_configuration(&self) -> Value {
        centre::system_configuration(&self.chassis)
    }

    fn connected_nodes(&self) -> Vec<String> {
        self.nodes()
    }

    fn hand_over(&self, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
        let file = self.guest(self.head()).exchange().join(name);
        std::fs::write(file, bytes).with_context(|| format!("write {name}"))?;
        Ok(format!("/lab/{name}"))
    }

    fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run(self.head(), &self.warren(words))
    }

    fn run_on(&self, node: &str, id: u32, script: &str) -> anyhow::Result<String> {
        let user = format!("setpriv --reuid {id} --regid {id} --clear-groups /bin/sh -ec");
        self.run(node, &format!("{user}{}", quote(&[script])))
    }
}
