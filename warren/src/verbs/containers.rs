//! The containers of workflows, one line for each rabbit: their Jobs, and what the Jobs' pods say.

use api::names::label;
use containers::outcome::{self, State};
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    ResourceExt,
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
    job: String,
    phase: &'static str,
    /// Pods that failed; Kubernetes starts another for each, as often as the profile says.
    retries: i32,
    /// When the Job was made.
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
    let jobs = jobs.list(&selected).await.map_err(|error| failure::api("list Jobs", &error))?;
    let pods: Api<Pod> = Api::namespaced(client, &args.namespace);
    let pods = pods.list(&selected).await.map_err(|error| failure::api("list Pods", &error))?;
    let all: Vec<_> = jobs.items.iter().map(|job| of(job, &pods.items)).collect();
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

fn of(job: &Job, pods: &[Pod]) -> Line {
    let name = job.name_any();
    let state = outcome::state(job);
    let own = pods.iter().filter(|pod| pod.labels().get(label::JOB_NAME) == Some(&name));
    Line {
        workflow: job.labels().get(label::CONTAINER).cloned().unwrap_or_default(),
        rabbit: outcome::rabbit_of(job).to_owned(),
        role: job.labels().get(label::ROLE).cloned(),
        phase: phase(state),
        retries: job.status.as_ref().and_then(|status| status.failed).unwrap_or(0),
        since: job.creation_timestamp().map(|at| at.0),
        why: outcome::told(own),
        job: name,
    }
}

fn phase(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Ready => "ready",
        State::Succeeded => "succeeded",
        State::Suspended => "suspended",
        State::Failed => "failed",
        State::TooLate => "too late",
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
