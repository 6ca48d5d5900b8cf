//! Lists the containers of workflows, one line per rabbit: from Jobs and their pods, or, without Kubernetes, from the
//! NodeContainers that the rabbits' agents run.

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
use cli::Exit;
use cli::Output;

const HEADER: [&str; 7] = ["WORKFLOW", "RABBIT", "ROLE", "PHASE", "RETRIES", "AGE", "WHY"];

/// The containers of one workflow on one rabbit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    workflow: String,
    rabbit: String,
    /// Role of an MPI container: `launcher` or `worker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// Name of the Job, or of the NodeContainers.
    job: String,
    phase: &'static str,
    /// Number of failed attempts; the profile says how often another attempt is started.
    retries: i32,
    /// Creation time of the Job or NodeContainers.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// The reason why the container waits or failed: its name, exit code or signal, and the last lines of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Containers,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let selector = container_selector(args.workflow.as_deref());
    let jobs: Api<Job> = Api::namespaced(client.clone(), &args.namespace);
    let lines: Vec<_> = match jobs.list(&selector).await {
        Ok(jobs) => {
            let pods: Api<Pod> = Api::namespaced(client, &args.namespace);
            let pods = pods.list(&selector).await;
            let pods = pods.map_err(|error| failure::api("list Pods", &error))?;
            jobs.items.iter().map(|job| job_line(job, &pods.items)).collect()
        }
        Err(error) if lacks_jobs(&error) => {
            let runs = node_containers(client, args.workflow.as_deref(), &args.namespace).await?;
            runs.iter().filter(|run| is_listed(run)).map(rabbit_line).collect()
        }
        Err(error) => return Err(failure::api("list Jobs", &error)),
    };
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no containers");
    } else {
        let rows: Vec<_> = lines.iter().map(|line| row(line, Timestamp::now())).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Returns a selector for the objects of the containers of one workflow, or of all workflows.
pub(super) fn container_selector(workflow: Option<&str>) -> ListParams {
    let all = label::CONTAINER;
    let selector = workflow.map_or_else(|| all.to_owned(), |name| format!("{all}={name}"));
    ListParams::default().labels(&selector)
}

/// Returns whether the error means that the API serves no Jobs: then no Kubernetes runs containers.
pub(super) fn lacks_jobs(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the NodeContainers of workflows of this Kubernetes namespace, sorted by workflow and rabbit.
pub(super) async fn node_containers(
    client: Client,
    workflow: Option<&str>,
    namespace: &str,
) -> Result<Vec<NodeContainers>, Failure> {
    let listed = list_readable(client, None, &container_selector(workflow)).await;
    let mut runs: Vec<NodeContainers> =
        listed.map_err(|error| failure::api("list NodeContainers", &error))?.items;
    let namespace_of = |run: &NodeContainers| run.labels().get(label::WORKFLOW_NAMESPACE).cloned();
    runs.retain(|run| namespace_of(run).as_deref() == Some(namespace));
    runs.sort_by_key(|run| (run.labels().get(label::CONTAINER).cloned(), run.namespace()));
    Ok(runs)
}

/// Returns whether to list a NodeContainers. A NodeContainers that only fetches job packages is listed until
/// its rabbit has them.
fn is_listed(run: &NodeContainers) -> bool {
    !run.spec.containers.is_empty() || on_rabbit::state(run) != State::Ready
}

fn rabbit_line(run: &NodeContainers) -> Line {
    let attempt = run.status.as_ref().map_or(0, |status| status.attempt);
    Line {
        workflow: run.labels().get(label::CONTAINER).cloned().unwrap_or_default(),
        rabbit: run.namespace().unwrap_or_default(),
        role: run.labels().get(label::ROLE).cloned(),
        job: run.name_any(),
        phase: on_rabbit::state(run).label(),
        retries: i32::try_from(attempt - 1).unwrap_or(0).max(0),
        since: run.creation_timestamp().map(|at| at.0),
        why: on_rabbit::reason(run),
    }
}

fn job_line(job: &Job, pods: &[Pod]) -> Line {
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

fn row(line: &Line, now: Timestamp) -> Vec<String> {
    let age = line.since.map(|since| age(now.duration_since(since).as_secs()));
    vec![
        line.workflow.clone(),
        line.rabbit.clone(),
        line.role.clone().unwrap_or_else(|| "-".to_owned()),
        line.phase.to_owned(),
        line.retries.to_string(),
        age.unwrap_or_default(),
        line.why.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_node_containers_is_a_line_with_the_agents_reason() {
        let run: NodeContainers = from_value(json!({
            "metadata": {"name": "default-w-1", "namespace": "r", "labels": {"nnf.cray.hpe.com/container": "w"},
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"userID": 1, "groupID": 1, "hostname": "r", "containers": []},
            "status": {"state": "Failed", "attempt": 3, "message": "container app exited with 3"},
        }))
        .unwrap();
        let row = row(&rabbit_line(&run), "2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(row, ["w", "r", "-", "failed", "2", "2m", "container app exited with 3"]);
    }

    #[test]
    fn a_job_is_a_line_with_the_reason_of_its_own_pod() {
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
        let line = job_line(&job, &[pod("w-s", "ErrImagePull"), pod("w-r", "ImagePullBackOff")]);
        let row = row(&line, "2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(row, ["w", "r", "-", "starting", "1", "2m", "container app: ImagePullBackOff"]);
    }
}
