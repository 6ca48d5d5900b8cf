//! A workload manager that requests each state as soon as the previous state is reached.

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
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

/// Deadline of a workflow, longer than any workflow of a bench takes.
const LONGEST: Duration = Duration::from_mins(10);

/// States that a workflow passes until all its file systems are mounted.
pub(super) const UP: &[&str] = &["Setup", "DataIn", "PreRun"];
const DOWN: &[&str] = &["PostRun", "DataOut", "Teardown"];

/// Drives workflows that have these directives.
#[derive(Debug)]
pub(super) struct Driver {
    workflows: Api<Workflow>,
    computes: Api<Computes>,
    directives: &'static [&'static str],
    writes: AtomicU32,
    created: AtomicU32,
}

impl Driver {
    pub(super) fn new(client: Client, directives: &'static [&'static str]) -> Self {
        let workflows = Api::namespaced(client.clone(), "default");
        let computes = Api::namespaced(client, "default");
        Self {
            workflows,
            computes,
            directives,
            writes: AtomicU32::new(0),
            created: AtomicU32::new(0),
        }
    }

    /// Returns the number of the driver's own writes so far.
    pub(super) fn writes(&self) -> f64 {
        f64::from(self.writes.load(Ordering::Relaxed))
    }

    /// Returns the number of objects that the workload manager sees. Each workflow has five: the Workflow, its
    /// DirectiveBreakdown, Servers and Computes, and the pinned profile.
    pub(super) fn objects(&self) -> f64 {
        f64::from(self.created.load(Ordering::Relaxed)) * 5.0
    }

    /// Takes `count` new workflows through these states, and deletes them if the last state is Teardown. `lanes`
    /// workflows run at the same time, each on other computes.
    pub(super) async fn run_all(
        &self,
        count: usize,
        lanes: usize,
        computes: impl Fn(usize) -> Vec<String>,
        states: &[&str],
    ) -> anyhow::Result<()> {
        let computes = &computes;
        run_in_lanes(count, lanes, |lane, name| async move {
            self.live(&name, &computes(lane), states).await?;
            if states.ends_with(&["Teardown"]) { self.delete(&name).await } else { Ok(()) }
        })
        .await
    }

    /// Takes the workflows, which are in PreRun, through the remaining states, and deletes them.
    pub(super) async fn finish_all(&self, count: usize, lanes: usize) -> anyhow::Result<()> {
        run_in_lanes(count, lanes, |_, name| async move {
            self.pass(&name, DOWN).await?;
            self.delete(&name).await
        })
        .await
    }

    /// Takes a workflow, which is ready in its present state, through these states.
    pub(super) async fn pass(&self, name: &str, states: &[&str]) -> anyhow::Result<()> {
        let (first, rest) = states.split_first().context("a state")?;
        self.request(name, first).await?;
        self.advance(first, name, &[], rest).await
    }

    /// Takes a new workflow from its creation to the end of the last of these states.
    pub(super) async fn live(
        &self,
        name: &str,
        computes: &[String],
        states: &[&str],
    ) -> anyhow::Result<()> {
        self.create(name).await?;
        self.advance("Proposal", name, computes, states).await
    }

    async fn create(&self, name: &str) -> anyhow::Result<()> {
        let workflow: Workflow = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "desiredState": "Proposal", "wlmID": "bench", "jobID": 7, "userID": 1050, "groupID": 1050,
                "dwDirectives": self.directives,
            },
        }))?;
        self.write(self.workflows.create(&PostParams::default(), &workflow)).await?;
        self.created.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for the requested state, and then takes the workflow through these states.
    async fn advance(
        &self,
        requested: &str,
        name: &str,
        computes: &[String],
        states: &[&str],
    ) -> anyhow::Result<()> {
        let walked = self.walk(requested, name, computes, states);
        tokio::time::timeout(LONGEST, walked).await.context("the workflow takes too long")?
    }

    async fn walk<'a>(
        &self,
        mut requested: &'a str,
        name: &str,
        computes: &[String],
        states: &[&'a str],
    ) -> anyhow::Result<()> {
        // The first event of the watcher has the present object; when the server ends a watch, the watcher begins
        // another.
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(self.workflows.clone(), only).default_backoff().touched_objects();
        // Errors are ignored: if a resource version is too old, the watcher lists the objects again.
        let mut events = events.filter_map(async |event| event.ok()).boxed();
        let mut next = states.iter().copied();
        while let Some(workflow) = events.next().await {
            let status = serde_json::to_value(&workflow.status)?;
            ensure!(status["status"] != "Error", "{status:#}");
            if status["state"] != requested || status["ready"] != true {
                continue;
            }
            let Some(state) = next.next() else { return Ok(()) };
            if requested == "Proposal" {
                self.fill(name, computes).await.context("fill Computes")?;
            }
            self.request(name, state).await?;
            requested = state;
        }
        anyhow::bail!("the watch ended in {requested}")
    }

    async fn request(&self, name: &str, state: &str) -> anyhow::Result<()> {
        let spec = Patch::Merge(json!({"spec": {"desiredState": state}}));
        self.write(self.workflows.patch(name, &PatchParams::default(), &spec)).await
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

/// Runs a future for each of `count` workflows, `lanes` of them at the same time.
async fn run_in_lanes<F: Future<Output = anyhow::Result<()>>>(
    count: usize,
    lanes: usize,
    work: impl Fn(usize, String) -> F,
) -> anyhow::Result<()> {
    let (lanes, work) = (lanes.min(count), &work);
    let lane = |lane: usize| async move {
        for number in (lane..count).step_by(lanes) {
            let name = format!("w{number}");
            work(lane, name.clone()).await.context(name)?;
        }
        anyhow::Ok(())
    };
    stream::iter((0..lanes).map(lane)).buffer_unordered(lanes).try_collect().await
}
