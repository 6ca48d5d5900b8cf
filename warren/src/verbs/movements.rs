//! Lists the data movements of workflows, one per line: its progress, and the reason why it waits, or its result.

mod change;

use api::{NnfDataMovement, names::label, nnf_data_movement::DataMovementFailure};
use apiclient::{WatchBackoff, list_readable};
use cli::{Exit, Output};
use futures::TryStreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{Config, watcher},
    },
};
use serde::Serialize;

use crate::args::Movements;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};

const HEADER: [&str; 7] = ["RABBIT", "NAME", "STATE", "PROGRESS", "DATA", "RATE", "MESSAGE"];

/// One line of the list: a movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    rabbit: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// `Starting` or `Running`; the verdict of a movement that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// Percentage of copied data.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<i64>,
    data: String,
    rate: String,
    /// How often the copy was restarted, for example after its rabbit had stopped.
    restarts: i64,
    /// Why the movement waits or how it ended; otherwise its latest progress.
    message: String,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Movements,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    if let Some(verb) = &args.verb {
        return change::run(client, verb, output).await;
    }
    let selector = selector(&args.namespace, args.workflow.as_deref());
    if args.watch {
        watch(client, &selector, output).await?;
        return Ok(Exit::Done);
    }
    let movements = list(client, &selector).await?;
    if args.failed {
        return print_failures(&movements, output);
    }
    let mut lines: Vec<_> = movements.iter().map(line).collect();
    lines.sort_by(|a, b| (&a.name, &a.rabbit).cmp(&(&b.name, &b.rabbit)));
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no data movements found");
    } else {
        let rows: Vec<_> = lines.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// A file that a movement did not copy.
#[derive(Debug, Serialize)]
struct FailedFile<'a> {
    rabbit: String,
    name: String,
    #[serde(flatten)]
    failure: &'a DataMovementFailure,
}

/// Prints the files that were not copied.
fn print_failures(movements: &[NnfDataMovement], output: Output) -> Result<Exit, Failure> {
    let failures = movements.iter().flat_map(|movement| {
        let failures = movement.status.iter().flat_map(|status| &status.failures);
        let (rabbit, name) = (movement.namespace().unwrap_or_default(), movement.name_any());
        failures.map(move |failure| FailedFile {
            rabbit: rabbit.clone(),
            name: name.clone(),
            failure,
        })
    });
    let mut files: Vec<_> = failures.collect();
    files.sort_by(|a, b| (&a.name, &a.rabbit).cmp(&(&b.name, &b.rabbit)));
    if output.is_json() {
        output.json(&files)?;
    } else if files.is_empty() {
        output.note("no data movement lists a file that was not copied");
    } else {
        let row = |file: &FailedFile<'_>| {
            let DataMovementFailure { path, action, error, .. } = file.failure;
            [&file.rabbit, &file.name, path, action, error].map(Clone::clone).to_vec()
        };
        let rows: Vec<_> = files.iter().map(row).collect();
        output.table(&["RABBIT", "NAME", "PATH", "ACTION", "ERROR"].map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

async fn list(client: Client, selector: &str) -> Result<Vec<NnfDataMovement>, Failure> {
    let selected = ListParams::default().labels(selector);
    let listed = list_readable(client, None, &selected).await;
    Ok(listed.map_err(|error| failure::api("list NnfDataMovements", &error))?.items)
}

/// Prints all movements, and then each change, until the user interrupts the command.
async fn watch(client: Client, selector: &str, output: Output) -> Result<(), Failure> {
    let api: Api<NnfDataMovement> = Api::all(client);
    let changes = watcher(api, Config::default().labels(selector));
    let changes = changes.backoff(WatchBackoff::default()).applied_objects();
    let mut changes = std::pin::pin!(changes);
    let mut is_first = true;
    loop {
        match changes.try_next().await {
            Ok(Some(movement)) => {
                print(&line(&movement), is_first, output)?;
                is_first = false;
            }
            Ok(None) => return Ok(()),
            Err(error) => output.note(&format!("watch NnfDataMovements: {error}")),
        }
    }
}

fn print(line: &Line, is_first: bool, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(line)
    } else if is_first {
        output.table(&HEADER.map(str::to_owned), &[row(line)])
    } else {
        output.rows(&[row(line)])
    }
}

fn selector(namespace: &str, workflow: Option<&str>) -> String {
    let namespace = format!("{}={namespace}", label::WORKFLOW_NAMESPACE);
    let workflow = workflow.map(|name| format!(",{}={name}", label::WORKFLOW_NAME));
    namespace + &workflow.unwrap_or_default()
}

fn line(movement: &NnfDataMovement) -> Line {
    let status = movement.status.clone().unwrap_or_default();
    let state = status.state.as_ref().map(ToString::to_string);
    let verdict = status.status.as_ref().map(ToString::to_string);
    let copy = &status.command_status;
    let message = if status.message.is_empty() { &copy.last_message } else { &status.message };
    Line {
        rabbit: movement.namespace().unwrap_or_default(),
        name: movement.name_any(),
        workflow: movement.labels().get(label::WORKFLOW_NAME).cloned(),
        state: if movement.is_finished() { verdict.or(state) } else { state },
        progress: copy.progress,
        data: copy.data.clone(),
        rate: copy.rate.clone(),
        restarts: status.restarts,
        message: message.clone(),
    }
}

fn row(line: &Line) -> Vec<String> {
    let progress = line.progress.map(|percent| format!("{percent} %"));
    vec![
        line.rabbit.clone(),
        line.name.clone(),
        line.state.clone().unwrap_or_else(|| "-".to_owned()),
        progress.unwrap_or_else(|| "-".to_owned()),
        line.data.clone(),
        line.rate.clone(),
        line.message.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    /// Returns the line of a movement with this status, without rabbit and name.
    fn printed(status: &Value) -> Vec<String> {
        let movement: NnfDataMovement = from_value(json!({
            "metadata": {"name": "w-1-0", "namespace": "rabbit-1", "labels": {label::WORKFLOW_NAME: "w"}},
            "spec": {"userId": 1, "groupId": 1},
            "status": status,
        }))
        .unwrap();
        row(&line(&movement)).split_off(2)
    }

    #[test]
    fn the_line_of_a_movement_shows_state_or_verdict_and_progress_and_message() {
        assert_eq!(printed(&json!({})), ["-", "-", "", "", ""]);
        let waits = json!({"state": "Starting", "message": "/lus/g is not mounted"});
        assert_eq!(printed(&waits), ["Starting", "-", "", "", "/lus/g is not mounted"]);
        let copied = json!({"progress": 63, "data": "1.2 GiB", "rate": "800.0 MiB/s", "lastMessage": "63 %, about 1s left"});
        let runs = json!({"state": "Running", "commandStatus": copied});
        let figures = ["63 %", "1.2 GiB", "800.0 MiB/s"];
        assert_eq!(printed(&runs), [&["Running"][..], &figures, &["63 %, about 1s left"]].concat());
        let failed = json!({"state": "Finished", "status": "Failed", "message": "no space", "commandStatus": copied});
        assert_eq!(printed(&failed), [&["Failed"][..], &figures, &["no space"]].concat());
    }

    #[test]
    fn the_selector_names_the_workflow_and_its_namespace() {
        let namespace = "dataworkflowservices.github.io/workflow.namespace=default";
        assert_eq!(selector("default", None), namespace);
        let name = "dataworkflowservices.github.io/workflow.name=w";
        assert_eq!(selector("default", Some("w")), format!("{namespace},{name}"));
    }
}
