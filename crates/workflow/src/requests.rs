//! Requests to the running engine, which other tasks of the coordinator send.

use api::Workflow;
use tokio::sync::{mpsc, oneshot};

use crate::rehearsal::Rehearsal;

/// A request to the engine, with the sender for its answer.
#[derive(Debug)]
pub(crate) enum Request {
    Metrics(oneshot::Sender<String>),
    /// A new Workflow and the names of its computes.
    Rehearse(Box<Workflow>, Vec<String>, oneshot::Sender<Rehearsal>),
}

/// Sends requests to the engine.
#[derive(Clone, Debug)]
pub struct EngineHandle(mpsc::Sender<Request>);

/// The engine's end of the channel by which it gets its requests.
#[derive(Debug)]
pub struct EngineRequests(pub(crate) mpsc::Receiver<Request>);

impl EngineHandle {
    /// Returns a handle, and the channel on which the engine gets its requests.
    #[must_use]
    pub fn new() -> (Self, EngineRequests) {
        let (sender, requests) = mpsc::channel(1);
        (Self(sender), EngineRequests(requests))
    }

    /// Returns the engine's metrics in the OpenMetrics text format without the end marker; empty while no engine runs.
    pub async fn metrics(&self) -> String {
        self.ask(Request::Metrics).await.unwrap_or_default()
    }

    /// Plans a job up to its Setup and changes nothing; `None` while no engine runs.
    pub async fn rehearse(&self, workflow: Workflow, computes: Vec<String>) -> Option<Rehearsal> {
        self.ask(|answer| Request::Rehearse(Box::new(workflow), computes, answer)).await
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.0.send(request(sender)).await.ok()?;
        answer.await.ok()
    }
}
