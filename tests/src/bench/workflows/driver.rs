//! A workload manager that asks for each state as soon as the one before is reached.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, ensure};
use api::{Computes, Workflow};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use crate::workflow::AFTER_PROPOSAL;

/// No workflow of a bench takes longer.
const LONGEST: Duration = Duration::from_mins(10);

/// Drives workflows of one directive.
#[derive(Debug)]
pub(super) struct Driver {
    workflows: Api<Workflow>,
    computes: Api<Computes>,
    directive: &'static str,
    writes: AtomicU32,
    created: AtomicU32,
}

impl Driver {
    pub(super) fn new(client: Client, directive: &'static str) -> Self {
        let workflows = Api::namespaced(client.clone(), "default");
        let computes = Api::namespaced(client, "default");
        Self {
            workflows,
            computes,
            directive,
            writes: AtomicU32::new(0),
            created: AtomicU32::new(0),
        }
    }

    /// Writes of its own so far.
    pub(super) fn writes(&self) -> f64 {
        f64::from(self.writes.load(Ordering::Relaxed))
    }

    /// Workflows, and the objects in which a workload manager is told of one: breakdown, Servers, Computes, pinned profile.
    pub(super) fn objects(&self) -> f64 {
        f64::from(self.created.load(Ordering::Relaxed)) * 5.0
    }

    /// Brings `count` workflows from Proposal to their deletion, side by side in so many lanes; a lane has computes of its own.
    pub(super) async fn many(
        &self,
        count: usize,
        lanes: usize,
        computes: impl Fn(usize) -> Vec<String>,
    ) -> anyhow::Result<()> {
        let lanes = lanes.min(count);
        let computes = &computes;
        let lane = |lane: usize| async move {
            let computes = computes(lane);
            for number in (lane..count).step_by(lanes) {
                let name = format!("w{number}");
                self.live(&name, &computes).await.with_context(|| name.clone())?;
                self.delete(&name).await.with_context(|| name.clone())?;
            }
            anyhow::Ok(())
        };
        stream::iter((0..lanes).map(lane)).buffer_unordered(lanes).try_collect().await
    }

    /// One workflow from its creation to the end of Teardown.
    pub(super) async fn live(&self, name: &str, computes: &[String]) -> anyhow::Result<()> {
        let workflow: Workflow = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "desiredState": "Proposal", "wlmID": "bench", "jobID": 7, "userID": 1050, "groupID": 1050,
                "dwDirectives": [self.directive],
            },
        }))?;
        let created = self.workflows.create(&PostParams::default(), &workflow).await?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.created.fetch_add(1, Ordering::Relaxed);
        let version = created.metadata.resource_version.context("a version")?;
        let lived = self.advance(name, computes, &version);
        tokio::time::timeout(LONGEST, lived).await.context("it takes too long")?
    }

    async fn advance(&self, name: &str, computes: &[String], version: &str) -> anyhow::Result<()> {
        let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let mut events = self.workflows.watch(&only, version).await?.boxed();
        let mut next = AFTER_PROPOSAL.into_iter();
        let mut asked = "Proposal";
        while let Some(event) = events.try_next().await? {
            let (WatchEvent::Added(workflow) | WatchEvent::Modified(workflow)) = event else {
                continue;
            };
            let status = serde_json::to_value(&workflow.status)?;
            ensure!(status["status"] != "Error", "{status:#}");
            if status["state"] != asked || status["ready"] != true {
                continue;
            }
            let Some(state) = next.next() else { return Ok(()) };
            if asked == "Proposal" {
                self.fill(name, computes).await.context("fill Computes")?;
            }
            let spec = json!({"spec": {"desiredState": state}});
            self.write(self.workflows.patch(name, &PatchParams::default(), &Patch::Merge(spec)))
                .await?;
            asked = state;
        }
        anyhow::bail!("the watch ended in {asked}")
    }

    async fn fill(&self, name: &str, computes: &[String]) -> anyhow::Result<()> {
        let data: Vec<Value> = computes.iter().map(|name| json!({"name": name})).collect();
        let data = Patch::Merge(json!({"data": data}));
        self.write(self.computes.patch(name, &PatchParams::default(), &data)).await
    }

    async fn write<K>(&self, request: impl Future<Output = kube::Result<K>>) -> anyhow::Result<()> {
        request.await?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes a workflow and waits until it is gone.
    pub(super) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let there = self.workflows.get(name).await?;
        let version = there.metadata.resource_version.context("a version")?;
        let mut events = self.workflows.watch(&only, &version).await?.boxed();
        self.write(self.workflows.delete(name, &DeleteParams::default())).await?;
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Deleted(_) = event {
                return Ok(());
            }
        }
        anyhow::bail!("{name} is not deleted in time")
    }
}
