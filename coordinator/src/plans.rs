//! Plans that operators ask of nodes: passes each request to the node's session, and the node's answer back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::v1::{NodePlan, NodeReached, PlanAnswer, PlanQuestion, PlanRequest, PlanResponse};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Longest wait for a node's plan: a node with many mounts observes each of them.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The requests of all nodes that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Number of the last request.
    last: u64,
    /// The newest session of each connected node.
    sessions: BTreeMap<String, Session>,
    /// The asked node and the receiver of its answer, by the number of the request.
    waiting: BTreeMap<u64, (String, oneshot::Sender<PlanAnswer>)>,
}

#[derive(Debug)]
struct Session {
    epoch: u64,
    questions: mpsc::UnboundedSender<PlanQuestion>,
}

impl Plans {
    /// Opens a session, and returns the questions for its node.
    pub(crate) fn open(&self, node: &str, epoch: u64) -> mpsc::UnboundedReceiver<PlanQuestion> {
        let (questions, received) = mpsc::unbounded_channel();
        self.inner().sessions.insert(node.to_owned(), Session { epoch, questions });
        received
    }

    /// Closes a session, and with it the open requests of its node.
    pub(crate) fn close(&self, node: &str, epoch: u64) {
        let mut inner = self.inner();
        if inner.sessions.get(node).is_some_and(|session| session.epoch == epoch) {
            inner.sessions.remove(node);
            inner.waiting.retain(|_, (asked, _)| asked != node);
        }
    }

    /// Takes a node's answer. Ignores an answer that another node was asked for.
    pub(crate) fn answer(&self, node: &str, answer: PlanAnswer) {
        let mut inner = self.inner();
        if inner.waiting.get(&answer.id).is_some_and(|(asked, _)| asked == node)
            && let Some((_, waiting)) = inner.waiting.remove(&answer.id)
        {
            // The operator may no longer wait.
            let _ = waiting.send(answer);
        }
    }

    /// Asks a node for a plan.
    pub(crate) async fn ask(&self, node: &str, request: PlanRequest) -> NodePlan {
        let (plans, failure) = match self.answer_of(node, request).await {
            Ok(response) => (response.plans, String::new()),
            Err(failure) => (Vec::new(), failure),
        };
        NodePlan { node: node.to_owned(), plans, failure }
    }

    /// Asks a node which namespaces it reaches.
    pub(crate) async fn ask_reached(&self, node: &str) -> NodeReached {
        let request = PlanRequest { reached: true, ..PlanRequest::default() };
        let (reached, failure) = match self.answer_of(node, request).await {
            Ok(PlanResponse { reached: Some(reached), .. }) => (Some(reached), String::new()),
            Ok(_) => {
                let why = "its agent does not say which namespaces it reaches: it is too old, or that of a rabbit";
                (None, why.to_owned())
            }
            Err(failure) => (None, failure),
        };
        NodeReached { node: node.to_owned(), reached, failure }
    }

    async fn answer_of(&self, node: &str, request: PlanRequest) -> Result<PlanResponse, String> {
        let (id, answer) = self.send(node, request).ok_or_else(|| {
            "the node is not connected: check its agent, or ask it on the node itself".to_owned()
        })?;
        let answered = timeout(ANSWERED_WITHIN, answer).await;
        self.inner().waiting.remove(&id);
        match answered {
            Ok(Ok(answer)) if answer.failure.is_empty() => Ok(answer.response.unwrap_or_default()),
            Ok(Ok(answer)) => Err(answer.failure),
            Ok(Err(_)) => Err("the node's session ended before its answer came".to_owned()),
            Err(_) => Err(format!(
                "the node did not answer within {} s: its agent may be too old for plans, or hangs",
                ANSWERED_WITHIN.as_secs()
            )),
        }
    }

    fn send(
        &self,
        node: &str,
        request: PlanRequest,
    ) -> Option<(u64, oneshot::Receiver<PlanAnswer>)> {
        let mut inner = self.inner();
        // Operators who no longer wait.
        inner.waiting.retain(|_, (_, waiting)| !waiting.is_closed());
        let id = inner.last + 1;
        let question = PlanQuestion { id, request: Some(request) };
        inner.sessions.get(node)?.questions.send(question).ok()?;
        let (waiting, answer) = oneshot::channel();
        inner.last = id;
        inner.waiting.insert(id, (node.to_owned(), waiting));
        Some((id, answer))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto::v1::ObjectPlan;

    use super::*;

    fn planned(name: &str) -> PlanResponse {
        let plan = ObjectPlan { name: name.to_owned(), ..ObjectPlan::default() };
        PlanResponse { plans: vec![plan], reached: None }
    }

    #[tokio::test]
    async fn an_answer_counts_only_from_the_node_that_was_asked() {
        let plans = Arc::new(Plans::default());
        let asked = plans.ask("rabbit-1", PlanRequest::default()).await;
        assert!(asked.failure.starts_with("the node is not connected"), "{asked:?}");
        let mut questions = plans.open("rabbit-1", 4);
        let ask = |plans: &Arc<Plans>| {
            let plans = Arc::clone(plans);
            tokio::spawn(async move { plans.ask("rabbit-1", PlanRequest::default()).await })
        };
        let asking = ask(&plans);
        let id = questions.recv().await.unwrap().id;
        let response = |name| Some(planned(name));
        plans.answer(
            "rabbit-2",
            PlanAnswer { id, response: response("x"), ..PlanAnswer::default() },
        );
        plans.answer(
            "rabbit-1",
            PlanAnswer { id, response: response("a"), ..PlanAnswer::default() },
        );
        let answer = asking.await.unwrap();
        assert_eq!((answer.plans, answer.failure.as_str()), (planned("a").plans, ""));

        let asking = ask(&plans);
        questions.recv().await.unwrap();
        plans.close("rabbit-1", 3);
        assert!(!asking.is_finished(), "an earlier session of the node ended");
        plans.close("rabbit-1", 4);
        let failure = asking.await.unwrap().failure;
        assert_eq!(failure, "the node's session ended before its answer came");
    }
}
