//! Runs a command with storage: makes the storage, runs the command, removes the storage.

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
use workload::FlowEvent;

use crate::args::workflow::Run;
use crate::client::ServerArgs;
use crate::failure::Failure;
use crate::workflow::drive::Drive;
use crate::workflow::launch::{self, Job, Running};
use crate::workflow::life::{Life, combine, directives, proposal};
use crate::workflow::recorder::Recorder;
use crate::workflow::signals::Signals;
use crate::workflow::timeline::{Timeline, gantt, svg};
use cli::Exit;
use cli::Output;

type Record = Arc<Mutex<Recorder>>;

pub(crate) async fn run(server: &ServerArgs, args: &Run, output: Output) -> Result<Exit, Failure> {
    let lines = directives(&args.directives)?;
    let nodes = nodes(args)?;
    if let Err(error) = launch::check_program(args.launcher.as_ref(), &args.command) {
        output.failure(&Failure::new(Exit::Usage, error.to_string()));
        std::process::exit(error.status());
    }
    let mut signals = Signals::listen()?;
    let client = server.client(output).await?;
    let life = Life::new(client, &args.owner, args.timeout, output);
    let name = life.drive.name().to_owned();
    let record = Record::default();
    let _watches = (args.timeline || args.svg.is_some()).then(|| start_watches(&life, &record));
    let workflow = proposal(&name, &args.owner, "warren", &name, lines);
    let result = run_job(&life, args, &workflow, &nodes, &mut signals, &record).await;
    let cleanup = signals.uninterrupted(output, life.end()).await;
    let remedy = "nothing is left of the job's storage: correct the error, and run the command again; --verbose prints the messages of nodes and objects";
    let remedy =
        if cleanup.is_ok() { remedy } else { "--verbose prints the messages of nodes and objects" };
    let status = combine(output, result, cleanup).map_err(|failure| failure.or_remedy(remedy));
    show_timeline(args, output, &record)?;
    exit_with(output, &name, status)
}

/// Drives the workflow from Proposal to DataOut, and runs the command in PreRun. Returns the command's status.
async fn run_job(
    life: &Life,
    args: &Run,
    workflow: &Workflow,
    nodes: &[String],
    signals: &mut Signals,
    record: &Record,
) -> Result<u8, Failure> {
    let _renewal = life.begin_leased(workflow.clone()).await?;
    let prepared = async {
        let proposed = record_state(record, life.go_to(&WorkflowState::Proposal).await?);
        life.name_computes(&proposed, nodes).await?;
        for state in [WorkflowState::Setup, WorkflowState::DataIn] {
            record_state(record, life.go_to(&state).await?);
        }
        Ok(record_state(record, life.go_to(&WorkflowState::PreRun).await?))
    };
    let ready = signals.until_signal(prepared).await?;
    let status = run_command(args, &ready, nodes, signals, life.output).await?;
    let finished = async {
        for state in [WorkflowState::PostRun, WorkflowState::DataOut] {
            record_state(record, life.go_to(&state).await?);
        }
        Ok(())
    };
    signals.until_signal(finished).await?;
    Ok(status)
}

/// Runs the command on the computes. Returns its status.
async fn run_command(
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
        statuses = launch::wait(&mut running) => {
            for why in running.iter().zip(&statuses).filter_map(|(running, status)| running.failure(status)) {
                output.note(&why);
            }
            Ok(launch::exit_status(&statuses))
        }
        failure = signals.next() => {
            launch::stop(&mut running, launch::GRACE).await;
            Err(failure)
        }
    }
}

/// Returns the environment variables for the command.
fn environment(ready: &Workflow, nodes: &[String]) -> BTreeMap<String, String> {
    let published = ready.status.iter().flat_map(|status| &status.env);
    // Passes on only variables of storage. More clients may write a Workflow's status than its spec, and the launcher
    // may run as root: a variable such as LD_PRELOAD could make root run foreign code.
    let storage =
        published.filter(|(name, _)| ["DW_", "NNF_"].iter().any(|prefix| name.starts_with(prefix)));
    let storage = storage.map(|(name, value)| (name.clone(), value.clone()));
    let own = ("WARREN_NODES".to_owned(), directive::hostlist::compress(nodes));
    storage.chain([own]).collect()
}

/// Exits with the command's own status, which [`Exit`] cannot express.
fn exit_with(output: Output, name: &str, status: Result<u8, Failure>) -> Result<Exit, Failure> {
    let status = status?;
    if output.is_json() {
        output.text_beside(&json!({"workflow": name, "commandStatus": status}).to_string());
    }
    if status == 0 {
        return Ok(Exit::Done);
    }
    std::process::exit(i32::from(status))
}

fn show_timeline(args: &Run, output: Output, record: &Record) -> Result<(), Failure> {
    let timeline = record.lock().unwrap_or_else(PoisonError::into_inner).timeline();
    if args.timeline {
        output.text_beside(&gantt(&timeline, jiff::Timestamp::now()));
    }
    match &args.svg {
        Some(file) => write_svg(file, &timeline),
        None => Ok(()),
    }
}

/// Writes a timeline to an SVG file.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_svg(file: &Path, timeline: &Timeline) -> Result<(), Failure> {
    std::fs::write(file, svg(timeline, jiff::Timestamp::now())).map_err(|error| {
        Failure::new(Exit::Failed, format!("write {}", file.display())).because(&error)
    })
}

/// Returns the job's computes; this host if `--nodes` is missing.
pub(super) fn nodes(args: &Run) -> Result<Vec<String>, Failure> {
    let nodes = match &args.nodes {
        Some(nodes) => nodes.0.clone(),
        None => {
            let host = nix::unistd::gethostname()
                .map_err(|error| Failure::new(Exit::Usage, "--nodes is missing").because(&error))?;
            vec![host.to_string_lossy().into_owned()]
        }
    };
    let mut names = std::collections::HashSet::new();
    match nodes.iter().find(|node| !names.insert(*node)) {
        Some(twice) => Err(Failure::new(Exit::Usage, format!("--nodes names {twice} twice"))),
        None if nodes.is_empty() => Err(Failure::new(Exit::Usage, "--nodes names no node")),
        None => Ok(nodes),
    }
}

fn record_state(record: &Record, workflow: Workflow) -> Workflow {
    update(record, |record| record.workflow(&workflow));
    workflow
}

/// Changes the record, also after a panic of another task.
fn update(record: &Record, change: impl FnOnce(&mut Recorder)) {
    change(&mut record.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Starts tasks that record the states of the workflow and its nodes until the returned set is dropped.
fn start_watches(life: &Life, record: &Record) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    watches.spawn(record_states(life.drive.clone(), record.clone()));
    let selector = format!("{}={}", label::WORKFLOW_NAME, life.drive.name());
    let config = watcher::Config::default().labels(&selector);
    let mounts = watch(Api::<ClientMount>::all(life.client.clone()), config.clone())
        .backoff(WatchBackoff::default());
    let mounts_record = record.clone();
    watches.spawn(mounts.for_each(move |event| {
        let now = jiff::Timestamp::now();
        update(&mounts_record, |record| match event {
            Ok(Event::Apply(mount) | Event::InitApply(mount)) => record.mount(&mount, now),
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) | Err(_) => {}
        });
        std::future::ready(())
    }));
    let storages = watch(Api::<NnfNodeStorage>::all(life.client.clone()), config)
        .backoff(WatchBackoff::default());
    let storages_record = record.clone();
    watches.spawn(storages.for_each(move |event| {
        let now = jiff::Timestamp::now();
        update(&storages_record, |record| match event {
            Ok(Event::Apply(storage) | Event::InitApply(storage)) => {
                record.file_systems(&storage, now);
            }
            Ok(Event::Delete(storage)) => {
                record.record_removal(&storage.namespace().unwrap_or_default(), now);
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        });
        std::future::ready(())
    }));
    watches
}

async fn record_states(drive: Drive, record: Record) {
    let mut events = std::pin::pin!(drive.events());
    while let Some(event) = events.next().await {
        if let FlowEvent::Workflow(workflow) = event {
            update(&record, |record| record.workflow(&workflow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_variables_of_storage_and_none_that_affects_the_launcher() {
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
