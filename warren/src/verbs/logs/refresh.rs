//! Asks the rabbits' agents for the logs of containers that run, and waits for the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{NodeContainers, names::annotation};
use containers::on_rabbit;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client, Error as KubeError, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use nodeclient::Exit;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::failure::{self, Failure};

/// How long agents have to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// By namespace and name, the places of those that were asked and did not answer yet.
type Open = BTreeMap<(Option<String>, String), usize>;

/// Brings up to date what the agents told of logs, where containers run. All of them have these labels.
///
/// # Errors
/// Whose logs may be older, and why. What there is stays in `all`.
pub(super) async fn bring_up_to_date(
    client: &Client,
    labels: &str,
    all: &mut [NodeContainers],
) -> Result<(), Failure> {
    let (open, refused) = ask_all(client, all).await;
    let config = watcher::Config::default().labels(labels);
    let answers = watcher::watcher(Api::all(client.clone()), config).touched_objects();
    let answered = await_all(open, all, Box::pin(answers), Instant::now() + PATIENCE).await;
    refused.map_or(answered, |error| {
        Err(failure::api("ask the rabbits' agents for the logs of containers that run", &error))
    })
}

/// Asks where containers run, until the API refuses a question.
async fn ask_all(client: &Client, all: &mut [NodeContainers]) -> (Open, Option<KubeError>) {
    let mut open = Open::new();
    for (place, one) in all.iter_mut().enumerate().filter(|(_, one)| runs(one)) {
        match ask(client, one).await {
            Ok(stored) => *one = stored,
            // It went meanwhile.
            Err(KubeError::Api(status)) if status.code == 404 => continue,
            Err(error) => return (open, Some(error)),
        }
        open.insert(key(one), place);
    }
    (open, None)
}

async fn ask(client: &Client, of: &NodeContainers) -> Result<NodeContainers, KubeError> {
    let api = Api::namespaced(client.clone(), &of.namespace().unwrap_or_default());
    let asked = of.question(Timestamp::now()).to_string();
    let patch = json!({"metadata": {"annotations": {annotation::LOGS_ASKED: asked}}});
    api.patch(&of.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Takes in the answers, in any order.
async fn await_all(
    mut open: Open,
    all: &mut [NodeContainers],
    mut answers: impl Stream<Item = watcher::Result<NodeContainers>> + Unpin,
    deadline: Instant,
) -> Result<(), Failure> {
    while !open.is_empty() {
        let Ok(Some(next)) = timeout_at(deadline, answers.next()).await else {
            return Err(silent(&open));
        };
        let next = next.map_err(|error| {
            Failure::new(Exit::Retryable, "wait for the logs of containers that run")
                .because(&error)
        })?;
        if next.unanswered().is_none() || !runs(&next) {
            let place = open.remove(&key(&next));
            if let Some(one) = place.and_then(|place| all.get_mut(place)) {
                *one = next;
            }
        }
    }
    Ok(())
}

/// Whether its logs may grow: its containers have not all ended, and its agent does not refuse to run them.
fn runs(one: &NodeContainers) -> bool {
    let is_refused = one.status.as_ref().is_some_and(|status| status.error.is_some());
    let is_over = on_rabbit::state(one).is_ended() || one.metadata.deletion_timestamp.is_some();
    !(one.spec.containers.is_empty() || is_refused || is_over)
}

fn key(of: &NodeContainers) -> (Option<String>, String) {
    (of.namespace(), of.name_any())
}

fn silent(open: &Open) -> Failure {
    let rabbits: BTreeSet<&str> = open.keys().filter_map(|(rabbit, _)| rabbit.as_deref()).collect();
    let rabbits = rabbits.into_iter().collect::<Vec<_>>().join(", ");
    let patience = humantime::format_duration(PATIENCE);
    let what = format!(
        "{rabbits} did not answer within {patience}: what containers that run there said since they were last asked about is not shown"
    );
    let remedy = "see that rabbit-agent runs there; one that fetches an image answers when it has it. `warren containers` tells more";
    Failure::new(Exit::Retryable, what).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, from_value};
    use std::sync::{Arc, Mutex};
    use tower::service_fn;

    use super::*;

    fn of(rabbit: &str, edit: impl FnOnce(&mut Value)) -> NodeContainers {
        let mut object = json!({
            "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
            "metadata": {"name": "default-w-1", "namespace": rabbit},
            "spec": {"userID": 1, "groupID": 1, "hostname": rabbit, "containers": [
                {"name": "app", "image": "i", "imagePullPolicy": "Never"}]},
            "status": {"state": "Ready", "attempt": 1},
        });
        edit(&mut object);
        from_value(object).unwrap()
    }

    /// As its agent leaves it, with the question and the answer.
    fn told(rabbit: &str, asked: u32, answered: u32) -> NodeContainers {
        let at = |second| format!("2026-11-27T03:00:{second:02}Z");
        of(rabbit, |object| {
            object["metadata"]["annotations"] = json!({annotation::LOGS_ASKED: at(asked)});
            object["status"]["logsAnswered"] = json!(at(answered));
        })
    }

    #[test]
    fn only_what_runs_is_asked() {
        assert!(runs(&of("r", |_| {})));
        assert!(runs(&of("r", |one| one["status"] = Value::Null)), "it may start any moment");
        for state in ["Succeeded", "Failed", "TooLate", "Unprepared", "Suspended"] {
            assert!(!runs(&of("r", |one| one["status"]["state"] = json!(state))), "{state}");
        }
        assert!(!runs(&of("r", |one| one["spec"]["containers"] = json!([]))), "packages alone");
        let error = json!({"type": "User", "severity": "Fatal", "debugMessage": "no"});
        assert!(!runs(&of("r", |one| one["status"]["error"] = error)));
        let deleted = json!("2026-11-27T03:00:00Z");
        assert!(!runs(&of("r", |one| one["metadata"]["deletionTimestamp"] = deleted)));
    }

    #[tokio::test]
    async fn answers_are_taken_in_and_who_is_silent_is_named() {
        let mut all = [told("r", 2, 1), told("s", 2, 1)];
        let open: Open = all.iter().enumerate().map(|(place, one)| (key(one), place)).collect();
        let answers = || stream::iter([told("s", 2, 1), told("s", 2, 2)].map(Ok));
        let now = Instant::now();
        let waited = answers().chain(stream::pending());
        let failure = await_all(open.clone(), &mut all, waited, now).await.unwrap_err();
        assert!(failure.text().starts_with("r did not answer within 10s"), "{}", failure.text());
        assert_eq!(failure.exit, Exit::Retryable);
        assert_eq!(all.each_ref().map(|one| one.unanswered().is_some()), [true, false]);
        let ended = of("r", |object| object["status"]["state"] = json!("Failed"));
        let waited = answers().chain(stream::iter([Ok(ended)])).chain(stream::pending());
        await_all(open, &mut all, waited, now + PATIENCE).await.unwrap();
    }

    #[tokio::test]
    async fn who_may_not_ask_is_told_so_and_waits_for_nothing() {
        let asked: Arc<Mutex<Vec<(Method, String)>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Body>| {
            let at = (request.method().clone(), request.uri().path().to_owned());
            seen.lock().unwrap().push(at);
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "you may only read"});
            let body = Body::from(status.to_string().into_bytes());
            async { Ok::<_, KubeError>(Response::builder().status(403).body(body).unwrap()) }
        });
        let client = Client::new(service, "default");
        let mut all = [of("r", |_| {}), of("s", |_| {})];
        let failure = bring_up_to_date(&client, "a=b", &mut all).await.unwrap_err();
        assert!(failure.text().contains("you may only read"), "{}", failure.text());
        assert_eq!(all, [of("r", |_| {}), of("s", |_| {})]);
        let asked = asked.lock().unwrap();
        let place =
            "/apis/warren.nnf.cray.hpe.com/v1alpha1/namespaces/r/nodecontainers/default-w-1";
        assert_eq!(*asked, [(Method::PATCH, place.to_owned())]);
    }
}
