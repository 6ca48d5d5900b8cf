//! Shows all objects of one workflow, and the reasons why it waits.

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use workload::waits::{age, waits};
use workload::{Member, Objects};

use crate::args::workflow::WorkflowName;
use crate::failure::Failure;
use crate::workflow::gather::gather;
use cli::Exit;
use cli::Output;

pub(super) async fn run(
    client: &Client,
    args: &WorkflowName,
    output: Output,
) -> Result<Exit, Failure> {
    let objects = gather(client, &args.namespace, &args.name).await?;
    if objects.is_empty() {
        return Err(super::show::no_such_workflow(&args.namespace, &args.name));
    }
    let now = Timestamp::now();
    let waits = waits(&objects);
    if output.is_json() {
        let members: Vec<_> = objects.others.iter().map(|member| &member.object).collect();
        output
            .json(&json!({"workflow": objects.workflow, "objects": members, "waitsFor": waits}))?;
        return Ok(Exit::Done);
    }
    let header =
        ["OBJECT", "NAMESPACE", "DIRECTIVE", "AGE", "STATE", "FINALIZERS"].map(str::to_owned);
    output.table(&header, &rows(&objects, now))?;
    let lines: Vec<_> = waits.iter().map(|waiting| format!("  {}", waiting.line(now))).collect();
    let summary = if lines.is_empty() {
        "the workflow does not wait".to_owned()
    } else {
        format!("the workflow waits for\n{}", lines.join("\n"))
    };
    output.text(&format!("\n{summary}\n"))?;
    Ok(Exit::Done)
}

fn rows(objects: &Objects, now: Timestamp) -> Vec<Vec<String>> {
    let workflow = objects.workflow.iter().map(|workflow| {
        let status = workflow.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or_default();
        let ready = if status.ready { "ready" } else { "not ready" };
        vec![
            format!("workflow/{}", workflow.name_any()),
            workflow.namespace().unwrap_or_default(),
            String::new(),
            workflow.creation_timestamp().map(|moment| age(moment.0, now)).unwrap_or_default(),
            format!("{state}, {ready}"),
            workflow.finalizers().join(" "),
        ]
    });
    workflow.chain(objects.others.iter().map(|member| row(member, now))).collect()
}

fn row(member: &Member, now: Timestamp) -> Vec<String> {
    vec![
        member.label(),
        member.object.namespace().unwrap_or_default(),
        member.directive().map(|index| index.to_string()).unwrap_or_default(),
        member.object.creation_timestamp().map(|moment| age(moment.0, now)).unwrap_or_default(),
        state(&member.object.data, member.object.metadata.deletion_timestamp.is_some()),
        member.object.finalizers().join(" "),
    ]
}

/// Returns the state and readiness in the status of an object of any kind.
fn state(data: &Value, is_deleted: bool) -> String {
    let status = &data["status"];
    let ready = [&status["ready"], &status["allReady"]].into_iter().find_map(Value::as_bool);
    let ready = match ready {
        Some(true) => "ready",
        Some(false) => "not ready",
        None => "",
    };
    let state = status["state"].as_str().unwrap_or_default();
    let words = [if is_deleted { "deleting" } else { "" }, state, ready];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_state_has_the_readiness_of_an_object_of_any_kind() {
        assert_eq!(
            state(&json!({"status": {"state": "mounted", "ready": true}}), false),
            "mounted, ready"
        );
        assert_eq!(state(&json!({"status": {"allReady": false}}), true), "deleting, not ready");
        assert_eq!(state(&json!({}), false), "");
    }
}
