//! Runs one job from its first to its last state with `warren`, as a workload manager and a site's DWS and NNF
//! controllers would.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::{Chassis, Job},
    cluster::{Cluster, CommandFailed, PATIENCE, patience},
    program::{pause, until},
};

/// `warren`'s exit code when the coordinator cannot be reached.
const UNREACHABLE: i32 = 7;

/// Option of `warren delete` for objects that may be gone already.
const IGNORE_NOT_FOUND: &str = "--ignore-not-found";

/// Changes a command so that it can be repeated after an attempt that may have succeeded.
pub fn prepare_repetition(words: &mut Vec<&str>) {
    // The first attempt may have deleted the object, and only its answer was lost.
    if words.first() == Some(&"delete") && words.last() != Some(&IGNORE_NOT_FOUND) {
        words.push(IGNORE_NOT_FOUND);
    }
}

/// Receives the commands of a run and their output, to print them.
pub trait Narrator {
    /// Takes a command line, as a user would type it.
    fn typed(&self, _words: &str) {}
    /// Takes the output of a command.
    fn note(&self, _text: &str) {}
}

/// A narrator that prints nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Narrator for Silent {}

/// The nodes that jobs run on: mount namespaces of one computer, or several computers.
pub trait Machines {
    /// Returns the rabbit and its computes.
    fn chassis(&self) -> &Chassis;

    /// Returns the SystemConfiguration. By default it has only the chassis that [`Machines::chassis`] returns.
    fn system_configuration(&self) -> Value {
        self.chassis().system_configuration()
    }

    /// Returns the nodes that the coordinator knows.
    fn connected_nodes(&self) -> Vec<String>;

    /// Writes `bytes` to a file that `warren` can read, and returns its path.
    ///
    /// # Errors
    /// When the file cannot be written.
    fn hand_over(&self, name: &str, bytes: &[u8]) -> anyhow::Result<String>;

    /// Runs `warren` with these words and returns its output.
    ///
    /// # Errors
    /// When `warren` fails; the message has its stderr.
    fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String>;

    /// Runs a command on a node as a job would run it, as user and group `id`.
    ///
    /// # Errors
    /// When the command fails; the message has the command's stderr.
    fn run_on(&self, node: &str, id: u32, script: &str) -> anyhow::Result<String>;
}

/// A job, and the cluster that it runs on.
#[derive(Debug)]
pub struct Run<N, M = Cluster> {
    /// The cluster or the machines that the job runs on.
    pub cluster: M,
    /// The job that is driven.
    pub job: Job,
    /// Receives commands and their output.
    pub narrator: N,
    /// Whether commands are repeated while the coordinator cannot be reached, as a workload manager repeats them.
    pub patient: bool,
}

impl<N: Narrator, M: Machines> Run<N, M> {
    /// Creates the SystemConfiguration, and waits until every node of it is connected.
    ///
    /// # Errors
    /// When a node is not connected in time.
    pub fn describe_system(&mut self) -> anyhow::Result<()> {
        let system = self.cluster.system_configuration();
        self.apply("system", &[system])?;
        let nodes = self.cluster.connected_nodes();
        until("every node to be connected", PATIENCE, || {
            let shown = self.prints(&["nodes", "--json"])?;
            ensure!(nodes.iter().all(|node| connected(&shown, node)), "not yet: {shown}");
            Ok(())
        })?;
        let rabbit = self.cluster.chassis().rabbit.clone();
        until("the rabbit's namespace", PATIENCE, || {
            self.prints(&["get", "namespace", &rabbit]).map(drop)
        })
    }

    /// Creates the objects of the profile, the allocations and the file systems.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn carve(&mut self) -> anyhow::Result<()> {
        let chassis = self.cluster.chassis().clone();
        let objects = [
            self.job.profile(),
            self.job.block_storage(&chassis, false),
            self.job.file_systems(&chassis),
        ];
        self.apply("storage", &objects)
    }

    /// Waits until the file systems are ready.
    ///
    /// # Errors
    /// When the file systems are not ready in time.
    pub fn wait_for_file_systems(&mut self) -> anyhow::Result<()> {
        let (name, rabbit) = (self.job.node_storage(), self.cluster.chassis().rabbit.clone());
        self.wait("nnfnodestorage", &name, &rabbit, "ready")
    }

    /// Gives each compute access to its allocation, and creates the compute's ClientMount from the status
    /// that the rabbit wrote.
    ///
    /// # Errors
    /// When access is not given in time, or an object is refused.
    pub fn mount_on_computes(&mut self) -> anyhow::Result<()> {
        let chassis = self.cluster.chassis().clone();
        self.apply("access", &[self.job.block_storage(&chassis, true)])?;
        let carved = until("access", patience(), || {
            let carved = self.block_storage()?;
            let reported = &carved["status"]["allocations"];
            let granted = |place: usize| {
                let allocation = &reported[self.job.allocation(place)];
                allocation["accesses"][&chassis.computes[place].0].is_object()
            };
            ensure!((0..chassis.computes.len()).all(granted), "not yet: {}", carved["status"]);
            Ok(carved)
        })?;
        let places = 0..chassis.computes.len();
        let mounts: Vec<_> =
            places.map(|place| self.job.compute_mount(&chassis, place, &carved)).collect();
        self.apply("computes", &mounts)
    }

    /// Returns the NnfNodeBlockStorage as the API shows it.
    ///
    /// # Errors
    /// When the NnfNodeBlockStorage does not exist.
    pub fn block_storage(&self) -> anyhow::Result<Value> {
        let (name, rabbit) = (self.job.node_storage(), &self.cluster.chassis().rabbit);
        let text = self.prints(&["get", "nnfnodeblockstorage", &name, "-n", rabbit, "--json"])?;
        serde_json::from_str(&text).context("decode the NnfNodeBlockStorage")
    }

    /// Waits until every compute's ClientMount is `mounted` or `unmounted`.
    ///
    /// # Errors
    /// When a ClientMount is not in that state in time.
    pub fn wait_for_computes(&mut self, state: &str) -> anyhow::Result<()> {
        let name = self.job.computes_mount();
        for (compute, _) in self.cluster.chassis().computes.clone() {
            self.wait("clientmount", &name, &compute, state)?;
        }
        Ok(())
    }

    /// Writes `<mount>/hello` on every compute, as the job's user.
    ///
    /// # Errors
    /// When a compute cannot write.
    pub fn write(&mut self) -> anyhow::Result<()> {
        let (path, user) = (self.job.mount_path(), self.job.user);
        for (compute, _) in self.cluster.chassis().computes.clone() {
            let script = format!("echo '{}' > {path}/hello", self.words(&compute));
            self.narrator.note(&format!("{compute}$ {script}"));
            self.cluster.run_on(&compute, user, &script)?;
        }
        Ok(())
    }

    fn words(&self, compute: &str) -> String {
        format!("written on {compute} by user {}", self.job.user)
    }

    /// Creates the storage and mounts it on every compute.
    ///
    /// # Errors
    /// When any step fails or is not in time.
    pub fn carve_and_mount(&mut self) -> anyhow::Result<()> {
        self.carve()?;
        self.wait_for_file_systems()?;
        self.mount_on_computes()?;
        self.wait_for_computes("mounted")
    }

    /// Sets the desired state of one compute's ClientMount to `state`.
    ///
    /// # Errors
    /// When the API refuses the change.
    pub fn desire(&mut self, compute: &str, state: &str) -> anyhow::Result<()> {
        let name = self.job.computes_mount();
        let text = self.prints(&["get", "clientmount", &name, "-n", compute, "--json"])?;
        let mount: Value = serde_json::from_str(&text).context("decode the ClientMount")?;
        self.apply("desire", &[with_desired_state(&mount, state)])
    }

    /// Sets the desired state of every compute's ClientMount to unmounted.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn unmount_from_computes(&mut self) -> anyhow::Result<()> {
        for (compute, _) in self.cluster.chassis().computes.clone() {
            self.desire(&compute, "unmounted")?;
        }
        Ok(())
    }

    /// Deletes the computes' ClientMounts, and withdraws the computes' access to their allocations.
    ///
    /// # Errors
    /// When an object is not deleted in time.
    pub fn withdraw_from_computes(&mut self) -> anyhow::Result<()> {
        let (chassis, name) = (self.cluster.chassis().clone(), self.job.computes_mount());
        for (compute, _) in &chassis.computes {
            self.delete("clientmount", &name, compute)?;
        }
        self.apply("withdraw", &[self.job.block_storage(&chassis, false)])
    }

    /// Creates a ClientMount by which the rabbit mounts all allocations below one directory, and waits
    /// until they are mounted.
    ///
    /// # Errors
    /// When the rabbit does not mount the tree in time.
    pub fn mount_on_rabbit(&mut self) -> anyhow::Result<()> {
        let chassis = self.cluster.chassis().clone();
        self.apply("rabbit", &[self.job.rabbit_mount(&chassis)])?;
        let name = self.job.servers_mount();
        self.wait("clientmount", &name, &chassis.rabbit, "mounted")
    }

    /// Reads on the rabbit the file that the compute at index `place` wrote, by the compute's host name
    /// and by its index.
    ///
    /// # Errors
    /// When the content differs from what the compute wrote.
    pub fn read_on_rabbit(&mut self, place: usize) -> anyhow::Result<()> {
        let chassis = self.cluster.chassis().clone();
        let compute = &chassis.computes[place].0;
        for name in [compute.clone(), format!("node-{place}")] {
            let script = format!("cat {}/{name}/hello", self.job.mount_path());
            let text = self.cluster.run_on(&chassis.rabbit, self.job.user, &script)?;
            self.narrator.note(&format!("{}$ {script}\n{text}", chassis.rabbit));
            let wanted = self.words(compute);
            ensure!(text.trim() == wanted, "{name} holds {text:?}, not {wanted:?}");
        }
        Ok(())
    }

    /// Deletes all remaining objects of the job.
    ///
    /// # Errors
    /// When an object is not deleted in time.
    pub fn tear_down(&mut self) -> anyhow::Result<()> {
        let (mount, rabbit) = (self.job.servers_mount(), self.cluster.chassis().rabbit.clone());
        self.delete("clientmount", &mount, &rabbit)?;
        self.tear_down_storage()
    }

    /// Deletes the file systems, the allocations and the profile.
    ///
    /// # Errors
    /// When an object is not deleted in time.
    pub fn tear_down_storage(&mut self) -> anyhow::Result<()> {
        let rabbit = self.cluster.chassis().rabbit.clone();
        let (storage, profile) = (self.job.node_storage(), self.job.directive());
        self.delete("nnfnodestorage", &storage, &rabbit)?;
        self.delete("nnfnodeblockstorage", &storage, &rabbit)?;
        self.delete("nnfstorageprofile", &profile, "default")
    }

    /// Runs the job from its first to its last state, and reads its data on the rabbit.
    ///
    /// # Errors
    /// When any step fails.
    pub fn whole_life(&mut self) -> anyhow::Result<()> {
        self.carve_and_mount()?;
        self.write()?;
        self.unmount_from_computes()?;
        self.wait_for_computes("unmounted")?;
        self.withdraw_from_computes()?;
        self.mount_on_rabbit()?;
        for place in 0..self.cluster.chassis().computes.len() {
            self.read_on_rabbit(place)?;
        }
        self.tear_down()
    }

    fn delete(&mut self, kind: &str, name: &str, namespace: &str) -> anyhow::Result<()> {
        self.warren(&["delete", kind, name, "-n", namespace])
    }

    /// Writes objects to a file called `name` beside the logs, and applies them with `warren apply`.
    ///
    /// # Errors
    /// When the API refuses an object.
    pub fn apply(&mut self, name: &str, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let list = serde_json::to_vec_pretty(&list).context("encode")?;
        let file = self.cluster.hand_over(&format!("{name}.json"), &list)?;
        self.warren(&["apply", "-f", &file])
    }

    fn wait(&mut self, kind: &str, name: &str, namespace: &str, state: &str) -> anyhow::Result<()> {
        self.warren(&[
            "wait",
            &format!("{kind}/{name}"),
            "-n",
            namespace,
            "--for",
            state,
            "--timeout",
            &format!("{}s", patience().as_secs()),
        ])
    }

    /// Runs a `warren` command, and passes it and its output to the narrator.
    ///
    /// # Errors
    /// When the command fails.
    pub fn warren(&mut self, words: &[&str]) -> anyhow::Result<()> {
        self.narrator.typed(&format!("warren {}", words.join(" ")));
        let shown = self.prints(words)?;
        self.narrator.note(&shown);
        Ok(())
    }

    /// Returns the output of a `warren` command, without passing it to the narrator.
    ///
    /// # Errors
    /// When the command fails.
    pub fn prints(&self, words: &[&str]) -> anyhow::Result<String> {
        let end = Instant::now() + PATIENCE;
        let mut words = words.to_vec();
        loop {
            let outcome = self.cluster.warren_prints(&words);
            let unreachable =
                outcome.as_ref().err().and_then(|error| error.downcast_ref::<CommandFailed>());
            let repeat = self.patient
                && unreachable.is_some_and(|failed| failed.status.code() == Some(UNREACHABLE));
            if !repeat || Instant::now() > end {
                return outcome;
            }
            prepare_repetition(&mut words);
            pause(Duration::from_millis(20));
        }
    }
}

/// Returns `mount` with the desired state `state`, and without the fields that the server added, as a
/// client would apply it.
fn with_desired_state(mount: &Value, state: &str) -> Value {
    let mut spec = mount["spec"].clone();
    spec["desiredState"] = json!(state);
    let metadata = &mount["metadata"];
    json!({
        "apiVersion": mount["apiVersion"], "kind": "ClientMount", "spec": spec,
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata["labels"],
        },
    })
}

fn connected(nodes: &str, node: &str) -> bool {
    let Ok(listed) = serde_json::from_str::<Value>(nodes) else { return false };
    let Some(nodes) = listed["nodes"].as_array() else { return false };
    nodes.iter().any(|record| record["node"] == node && record["connected"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_delete_gets_ignore_not_found_and_other_verbs_do_not() {
        let mut words = vec!["delete", "clientmount", "a"];
        prepare_repetition(&mut words);
        prepare_repetition(&mut words);
        assert_eq!(words, ["delete", "clientmount", "a", IGNORE_NOT_FOUND]);
        let mut words = vec!["get", "clientmount", "a"];
        prepare_repetition(&mut words);
        assert_eq!(words.len(), 3);
    }
}
