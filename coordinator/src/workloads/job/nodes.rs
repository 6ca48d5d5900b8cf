//! Writes the nodes of a job into its Computes, once.

use std::time::Duration;

use api::{Computes, Workflow, WorkflowState};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::Status;
use workload::{Refused, computes_of};

use super::{Job, refusal_status};
use crate::workloads::request::NAMESPACE;
use crate::workloads::tolerance::Tolerance;

/// Longest time that the engine may take to create a Computes in Proposal.
const COMPUTES_DEADLINE: Duration = Duration::from_secs(10);

impl Job {
    /// Writes the job's nodes into its Computes. Fails if the Computes already names other nodes.
    pub(super) async fn fill_computes(
        &self,
        workflow: &Workflow,
        nodes: &[String],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let names: Vec<&str> = known.names().collect();
        if names == nodes {
            return Ok(());
        }
        if !names.is_empty() {
            return Err(other_nodes(&names));
        }
        let data: Vec<Value> = nodes.iter().map(|name| json!({"name": name})).collect();
        self.write_computes(&known, data).await
    }

    /// Replaces the nodes of a Computes, if it has not changed since the call read it.
    pub(in crate::workloads) async fn write_computes(
        &self,
        known: &Computes,
        data: Vec<Value>,
    ) -> Result<(), Status> {
        let patch =
            json!({"metadata": {"resourceVersion": known.resource_version()}, "data": data});
        let patched = self.computes_api();
        let patched =
            patched.patch(&known.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|source| {
            refusal_status(&Refused {
                what: format!("fill the Computes {}", known.name_any()),
                source,
            })
        })
    }

    /// Checks that a repeated Setup names the same nodes as the first Setup.
    ///
    /// # Errors
    /// If the repeated Setup names other nodes.
    pub(in crate::workloads) async fn check_nodes(
        &self,
        workflow: &Workflow,
        nodes: &[String],
    ) -> Result<(), Status> {
        if nodes.is_empty() || workflow.spec.desired_state == WorkflowState::Proposal {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let names: Vec<&str> = known.names().collect();
        let tolerance = Tolerance::read(workflow);
        let remaining = || nodes.iter().filter(|node| !tolerance.is_left_out(node));
        let is_same = names == nodes || remaining().eq(names.iter().copied());
        if is_same { Ok(()) } else { Err(other_nodes(&names)) }
    }

    fn computes_api(&self) -> Api<Computes> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Returns the job's Computes. Waits until it exists: the engine creates it in Proposal.
    pub(in crate::workloads) async fn computes(
        &self,
        workflow: &Workflow,
    ) -> Result<Computes, Status> {
        let name = computes_of(workflow);
        let is_there = |known: Option<&Computes>| known.is_some();
        let computes = await_condition(self.computes_api(), &name, is_there);
        match timeout(COMPUTES_DEADLINE, computes).await {
            Ok(Ok(Some(known))) => Ok(known),
            Ok(Err(error)) => Err(Status::unavailable(format!(
                "get the Computes {name}: {}; call again",
                daemon::chain(&error)
            ))),
            Ok(Ok(None)) | Err(_) => Err(Status::unavailable(format!(
                "the workflow engine did not create the Computes {name}: check that an engine runs (the coordinator's --workflows), then call again"
            ))),
        }
    }
}

fn other_nodes(names: &[&str]) -> Status {
    let names = directive::hostlist::compress(names);
    Status::failed_precondition(format!(
        "argument nodes: the job's nodes are {names:?}, from its first Setup; give these or none, or tear the job down first"
    ))
}
