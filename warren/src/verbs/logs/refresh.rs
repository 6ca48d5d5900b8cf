//! Requests the logs of running containers from the rabbits' agents, and waits for the answers. A request is an
//! annotation of the NodeContainers, an answer its status.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{NodeContainers, names::annotation};
use cli::Exit;
use containers::on_rabbit::logs_may_grow;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client, Error as KubeError, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::failure::{self, Failure};

/// Longest time that agents may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// For each NodeContainers whose agent has not answered yet, by namespace and name: its place in the list.
type Unanswered = BTreeMap<(Option<String>, String), usize>;

/// Updates the logs in NodeContainers with running containers. `labels` selects the NodeContainers in `all`.
///
/// # Errors
/// Names the rabbits whose logs may be outdated, and the reason. `all` keeps the logs known so far.
pub(super) async fn refresh_logs(
    client: &Client,
    labels: &str,
    all: &mut [NodeContainers],
) -> Result<(), Failure> {
    let (unanswered, refused) = request_all(client, all).await;
    if unanswered.is_empty() && refused.is_none() {
        return Ok(());
    }
    let config = watcher::Config::default().labels(labels);
    let answers = watcher::watcher(Api::all(client.clone()), config).touched_objects();
    let answered = await_all(unanswered, all, Box::pin(answers), Instant::now() + PATIENCE).await;
    refused.map_or(answered, |error| {
        Err(failure::api("request the logs of running containers from the rabbits' agents", &error))
    })
}

/// Requests the logs of all NodeContainers with running containers; stops at the first request that the API refuses.
async fn request_all(
    client: &Client,
    all: &mut [NodeContainers],
) -> (Unanswered, Option<KubeError>) {
    let mut unanswered = Unanswered::new();
    for (place, run) in all.iter_mut().enumerate().filter(|(_, run)| logs_may_grow(run)) {
        match request_logs(client, run).await {
            Ok(stored) => *run = stored,
            // The NodeContainers was deleted meanwhile.
            Err(KubeError::Api(status)) if status.code == 404 => continue,
            Err(error) => return (unanswered, Some(error)),
        }
        // The socket for users answers once the agent has answered.
        if run.unanswered_log_request().is_some() {
            unanswered.insert(key(run), place);
        }
    }
    (unanswered, None)
}

async fn request_logs(client: &Client, run: &NodeContainers) -> Result<NodeContainers, KubeError> {
    let api = Api::namespaced(client.clone(), &run.namespace().unwrap_or_default());
    let time = run.next_log_request(Timestamp::now()).to_string();
    let patch = json!({"metadata": {"annotations": {annotation::LOGS_ASKED: time}}});
    api.patch(&run.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Waits for all answers, in any order, and stores them in `all`.
async fn await_all(
    mut unanswered: Unanswered,
    all: &mut [NodeContainers],
    mut answers: impl Stream<Item = watcher::Result<NodeContainers>> + Unpin,
    deadline: Instant,
) -> Result<(), Failure> {
    while !unanswered.is_empty() {
        let Ok(Some(next)) = timeout_at(deadline, answers.next()).await else {
            return Err(no_answer(&unanswered));
        };
        let next = next.map_err(|error| {
            Failure::new(Exit::Retryable, "wait for the logs of running containers").because(&error)
        })?;
        if next.unanswered_log_request().is_none() || !logs_may_grow(&next) {
            let place = unanswered.remove(&key(&next));
            if let Some(run) = place.and_then(|place| all.get_mut(place)) {
                *run = next;
            }
        }
    }
    Ok(())
}

fn key(run: &NodeContainers) -> (Option<String>, String) {
    (run.namespace(), run.name_any())
}

fn no_answer(unanswered: &Unanswered) -> Failure {
    let rabbits: BTreeSet<&str> =
        unanswered.keys().filter_map(|(rabbit, _)| rabbit.as_deref()).collect();
    let rabbits = rabbits.into_iter().collect::<Vec<_>>().join(", ");
    let patience = humantime::format_duration(PATIENCE);
    let what = format!(
        "{rabbits} did not answer within {patience}: the latest output of containers that run there is not shown"
    );
    let remedy = "check that rabbit-agent runs there; an agent that is fetching an image answers afterwards. See `warren containers`";
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

    fn run(rabbit: &str, edit: impl FnOnce(&mut Value)) -> NodeContainers {
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

    /// Returns a NodeContainers with the times of the last request and of the last answer, in seconds.
    fn run_with_answer(rabbit: &str, requested: u32, answered: u32) -> NodeContainers {
        let at = |second| format!("2026-11-27T03:00:{second:02}Z");
        run(rabbit, |object| {
            object["metadata"]["annotations"] = json!({annotation::LOGS_ASKED: at(requested)});
            object["status"]["logsAnswered"] = json!(at(answered));
        })
    }

    #[test]
    fn logs_are_requested_only_of_running_containers() {
        assert!(logs_may_grow(&run("r", |_| {})));
        assert!(
            logs_may_grow(&run("r", |object| object["status"] = Value::Null)),
            "the containers may start at any moment"
        );
        for state in ["Succeeded", "Failed", "TooLate", "Unprepared", "Suspended"] {
            assert!(
                !logs_may_grow(&run("r", |object| object["status"]["state"] = json!(state))),
                "{state}"
            );
        }
        assert!(
            !logs_may_grow(&run("r", |object| object["spec"]["containers"] = json!([]))),
            "a NodeContainers that only fetches packages"
        );
        let error = json!({"type": "User", "severity": "Fatal", "debugMessage": "no"});
        assert!(!logs_may_grow(&run("r", |object| object["status"]["error"] = error)));
        let deleted = json!("2026-11-27T03:00:00Z");
        assert!(!logs_may_grow(
            &run("r", |object| object["metadata"]["deletionTimestamp"] = deleted)
        ));
    }

    #[tokio::test]
    async fn answers_are_stored_and_a_silent_rabbit_is_named() {
        let mut all = [run_with_answer("r", 2, 1), run_with_answer("s", 2, 1)];
        let unanswered: Unanswered =
            all.iter().enumerate().map(|(place, run)| (key(run), place)).collect();
        let answers =
            || stream::iter([run_with_answer("s", 2, 1), run_with_answer("s", 2, 2)].map(Ok));
        let now = Instant::now();
        let waited = answers().chain(stream::pending());
        let failure = await_all(unanswered.clone(), &mut all, waited, now).await.unwrap_err();
        assert!(failure.text().starts_with("r did not answer within 10s"), "{}", failure.text());
        assert_eq!(failure.exit, Exit::Retryable);
        assert_eq!(all.each_ref().map(|run| run.unanswered_log_request().is_some()), [true, false]);
        let ended = run("r", |object| object["status"]["state"] = json!("Failed"));
        let waited = answers().chain(stream::iter([Ok(ended)])).chain(stream::pending());
        await_all(unanswered, &mut all, waited, now + PATIENCE).await.unwrap();
    }

    #[tokio::test]
    async fn a_refused_request_ends_the_refresh_with_the_refusal() {
        let requests: Arc<Mutex<Vec<(Method, String)>>> = Arc::default();
        let received = Arc::clone(&requests);
        let service = service_fn(move |request: Request<Body>| {
            let at = (request.method().clone(), request.uri().path().to_owned());
            received.lock().unwrap().push(at);
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "you may only read"});
            let body = Body::from(status.to_string().into_bytes());
            async { Ok::<_, KubeError>(Response::builder().status(403).body(body).unwrap()) }
        });
        let client = Client::new(service, "default");
        let mut all = [run("r", |_| {}), run("s", |_| {})];
        let failure = refresh_logs(&client, "a=b", &mut all).await.unwrap_err();
        assert!(failure.text().contains("you may only read"), "{}", failure.text());
        assert_eq!(all, [run("r", |_| {}), run("s", |_| {})]);
        let requests = requests.lock().unwrap();
        let place =
            "/apis/warren.nnf.cray.hpe.com/v1alpha1/namespaces/r/nodecontainers/default-w-1";
        assert_eq!(*requests, [(Method::PATCH, place.to_owned())]);
    }
}
