//! Runs a command with storage, from the first directive to the last byte removed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use api::names::label;
use api::{ClientMount, NnfNodeStorage, Workflow, WorkflowState};
use apiclient::WatchBackoff;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use workload::Seen;

use crate::args::workflow::Run;
use crate::client::ServerArgs;
use crate::failure::Failure;
use crate::workflow::drive::Drive;
use crate::workflow::launch::{self, Job, Running};
use crate::workflow::life::{Life, both, directives, proposal};
use crate::workflow::recorder::Recorder;
use crate::workflow::signals::Signals;
use crate::workflow::timeline::{Timeline, gantt, svg};
use nodeclient::Exit;
use nodeclient::Output;

type Record = Arc<Mutex<Recorder>>;

pub(crate) async fn run(server: &ServerArgs, args: &Run, output: Output) -> Result<Exit, Failure> {
    let lines = directives(&args.directives)?;
    let nodes = nodes(args)?;
    if let Err(error) = launch::find(args.launcher.as_ref(), &args.command) {
        output.failure(&Failure::new(Exit::Usage, error.to_string()));
        std::process::exit(error.status());
    }
    let mut signals = Signals::listen()?;
    let client = server.client(output).await?;
    let life = Life::new(client, &args.owner, args.timeout, output);
    let name = life.drive.name().to_owned();
    let record = Record::default();
    let _watches = (args.timeline || args.svg.is_some()).then(|| watches(&life, &record));
    let workflow = proposal(&name, &args.owner, "warren", &name, lines);
    let lived = live(&life, args, &workflow, &nodes, &mut signals, &record).await;
    let ended = signals.despite(output, life.end()).await;
    let remedy = "what it made is removed: correct what is wrong, and run it again; --verbose says what each node and object told";
    let remedy =
        if ended.is_ok() { remedy } else { "--verbose says what each node and object told" };
    let status = both(output, lived, ended).map_err(|failure| failure.or_remedy(remedy));
    show(args, output, &record)?;
    hand_on(output, &name, status)
}

/// From Proposal to DataOut; the command's status.
async fn live(
    life: &Life,
    args: &Run,
    workflow: &Workflow,
    nodes: &[String],
    signals: &mut Signals,
    record: &Record,
) -> Result<u8, Failure> {
    let _renewal = life.begin_leased(workflow.clone()).await?;
    let prepared = async {
        let proposed = noted(record, life.go_to(&WorkflowState::Proposal).await?);
        life.name_computes(&proposed, nodes).await?;
        for state in [WorkflowState::Setup, WorkflowState::DataIn] {
            noted(record, life.go_to(&state).await?);
        }
        Ok(noted(record, life.go_to(&WorkflowState::PreRun).await?))
    };
    let ready = signals.or(prepared).await?;
    let status = command(args, &ready, nodes, signals, life.output).await?;
    let finished = async {
        for state in [WorkflowState::PostRun, WorkflowState::DataOut] {
            noted(record, life.go_to(&state).await?);
        }
        Ok(())
    };
    signals.or(finished).await?;
    Ok(status)
}

/// Runs the command on the computes.
async fn command(
    args: &Run,
    ready: &Workflow,
    nodes: &[String],
    signals: &mut Signals,
    output: Output,
) -> Result<u8, Failure> {
    let id = |id: i64| u32::try_from(id).unwrap_or_default();
    let job = Job {
        nodes: nodes.to_vec(),
        environment: environment(ready, nodes),
        user: id(ready.spec.user_id),
        group: id(ready.spec.group_id),
        command: args.command.clone(),
    };
    let mut running: Vec<Running> = Vec::new();
    for launch in launch::launches(args.launcher.as_ref(), &job) {
        let what = format!("start {}", launch.words.first().map_or("the command", String::as_str));
        match launch::start(launch, &job, args.launcher.is_none()) {
            Ok(started) => running.push(started),
            Err(error) => {
                launch::stop(&mut running, launch::GRACE).await;
                return Err(Failure::new(Exit::Usage, what).because(&error));
            }
        }
    }
    tokio::select! {
        ended = launch::wait(&mut running) => {
            for why in running.iter().zip(&ended).filter_map(|(running, ended)| running.failure(ended)) {
                output.note(&why);
            }
            Ok(launch::handed_on(&ended))
        }
        failure = signals.next() => {
            launch::stop(&mut running, launch::GRACE).await;
            Err(failure)
        }
    }
}

/// What the command finds in its environment.
fn environment(ready: &Workflow, nodes: &[String]) -> BTreeMap<String, String> {
    let published = ready.status.iter().flat_map(|status| &status.env);
    // A status is not guarded as a spec is, and the launcher may run as root: nobody else's LD_PRELOAD.
    let of_storage =
        published.filter(|(name, _)| ["DW_", "NNF_"].iter().any(|prefix| name.starts_with(prefix)));
    let of_storage = of_storage.map(|(name, value)| (name.clone(), value.clone()));
    let own = ("WARREN_NODES".to_owned(), directive::hostlist::compress(nodes));
    of_storage.chain([own]).collect()
}

/// Ends with the command's own status, of which [`Exit`] knows nothing.
fn hand_on(output: Output, name: &str, status: Result<u8, Failure>) -> Result<Exit, Failure> {
    let status = status?;
    if output.is_json() {
        output.text_beside(&json!({"workflow": name, "commandStatus": status}).to_string());
    }
    if status == 0 {
        return Ok(Exit::Done);
    }
    std::process::exit(i32::from(status))
}

fn show(args: &Run, output: Output, record: &Record) -> Result<(), Failure> {
    let timeline = record.lock().unwrap_or_else(PoisonError::into_inner).timeline();
    if args.timeline {
        output.text_beside(&gantt(&timeline, jiff::Timestamp::now()));
    }
    match &args.svg {
        Some(file) => write_svg(file, &timeline),
        None => Ok(()),
    }
}

/// # Errors
/// When the file cannot be written.
pub(super) fn write_svg(file: &Path, timeline: &Timeline) -> Result<(), Failure> {
    std::fs::write(file, svg(timeline, jiff::Timestamp::now())).map_err(|error| {
        Failure::new(Exit::Failed, format!("write {}", file.display())).because(&error)
    })
}

/// The job's computes; this host when none are named.
fn nodes(args: &Run) -> Result<Vec<String>, Failure> {
    let nodes = match &args.nodes {
        Some(nodes) => nodes.0.clone(),
        None => {
            let host = nix::unistd::gethostname()
                .map_err(|error| Failure::new(Exit::Usage, "--nodes is missing").because(&error))?;
            vec![host.to_string_lossy().into_owned()]
        }
    };
    let mut seen = std::collections::HashSet::new();
    match nodes.iter().find(|node| !seen.insert(*node)) {
        Some(twice) => Err(Failure::new(Exit::Usage, format!("--nodes names {twice} twice"))),
        None if nodes.is_empty() => Err(Failure::new(Exit::Usage, "--nodes names no node")),
        None => Ok(nodes),
    }
}

fn noted(record: &Record, workflow: Workflow) -> Workflow {
    with(record, |record| record.workflow(&workflow));
    workflow
}

/// A panic of another task leaves the record as it is.
fn with(record: &Record, change: impl FnOnce(&mut Recorder)) {
    change(&mut record.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Watches the workflow and what its nodes do, until it is dropped.
fn watches(life: &Life, record: &Record) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    watches.spawn(states(life.drive.clone(), record.clone()));
    let selector = format!("{}={}", label::WORKFLOW_NAME, life.drive.name());
    let config = watcher::Config::default().labels(&selector);
    let mounts = watch(Api::<ClientMount>::all(life.client.clone()), config.clone())
        .backoff(WatchBackoff::default());
    let of_mounts = record.clone();
    watches.spawn(mounts.for_each(move |event| {
        let now = jiff::Timestamp::now();
        with(&of_mounts, |record| match event {
            Ok(Event::Apply(mount) | Event::InitApply(mount)) => record.mount(&mount, now),
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) | Err(_) => {}
        });
        std::future::ready(())
    }));
    let storages = watch(Api::<NnfNodeStorage>::all(life.client.clone()), config)
        .backoff(WatchBackoff::default());
    let of_storages = record.clone();
    watches.spawn(storages.for_each(move |event| {
        let now = jiff::Timestamp::now();
        with(&of_storages, |record| match event {
            Ok(Event::Apply(storage) | Event::InitApply(storage)) => {
                record.file_systems(&storage, now);
            }
            Ok(Event::Delete(storage)) => {
                record.removed(&storage.namespace().unwrap_or_default(), now);
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        });
        std::future::ready(())
    }));
    watches
}

async fn states(drive: Drive, record: Record) {
    let mut events = std::pin::pin!(drive.events());
    while let Some(seen) = events.next().await {
        if let Seen::Workflow(workflow) = seen {
            with(&record, |record| record.workflow(&workflow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_finds_its_storage_in_its_environment_and_nothing_that_changes_the_launcher() {
        let workflow: Workflow = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"desiredState": "PreRun", "wlmID": "w", "jobID": 1, "userID": 1, "groupID": 1, "dwDirectives": []},
            "status": {"ready": true, "env": {
                "DW_JOB_scratch": "/mnt/nnf/a", "NNF_CONTAINER_PORTS": "4000", "LD_PRELOAD": "/tmp/a.so", "PATH": "/tmp",
                "BASH_ENV": "/tmp/a", "xDW_JOB_a": "b", "WARREN_NODES": "elsewhere"
            }}
        }))
        .unwrap();
        let nodes = ["c1", "c2"].map(str::to_owned);
        let environment: Vec<_> = environment(&workflow, &nodes).into_iter().collect();
        let own = [
            ("DW_JOB_scratch", "/mnt/nnf/a"),
            ("NNF_CONTAINER_PORTS", "4000"),
            ("WARREN_NODES", "c[1-2]"),
        ];
        assert_eq!(environment, own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
