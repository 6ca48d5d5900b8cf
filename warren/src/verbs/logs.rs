//! Prints the logs of a workflow's containers, which the rabbits keep until Teardown. Without Kubernetes, the last
//! 8 KiB of each log are in the status of NodeContainers; on request, the agents update the logs of running containers.

mod refresh;

use std::collections::BTreeSet;

use api::{NodeContainers, names::label};
use containers::outcome::rabbit_of_pod;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Error as KubeError, ResourceExt,
    api::{Api, LogParams},
};
use serde::Serialize;

use super::containers::{container_selector, lacks_jobs, node_containers};
use crate::args::Logs;
use crate::args::workflow::Hosts;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use cli::Exit;
use cli::Output;

/// The log of one container.
#[derive(Debug, Serialize)]
struct Log {
    rabbit: String,
    /// Role of an MPI container: `launcher` or `worker`; the first rabbit has both.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    pod: String,
    container: String,
    text: String,
}

pub(crate) async fn run(server: &ServerArgs, args: &Logs, output: Output) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &args.namespace);
    let (mut logs, mut failed) = (Vec::new(), None);
    let all = match pods.list(&container_selector(Some(&args.workflow))).await {
        Ok(all) => all.items,
        Err(error) if lacks_jobs(&error) => return print_from_agents(client, args, output).await,
        Err(error) => return Err(failure::api("list Pods", &error)),
    };
    for pod in selected_pods(all, args)? {
        for container in containers(&pod) {
            match read(&pods, &pod, container, args.tail).await {
                Ok(log) => logs.push(log),
                Err(KubeError::Api(status)) if status.code == 400 => {
                    // The container has not started yet, as the API's message says.
                    output.note(&format!("{}: {}", rabbit_of_pod(&pod), status.message));
                }
                Err(error) => {
                    let what = format!("read the log of {container} on {}", rabbit_of_pod(&pod));
                    failed.get_or_insert(failure::api(what, &error));
                }
            }
        }
    }
    print(&logs, output)?;
    failed.map_or(Ok(Exit::Done), Err)
}

/// Prints the logs in the status of NodeContainers.
async fn print_from_agents(client: Client, args: &Logs, output: Output) -> Result<Exit, Failure> {
    let mut runs = node_containers(client.clone(), Some(&args.workflow), &args.namespace).await?;
    let rabbits = Hosts::merge(&args.rabbit);
    runs.retain(|run| is_selected(&rabbits, &run.namespace().unwrap_or_default()));
    let places: Vec<String> = runs.iter().filter_map(ResourceExt::namespace).collect();
    check_found(args, &rabbits, places.iter().map(String::as_str))?;
    let labels = container_selector(Some(&args.workflow)).label_selector.unwrap_or_default();
    let refreshed = refresh::refresh_logs(&client, &labels, &mut runs).await;
    print(&logs_of(&runs, args.tail), output)?;
    refreshed.map(|()| Exit::Done)
}

/// Returns whether `rabbit` is in `rabbits`; an empty list selects every rabbit.
fn is_selected(rabbits: &[String], rabbit: &str) -> bool {
    rabbits.is_empty() || rabbits.iter().any(|selected| selected == rabbit)
}

/// Returns the pods on the rabbits of the command line, sorted by rabbit and age.
fn selected_pods(all: Vec<Pod>, args: &Logs) -> Result<Vec<Pod>, Failure> {
    let rabbits = Hosts::merge(&args.rabbit);
    let pods = pods_on(&rabbits, all);
    check_found(args, &rabbits, pods.iter().map(rabbit_of_pod))?;
    Ok(pods)
}

/// Checks that there are containers, and that each rabbit of the command line has some.
fn check_found<'a>(
    args: &Logs,
    rabbits: &[String],
    places: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let places: BTreeSet<&str> = places.collect();
    let missing: Vec<&String> =
        rabbits.iter().filter(|rabbit| !places.contains(rabbit.as_str())).collect();
    if missing.is_empty() && !places.is_empty() {
        return Ok(());
    }
    let on = if missing.is_empty() {
        String::new()
    } else {
        format!(" on {}", directive::hostlist::compress(&missing))
    };
    let what = format!("there are no containers of {}{on} to read logs of", args.workflow);
    let remedy = "`warren containers` lists the containers; Teardown removes them and their logs";
    Err(Failure::new(Exit::Failed, what).remedy(remedy))
}

/// Returns the logs in the status of NodeContainers, by rabbit and attempt.
fn logs_of(runs: &[NodeContainers], tail: Option<i64>) -> Vec<Log> {
    let mut logs = Vec::new();
    for run in runs {
        let ends = run.status.iter().flat_map(|status| &status.logs);
        logs.extend(ends.map(|log| Log {
            rabbit: run.namespace().unwrap_or_default(),
            role: run.labels().get(label::ROLE).cloned(),
            pod: format!("{}-{}", run.name_any(), log.attempt),
            container: log.container.clone(),
            text: last_lines(&log.text, tail),
        }));
    }
    logs
}

/// Returns the last `lines` lines of a text; all lines for `None`.
fn last_lines(text: &str, lines: Option<i64>) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let wanted = lines.map_or(all.len(), |lines| usize::try_from(lines).unwrap_or(0));
    all[all.len().saturating_sub(wanted)..].concat()
}

/// Returns the pods on these rabbits (on all for an empty list), sorted by rabbit and age.
fn pods_on(rabbits: &[String], mut all: Vec<Pod>) -> Vec<Pod> {
    all.retain(|pod| is_selected(rabbits, rabbit_of_pod(pod)));
    all.sort_by_key(|pod| (rabbit_of_pod(pod).to_owned(), pod.creation_timestamp()));
    all
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
        rabbit: rabbit_of_pod(pod).to_owned(),
        role: pod.labels().get(label::ROLE).cloned(),
        pod: pod.name_any(),
        container: container.to_owned(),
        text,
    })
}

/// Prints the logs, each line with its rabbit, role and container.
fn print(logs: &[Log], output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&logs);
    }
    for log in logs {
        let source = source_of(log);
        for line in log.text.lines() {
            output.line(&format!("{source}: {line}"))?;
        }
    }
    Ok(())
}

fn source_of(log: &Log) -> String {
    let role = log.role.as_ref().map(|role| format!("{role}/")).unwrap_or_default();
    format!("{}/{role}{}", log.rabbit, log.container)
}

/// Returns the names of a pod's containers, in the order in which they start.
fn containers(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|container| container.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn pods_are_selected_by_the_rabbit_they_are_bound_to() {
        let pod = |name: &str, rabbit: &str| -> Pod {
            let spec = json!({"hostname": name, "containers": [],
                "nodeSelector": {"kubernetes.io/hostname": rabbit}});
            from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let all = [pod("s", "s"), pod("w-worker-0", "r"), pod("w-worker-1", "s")];
        let names = |rabbits: &[&str]| -> Vec<String> {
            let rabbits: Vec<String> = rabbits.iter().map(|&name| name.to_owned()).collect();
            pods_on(&rabbits, all.to_vec()).iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(names(&["r"]), ["w-worker-0"]);
        assert_eq!(names(&["s"]), ["s", "w-worker-1"]);
        assert_eq!(names(&[]), ["w-worker-0", "s", "w-worker-1"]);
        assert!(names(&["t"]).is_empty());
    }

    #[test]
    fn logs_from_agents_are_cut_to_the_last_lines() {
        let run = |rabbit: &str| -> NodeContainers {
            from_value(json!({
                "metadata": {"name": "default-w-1", "namespace": rabbit},
                "spec": {"userID": 1, "groupID": 1, "hostname": rabbit, "containers": []},
                "status": {"state": "Failed", "attempt": 1, "logs": [
                    {"attempt": 1, "container": "app", "text": "a\nb\nc\n"}]},
            }))
            .unwrap()
        };
        let runs = [run("r"), run("s")];
        let logs = |tail| -> Vec<(String, String)> {
            logs_of(&runs, tail).into_iter().map(|log| (source_of(&log), log.text)).collect()
        };
        let log = |rabbit: &str, text: &str| (format!("{rabbit}/app"), text.to_owned());
        assert_eq!(logs(Some(2)), [log("r", "b\nc\n"), log("s", "b\nc\n")]);
        for tail in [None, Some(9)] {
            assert_eq!(logs(tail), [log("r", "a\nb\nc\n"), log("s", "a\nb\nc\n")]);
        }
    }

    #[test]
    fn the_source_of_an_mpi_containers_log_names_its_role() {
        let log = |role: Option<&str>| Log {
            rabbit: "r".to_owned(),
            role: role.map(str::to_owned),
            pod: "p".to_owned(),
            container: "app".to_owned(),
            text: String::new(),
        };
        assert_eq!(source_of(&log(None)), "r/app");
        assert_eq!(source_of(&log(Some("launcher"))), "r/launcher/app");
    }
}
