//! Drives one workflow through its states as a workload manager does, only with `warren apply` and `warren get`.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    cluster::patience,
    fixture::Fixture,
    program::until,
    run::{Machines, Narrator, Run, Silent},
};

const DWS: &str = "dataworkflowservices.github.io/v1alpha7";

/// The states after Proposal.
pub const AFTER_PROPOSAL: [&str; 6] =
    ["Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"];

/// Kinds of objects that must all be gone after the deletion of a workflow.
const KINDS: [&str; 12] = [
    "workflow",
    "persistentstorageinstance",
    "computes",
    "directivebreakdown",
    "servers",
    "clientmount",
    "nnfnodestorage",
    "nnfnodeblockstorage",
    "nnflustremgt",
    "nnfstorageprofile",
    "nnfdatamovement",
    "nnfdatamovementprofile",
];

/// Waits until the rabbit's drives may be used by workflows.
///
/// # Errors
/// When the drives may not be used in time.
pub fn wait_for_rabbit<N: Narrator, M: Machines>(run: &Run<N, M>) -> anyhow::Result<()> {
    wait_until_ready(run, &run.cluster.chassis().rabbit)
}

/// Waits until the drives of a rabbit may be used by workflows.
///
/// # Errors
/// When the drives may not be used in time.
pub fn wait_until_ready<N: Narrator, M: Machines>(
    run: &Run<N, M>,
    rabbit: &str,
) -> anyhow::Result<()> {
    until("the rabbit's Storage to be Ready", patience(), || {
        let storage = object(run, "storage", rabbit, "default")?;
        ensure!(storage["status"]["status"] == "Ready", "not yet: {}", storage["status"]);
        Ok(())
    })
}

/// Returns an object as the API shows it.
///
/// # Errors
/// When the object does not exist.
pub fn object<N: Narrator, M: Machines>(
    run: &Run<N, M>,
    kind: &str,
    name: &str,
    namespace: &str,
) -> anyhow::Result<Value> {
    let text = run.prints(&["get", kind, name, "-n", namespace, "--json"])?;
    serde_json::from_str(&text).with_context(|| format!("decode {kind} {namespace}/{name}"))
}

/// Returns the existing objects of workflows, except profiles that are templates, not pinned copies.
///
/// # Errors
/// When the objects cannot be listed.
pub fn remaining_objects<N: Narrator, M: Machines>(run: &Run<N, M>) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for kind in KINDS {
        let text = run.prints(&["get", kind, "--all-namespaces", "--json"])?;
        let listed: Value = serde_json::from_str(&text).context("decode a list")?;
        let items = listed["items"].as_array().or_else(|| listed.as_array());
        for item in items.context("a list")? {
            let (namespace, name) = (&item["metadata"]["namespace"], &item["metadata"]["name"]);
            if namespace != "nnf-system" {
                left.push(format!("{kind} {namespace}/{name}"));
            }
        }
    }
    Ok(left)
}

/// After [`Flow::add_second_rabbit`], the two rabbits of a flow, each with its compute.
pub const RABBITS: [(&str, &str); 2] = [("rabbit-1", "compute-1"), ("rabbit-2", "compute-2")];

/// A workflow on a cluster.
#[derive(Debug)]
pub struct Flow {
    /// The cluster. The job in this value is not used.
    pub fixture: Fixture,
    /// Name of the workflow.
    pub name: String,
    /// User who owns the job (uid).
    pub user: u32,
}

impl Flow {
    /// Starts a chassis with this number of computes, connects every node, and waits until the rabbit's drives may be
    /// used. Creates no workflow.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn new(computes: u8, name: &str) -> anyhow::Result<Self> {
        Self::on(Fixture::with_engine(computes)?, name)
    }

    /// Creates a flow on this cluster.
    ///
    /// # Errors
    /// When the rabbit does not become ready.
    pub fn on(fixture: Fixture, name: &str) -> anyhow::Result<Self> {
        let flow = Self { fixture, name: name.to_owned(), user: 1050 };
        wait_for_rabbit(flow.run())?;
        Ok(flow)
    }

    fn run(&self) -> &Run<Silent> {
        &self.fixture.run
    }

    /// Returns an object as the API shows it.
    ///
    /// # Errors
    /// When the object does not exist.
    pub fn object(&self, kind: &str, name: &str, namespace: &str) -> anyhow::Result<Value> {
        object(self.run(), kind, name, namespace)
    }

    /// Returns the workflow as the API shows it.
    ///
    /// # Errors
    /// When the workflow does not exist.
    pub fn workflow(&self) -> anyhow::Result<Value> {
        self.object("workflow", &self.name, "default")
    }

    /// Creates the workflow with these directives.
    ///
    /// # Errors
    /// When the API refuses the workflow.
    pub fn create(&mut self, directives: &[&str]) -> anyhow::Result<()> {
        let workflow = json!({
            "apiVersion": DWS, "kind": "Workflow",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "desiredState": "Proposal", "wlmID": "test", "jobID": 7, "userID": self.user, "groupID": self.user,
                "dwDirectives": directives,
            },
        });
        self.fixture.run.apply("workflow", &[workflow])
    }

    /// Writes the names of all computes of the chassis into the workflow's Computes.
    ///
    /// # Errors
    /// When the API refuses the Computes.
    pub fn fill_computes(&mut self) -> anyhow::Result<()> {
        let computes = &self.run().cluster.chassis().computes;
        let data: Vec<Value> = computes.iter().map(|(name, _)| json!({"name": name})).collect();
        let computes = json!({
            "apiVersion": DWS, "kind": "Computes",
            "metadata": {"name": self.name, "namespace": "default"}, "data": data,
        });
        self.fixture.run.apply("computes", &[computes])
    }

    /// Sets the desired state of the workflow.
    ///
    /// # Errors
    /// When the API refuses the change.
    pub fn request_state(&mut self, state: &str) -> anyhow::Result<()> {
        self.patch(&json!({"desiredState": state}))
    }

    /// Changes the workflow's spec.
    ///
    /// # Errors
    /// When the API refuses the change.
    pub fn patch(&mut self, spec: &Value) -> anyhow::Result<()> {
        let change = json!({
            "apiVersion": DWS, "kind": "Workflow",
            "metadata": {"name": self.name, "namespace": "default"}, "spec": spec,
        });
        self.fixture.run.apply("state", &[change])
    }

    /// Waits until the workflow's `state` and `status` have these values.
    ///
    /// # Errors
    /// When the workflow does not get there in time; the message has the whole status.
    pub fn wait(&self, state: &str, status: &str) -> anyhow::Result<Value> {
        until(&format!("{state} to be {status}"), patience(), || {
            let workflow = self.workflow()?;
            let reported = &workflow["status"];
            let ready = status == "Completed";
            let is_there = reported["state"] == state
                && reported["status"] == status
                && reported["ready"] == ready;
            ensure!(is_there, "not yet: {reported:#}");
            Ok(workflow)
        })
    }

    /// Runs a workflow from its first to its last state, and kills the coordinator in each state.
    ///
    /// # Errors
    /// When a state is not reached.
    pub fn live_with_kills(&mut self, directives: &[&str]) -> anyhow::Result<()> {
        self.create(directives)?;
        self.wait("Proposal", "Completed")?;
        self.fill_computes()?;
        for state in AFTER_PROPOSAL {
            self.request_state(state)?;
            self.kill_coordinator()?;
            self.wait(state, "Completed")?;
        }
        self.delete()
    }

    /// Kills the coordinator with signal 9; its supervisor starts it again.
    ///
    /// # Errors
    /// When the coordinator does not run.
    pub fn kill_coordinator(&mut self) -> anyhow::Result<()> {
        let cluster = &mut self.fixture.run.cluster;
        cluster.coordinator()?.kill()?;
        self.fixture.run.patient = true;
        Ok(())
    }

    /// Requests a state of the workflow, and waits until it is complete.
    ///
    /// # Errors
    /// When the state is not reached.
    pub fn reach(&mut self, state: &str) -> anyhow::Result<Value> {
        self.request_state(state)?;
        self.wait(state, "Completed")
    }

    /// Deletes the workflow, and waits until no object, no namespace on a drive and no mount of the workflow is left.
    ///
    /// # Errors
    /// When an object, a namespace on a drive or a mount of the workflow is left.
    pub fn delete(&mut self) -> anyhow::Result<()> {
        let name = self.name.clone();
        self.fixture.run.warren(&["delete", "workflow", &name, "-n", "default"])?;
        self.nothing_is_left()
    }

    /// Sets the name of the next workflow on the same cluster. Objects of the previous workflow stay.
    pub fn next(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Runs one workflow from its creation to its deletion, and calls `work` in PreRun with the workflow. Persistent storage
    /// stays.
    ///
    /// # Errors
    /// When a state is not reached, or `work` fails.
    pub fn live(
        &mut self,
        name: &str,
        directive: &str,
        work: impl Fn(&Self, &Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.next(name);
        self.create(&[directive])?;
        self.wait("Proposal", "Completed")?;
        self.fill_computes()?;
        for state in AFTER_PROPOSAL {
            let workflow = self.reach(state)?;
            if state == "PreRun" {
                work(self, &workflow)?;
            }
        }
        self.leave()
    }

    /// Deletes the workflow, but not persistent storage.
    ///
    /// # Errors
    /// When the workflow still exists after the wait.
    pub fn leave(&mut self) -> anyhow::Result<()> {
        let name = self.name.clone();
        self.fixture.run.warren(&["delete", "workflow", &name, "-n", "default"])
    }

    /// Checks that nothing of the workflow is left.
    ///
    /// # Errors
    /// When an object, a namespace on a drive or a mount of the workflow is left.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        until("nothing to be left", patience(), || {
            let left = remaining_objects(self.run())?;
            ensure!(left.is_empty(), "left: {left:?}");
            let namespaces = self.fixture.namespaces()?;
            ensure!(namespaces.is_empty(), "namespaces are left: {namespaces:?}");
            Ok(())
        })
    }

    /// Stops the programs, and checks that only their files are left.
    ///
    /// # Errors
    /// When a program does not stop cleanly, or when something of the programs is left.
    pub fn end(self) -> anyhow::Result<()> {
        self.fixture.end()
    }

    /// Adds a second rabbit, and moves the second compute to it.
    ///
    /// # Errors
    /// When an object is refused, an agent does not start, or a rabbit does not become Ready.
    pub fn add_second_rabbit(&mut self) -> anyhow::Result<()> {
        let run = &mut self.fixture.run;
        let mut system = run.cluster.chassis().system_configuration();
        system["spec"]["storageNodes"] = RABBITS
            .map(|(rabbit, compute)| {
                let access = json!([{"name": compute, "index": 0}]);
                json!({"type": "Rabbit", "name": rabbit, "computesAccess": access})
            })
            .into();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rabbit-2"}});
        run.apply("system", &[namespace, system])?;
        run.cluster.add_rabbit("rabbit-2")?;
        run.cluster.move_to_other_rabbit("compute-2")?;
        for (rabbit, _) in RABBITS {
            until("both rabbits to be Ready", patience(), || {
                let storage = self.object("storage", rabbit, "default")?;
                ensure!(storage["status"]["status"] == "Ready", "not yet: {storage}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Runs a script on a node as the job's user.
    ///
    /// # Errors
    /// When the script fails.
    pub fn run_on(&self, node: &str, script: &str) -> anyhow::Result<String> {
        self.run().cluster.run_on(node, self.user, script)
    }
}
