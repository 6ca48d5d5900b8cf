//! The containers of workflows, one line for each rabbit: their Jobs, and what the Jobs' pods say; or, where no Kubernetes runs
//! them, what the rabbits' agents say.

use api::{NodeContainers, names::label};
use apiclient::list_readable;
use containers::{
    on_rabbit,
    outcome::{self, State},
};
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams},
};
use serde::Serialize;

use super::nodes::age;
use crate::args::Containers;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

const HEADER: [&str; 7] = ["WORKFLOW", "RABBIT", "ROLE", "PHASE", "RETRIES", "AGE", "WHY"];

/// The containers of one workflow on one rabbit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    workflow: String,
    rabbit: String,
    /// Of MPI: `launcher` or `worker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// Name of the Job, or of what the rabbit's agent runs.
    job: String,
    phase: &'static str,
    /// Attempts that failed; another is started for each, as often as the profile says.
    retries: i32,
    /// When that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// What it waits for, or how it failed: container, exit code or signal, the last lines of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Containers,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let selected = selected(args.workflow.as_deref());
    let jobs: Api<Job> = Api::namespaced(client.clone(), &args.namespace);
    let all: Vec<_> = match jobs.list(&selected).await {
        Ok(jobs) => {
            let pods: Api<Pod> = Api::namespaced(client, &args.namespace);
            let pods = pods.list(&selected).await;
            let pods = pods.map_err(|error| failure::api("list Pods", &error))?;
            jobs.items.iter().map(|job| of(job, &pods.items)).collect()
        }
        Err(error) if is_no_kubernetes(&error) => {
            let all = on_rabbits(client, args.workflow.as_deref(), &args.namespace).await?;
            all.iter().filter(|one| is_told(one)).map(of_rabbit).collect()
        }
        Err(error) => return Err(failure::api("list Jobs", &error)),
    };
    if output.is_json() {
        output.json(&all)?;
    } else if all.is_empty() {
        output.note("no containers");
    } else {
        let rows: Vec<_> = all.iter().map(|one| row(one, Timestamp::now())).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Selects what belongs to the containers of one workflow, or of all.
pub(super) fn selected(workflow: Option<&str>) -> ListParams {
    let all = label::CONTAINER;
    let selector = workflow.map_or_else(|| all.to_owned(), |name| format!("{all}={name}"));
    ListParams::default().labels(&selector)
}

/// Whether the API has no Jobs: no Kubernetes runs containers.
pub(super) fn is_no_kubernetes(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// What the rabbits' agents run for workflows of this Kubernetes namespace, by workflow and rabbit.
pub(super) async fn on_rabbits(
    client: Client,
    workflow: Option<&str>,
    namespace: &str,
) -> Result<Vec<NodeContainers>, Failure> {
    let listed = list_readable(client, None, &selected(workflow)).await;
    let mut all: Vec<NodeContainers> =
        listed.map_err(|error| failure::api("list NodeContainers", &error))?.items;
    let of = |one: &NodeContainers| one.labels().get(label::WORKFLOW_NAMESPACE).cloned();
    all.retain(|one| of(one).as_deref() == Some(namespace));
    all.sort_by_key(|one| (one.labels().get(label::CONTAINER).cloned(), one.namespace()));
    Ok(all)
}

/// Containers that only bring packages are listed until their rabbit has these.
fn is_told(one: &NodeContainers) -> bool {
    !one.spec.containers.is_empty() || on_rabbit::state(one) != State::Ready
}

fn of_rabbit(one: &NodeContainers) -> Line {
    let attempt = one.status.as_ref().map_or(0, |status| status.attempt);
    Line {
        workflow: one.labels().get(label::CONTAINER).cloned().unwrap_or_default(),
        rabbit: one.namespace().unwrap_or_default(),
        role: one.labels().get(label::ROLE).cloned(),
        job: one.name_any(),
        phase: on_rabbit::state(one).label(),
        retries: i32::try_from(attempt - 1).unwrap_or(0).max(0),
        since: one.creation_timestamp().map(|at| at.0),
        why: on_rabbit::reason(one),
    }
}

fn of(job: &Job, pods: &[Pod]) -> Line {
    let name = job.name_any();
    let state = outcome::state(job);
    let own = pods.iter().filter(|pod| pod.labels().get(label::JOB_NAME) == Some(&name));
    Line {
        workflow: job.labels().get(label::CONTAINER).cloned().unwrap_or_default(),
        rabbit: outcome::rabbit_of(job).to_owned(),
        role: job.labels().get(label::ROLE).cloned(),
        phase: state.label(),
        retries: job.status.as_ref().and_then(|status| status.failed).unwrap_or(0),
        since: job.creation_timestamp().map(|at| at.0),
        why: outcome::reason(own),
        job: name,
    }
}

fn row(one: &Line, now: Timestamp) -> Vec<String> {
    let age = one.since.map(|since| age(now.duration_since(since).as_secs()));
    vec![
        one.workflow.clone(),
        one.rabbit.clone(),
        one.role.clone().unwrap_or_else(|| "-".to_owned()),
        one.phase.to_owned(),
        one.retries.to_string(),
        age.unwrap_or_default(),
        one.why.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_a_rabbit_runs_is_a_line_and_its_agent_says_why() {
        let one: NodeContainers = from_value(json!({
            "metadata": {"name": "default-w-1", "namespace": "r", "labels": {"nnf.cray.hpe.com/container": "w"},
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"userID": 1, "groupID": 1, "hostname": "r", "containers": []},
            "status": {"state": "Failed", "attempt": 3, "message": "container app exited with 3"},
        }))
        .unwrap();
        let told = row(&of_rabbit(&one), "2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(told, ["w", "r", "-", "failed", "2", "2m", "container app exited with 3"]);
    }

    #[test]
    fn a_job_is_a_line_and_its_latest_pod_says_why() {
        let labels = json!({"nnf.cray.hpe.com/container": "w"});
        let job: Job = from_value(json!({
            "metadata": {"name": "w-r", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "r"}, "containers": []}}},
            "status": {"failed": 1},
        }))
        .unwrap();
        let pod = |job: &str, reason: &str| -> Pod {
            let waiting = json!([{"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                                  "state": {"waiting": {"reason": reason}}}]);
            from_value(json!({
                "metadata": {"name": "p", "labels": {"batch.kubernetes.io/job-name": job}},
                "status": {"containerStatuses": waiting},
            }))
            .unwrap()
        };
        let one = of(&job, &[pod("w-s", "ErrImagePull"), pod("w-r", "ImagePullBackOff")]);
        let told = row(&one, "2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(told, ["w", "r", "-", "starting", "1", "2m", "container app: ImagePullBackOff"]);
    }
}
