//! Lists the data movements of workflows, one line each: the progress, and the reason why a movement waits or failed.

use api::{NnfDataMovement, names::label};
use apiclient::list_readable;
use futures::TryStreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{Config, watcher},
    },
};
use nodeclient::{Exit, Output};
use serde::Serialize;

use crate::args::Movements;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};

const HEADER: [&str; 7] = ["RABBIT", "NAME", "STATE", "PROGRESS", "DATA", "RATE", "MESSAGE"];

/// One data movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    rabbit: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// `Starting` or `Running`; the verdict once the movement has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// Percentage of the data that is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<i64>,
    data: String,
    rate: String,
    /// Number of times that the copy was continued after its agent or rabbit had stopped.
    restarts: i64,
    /// The reason why the movement waits, how it ended, or its last progress.
    message: String,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Movements,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let selector = selector(args);
    if args.watch {
        watch(client, &selector, output).await?;
        return Ok(Exit::Done);
    }
    let selected = ListParams::default().labels(&selector);
    let listed = list_readable(client, None, &selected).await;
    let listed = listed.map_err(|error| failure::api("list NnfDataMovements", &error))?;
    let mut lines: Vec<_> = listed.items.iter().map(line).collect();
    lines.sort_by(|left, right| (&left.name, &left.rabbit).cmp(&(&right.name, &right.rabbit)));
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no data movements");
    } else {
        let rows: Vec<_> = lines.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Prints every movement, and prints a movement again when it changes, until the user interrupts the command.
async fn watch(client: Client, selector: &str, output: Output) -> Result<(), Failure> {
    let api: Api<NnfDataMovement> = Api::all(client);
    let changes = watcher(api, Config::default().labels(selector)).default_backoff();
    let mut changes = std::pin::pin!(changes.applied_objects());
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

fn selector(args: &Movements) -> String {
    let namespace = format!("{}={}", label::WORKFLOW_NAMESPACE, args.namespace);
    let workflow = args.workflow.as_ref();
    let workflow = workflow.map(|name| format!(",{}={name}", label::WORKFLOW_NAME));
    namespace + &workflow.unwrap_or_default()
}

fn line(movement: &NnfDataMovement) -> Line {
    let status = movement.status.clone().unwrap_or_default();
    let state = status.state.as_ref().map(ToString::to_string);
    let verdict = status.status.as_ref().map(ToString::to_string);
    let command_status = &status.command_status;
    let message =
        if status.message.is_empty() { &command_status.last_message } else { &status.message };
    Line {
        rabbit: movement.namespace().unwrap_or_default(),
        name: movement.name_any(),
        workflow: movement.labels().get(label::WORKFLOW_NAME).cloned(),
        state: if movement.is_finished() { verdict.or(state) } else { state },
        progress: command_status.progress,
        data: command_status.data.clone(),
        rate: command_status.rate.clone(),
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

    fn row_of(status: &Value) -> Vec<String> {
        let movement: NnfDataMovement = from_value(json!({
            "metadata": {"name": "w-1-0", "namespace": "rabbit-1", "labels": {label::WORKFLOW_NAME: "w"}},
            "spec": {"userId": 1, "groupId": 1},
            "status": status,
        }))
        .unwrap();
        row(&line(&movement)).split_off(2)
    }

    #[test]
    fn a_row_shows_the_verdict_of_a_finished_movement_and_the_reason() {
        assert_eq!(row_of(&json!({})), ["-", "-", "", "", ""]);
        let waits = json!({"state": "Starting", "message": "/lus/g is not mounted"});
        assert_eq!(row_of(&waits), ["Starting", "-", "", "", "/lus/g is not mounted"]);
        let copied = json!({"progress": 63, "data": "1.2 GiB", "rate": "800.0 MiB/s", "lastMessage": "63 %, about 1s left"});
        let runs = json!({"state": "Running", "commandStatus": copied});
        let figures = ["63 %", "1.2 GiB", "800.0 MiB/s"];
        assert_eq!(row_of(&runs), [&["Running"][..], &figures, &["63 %, about 1s left"]].concat());
        let failed = json!({"state": "Finished", "status": "Failed", "message": "no space", "commandStatus": copied});
        assert_eq!(row_of(&failed), [&["Failed"][..], &figures, &["no space"]].concat());
    }

    #[test]
    fn movements_are_selected_by_their_workflow() {
        let selector_of = |workflow: Option<&str>| {
            let workflow = workflow.map(str::to_owned);
            selector(&Movements { workflow, namespace: "default".to_owned(), watch: false })
        };
        let namespace = "dataworkflowservices.github.io/workflow.namespace=default";
        assert_eq!(selector_of(None), namespace);
        let name = "dataworkflowservices.github.io/workflow.name=w";
        assert_eq!(selector_of(Some("w")), format!("{namespace},{name}"));
    }
}
