//! The logs of a workflow's containers, which their rabbits keep until Teardown.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Error as KubeError, ResourceExt,
    api::{Api, LogParams},
};
use serde::Serialize;

use super::containers::selected;
use crate::args::Logs;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

/// The log of one container.
#[derive(Debug, Serialize)]
struct Log {
    rabbit: String,
    pod: String,
    container: String,
    text: String,
}

pub(crate) async fn run(server: &ServerArgs, args: &Logs, output: Output) -> Result<Exit, Failure> {
    let pods: Api<Pod> = Api::namespaced(server.client(output).await?, &args.namespace);
    let (mut logs, mut failed) = (Vec::new(), None);
    for pod in wanted(&pods, args).await? {
        for container in containers(&pod) {
            match read(&pods, &pod, container, args.tail).await {
                Ok(log) => logs.push(log),
                Err(KubeError::Api(status)) if status.code == 400 => {
                    // It has not begun; the API says so.
                    output.note(&format!("{}: {}", rabbit_of(&pod), status.message));
                }
                Err(error) => {
                    let what = format!("read the log of {container} on {}", rabbit_of(&pod));
                    failed.get_or_insert(failure::api(what, &error));
                }
            }
        }
    }
    tell(&logs, output)?;
    failed.map_or(Ok(Exit::Done), Err)
}

/// The workflow's pods, by rabbit and age.
async fn wanted(pods: &Api<Pod>, args: &Logs) -> Result<Vec<Pod>, Failure> {
    let listed = pods.list(&selected(Some(&args.workflow))).await;
    let mut all = listed.map_err(|error| failure::api("list Pods", &error))?.items;
    let is_wanted =
        |rabbit: &str| args.rabbit.is_empty() || args.rabbit.iter().any(|one| one == rabbit);
    all.retain(|pod| is_wanted(rabbit_of(pod)));
    all.sort_by_key(|pod| (rabbit_of(pod).to_owned(), pod.creation_timestamp()));
    if all.is_empty() {
        let what = format!("there are no containers of {} to read logs of", args.workflow);
        let remedy =
            "`warren containers` lists what there is; Teardown removes containers and their logs";
        return Err(Failure::new(Exit::Failed, what).remedy(remedy));
    }
    Ok(all)
}

async fn read(
    pods: &Api<Pod>,
    pod: &Pod,
    container: &str,
    tail: Option<i64>,
) -> Result<Log, KubeError> {
    let parameters = LogParams {
        container: Some(container.to_owned()),
        tail_lines: tail,
        ..LogParams::default()
    };
    let text = pods.logs(&pod.name_any(), &parameters).await?;
    Ok(Log {
        rabbit: rabbit_of(pod).to_owned(),
        pod: pod.name_any(),
        container: container.to_owned(),
        text,
    })
}

/// Each line after its rabbit and container.
fn tell(logs: &[Log], output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&logs);
    }
    for log in logs {
        for line in log.text.lines() {
            output.line(&format!("{}/{}: {line}", log.rabbit, log.container))?;
        }
    }
    Ok(())
}

/// Names of the containers in a pod, in the order in which they begin.
fn containers(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|one| one.name.as_str())
}

fn rabbit_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref()).unwrap_or_default()
}
