//! The logs of a workflow's containers, which their rabbits keep until Teardown. Where no Kubernetes runs them, their ends are in
//! what the rabbits' agents tell, who are asked for those of containers that run.

mod asked;

use std::collections::BTreeSet;

use api::{NodeContainers, names::label};
use containers::outcome::rabbit_of_pod;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Error as KubeError, ResourceExt,
    api::{Api, LogParams},
};
use serde::Serialize;

use super::containers::{is_no_kubernetes, on_rabbits, selected};
use crate::args::Logs;
use crate::args::workflow::Hosts;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

/// The log of one container.
#[derive(Debug, Serialize)]
struct Log {
    rabbit: String,
    /// Of MPI: `launcher` or `worker`, which are both on the first rabbit.
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
    let found = match pods.list(&selected(Some(&args.workflow))).await {
        Ok(found) => found.items,
        Err(error) if is_no_kubernetes(&error) => return told(client, args, output).await,
        Err(error) => return Err(failure::api("list Pods", &error)),
    };
    for pod in wanted(found, args)? {
        for container in containers(&pod) {
            match read(&pods, &pod, container, args.tail).await {
                Ok(log) => logs.push(log),
                Err(KubeError::Api(status)) if status.code == 400 => {
                    // It has not begun; the API says so.
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

/// Prints what agents tell.
async fn told(client: Client, args: &Logs, output: Output) -> Result<Exit, Failure> {
    let mut all = on_rabbits(client.clone(), Some(&args.workflow), &args.namespace).await?;
    let rabbits = Hosts::all(&args.rabbit);
    all.retain(|one| is_wanted(&rabbits, &one.namespace().unwrap_or_default()));
    let places: Vec<String> = all.iter().filter_map(ResourceExt::namespace).collect();
    found(args, &rabbits, places.iter().map(String::as_str))?;
    let labels = selected(Some(&args.workflow)).label_selector.unwrap_or_default();
    let asked = asked::bring_up_to_date(&client, &labels, &mut all).await;
    print(&reported(&all, args.tail), output)?;
    asked.map(|()| Exit::Done)
}

/// Whether a rabbit is one of these; all are where none is named.
fn is_wanted(rabbits: &[String], rabbit: &str) -> bool {
    rabbits.is_empty() || rabbits.iter().any(|one| one == rabbit)
}

/// The workflow's pods, by rabbit and age.
fn wanted(all: Vec<Pod>, args: &Logs) -> Result<Vec<Pod>, Failure> {
    let rabbits = Hosts::all(&args.rabbit);
    let all = on(&rabbits, all);
    found(args, &rabbits, all.iter().map(rabbit_of_pod))?;
    Ok(all)
}

/// Checks that there are containers, and some on each rabbit that is named.
fn found<'a>(
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
    let remedy =
        "`warren containers` lists what there is; Teardown removes containers and their logs";
    Err(Failure::new(Exit::Failed, what).remedy(remedy))
}

/// What agents reported of logs, by rabbit and attempt.
fn reported(all: &[NodeContainers], tail: Option<i64>) -> Vec<Log> {
    let mut logs = Vec::new();
    for one in all {
        let ends = one.status.iter().flat_map(|status| &status.logs);
        logs.extend(ends.map(|log| Log {
            rabbit: one.namespace().unwrap_or_default(),
            role: one.labels().get(label::ROLE).cloned(),
            pod: format!("{}-{}", one.name_any(), log.attempt),
            container: log.container.clone(),
            text: last(&log.text, tail),
        }));
    }
    logs
}

/// The last lines of a text, so many.
fn last(text: &str, lines: Option<i64>) -> String {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let wanted = lines.map_or(all.len(), |lines| usize::try_from(lines).unwrap_or(0));
    all[all.len().saturating_sub(wanted)..].concat()
}

/// Those on these rabbits, or on all when none is named; by rabbit and age.
fn on(rabbits: &[String], mut all: Vec<Pod>) -> Vec<Pod> {
    all.retain(|pod| is_wanted(rabbits, rabbit_of_pod(pod)));
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

/// Each line after its rabbit, role and container.
fn print(logs: &[Log], output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&logs);
    }
    for log in logs {
        let of = whose(log);
        for line in log.text.lines() {
            output.line(&format!("{of}: {line}"))?;
        }
    }
    Ok(())
}

fn whose(log: &Log) -> String {
    let role = log.role.as_ref().map(|role| format!("{role}/")).unwrap_or_default();
    format!("{}/{role}{}", log.rabbit, log.container)
}

/// Names of the containers in a pod, in the order in which they begin.
fn containers(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|one| one.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn pods_of_a_rabbit_are_those_bound_to_it_whatever_their_host_is_called() {
        let pod = |name: &str, rabbit: &str| -> Pod {
            let spec = json!({"hostname": name, "containers": [],
                "nodeSelector": {"kubernetes.io/hostname": rabbit}});
            from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let all = [pod("s", "s"), pod("w-worker-0", "r"), pod("w-worker-1", "s")];
        let names = |rabbits: &[&str]| -> Vec<String> {
            let rabbits: Vec<String> = rabbits.iter().map(|&name| name.to_owned()).collect();
            on(&rabbits, all.to_vec()).iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(names(&["r"]), ["w-worker-0"]);
        assert_eq!(names(&["s"]), ["s", "w-worker-1"]);
        assert_eq!(names(&[]), ["w-worker-0", "s", "w-worker-1"]);
        assert!(names(&["t"]).is_empty());
    }

    #[test]
    fn what_agents_told_is_cut_to_the_lines_that_are_wanted() {
        let of = |rabbit: &str| -> NodeContainers {
            from_value(json!({
                "metadata": {"name": "default-w-1", "namespace": rabbit},
                "spec": {"userID": 1, "groupID": 1, "hostname": rabbit, "containers": []},
                "status": {"state": "Failed", "attempt": 1, "logs": [
                    {"attempt": 1, "container": "app", "text": "a\nb\nc\n"}]},
            }))
            .unwrap()
        };
        let all = [of("r"), of("s")];
        let shown = |tail| -> Vec<(String, String)> {
            reported(&all, tail).into_iter().map(|log| (whose(&log), log.text)).collect()
        };
        let of = |rabbit: &str, text: &str| (format!("{rabbit}/app"), text.to_owned());
        assert_eq!(shown(Some(2)), [of("r", "b\nc\n"), of("s", "b\nc\n")]);
        for tail in [None, Some(9)] {
            assert_eq!(shown(tail), [of("r", "a\nb\nc\n"), of("s", "a\nb\nc\n")]);
        }
    }

    #[test]
    fn a_line_of_mpi_says_whether_it_is_the_launcher_s() {
        let log = |role: Option<&str>| Log {
            rabbit: "r".to_owned(),
            role: role.map(str::to_owned),
            pod: "p".to_owned(),
            container: "app".to_owned(),
            text: String::new(),
        };
        assert_eq!(whose(&log(None)), "r/app");
        assert_eq!(whose(&log(Some("launcher"))), "r/launcher/app");
    }
}
