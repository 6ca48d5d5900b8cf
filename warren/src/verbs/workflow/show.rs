//! Shows one workflow on a page, or all workflows in a table.

use api::{DirectiveBreakdown, Servers, Workflow};
use apiclient::{Readable, list_readable};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use workload::Objects;
use workload::waits::{age, waits};

use crate::args::workflow::Show;
use crate::failure::{self, Failure};
use crate::workflow::gather::gather;
use cli::Exit;
use cli::Output;

pub(super) async fn run(client: &Client, args: &Show, output: Output) -> Result<Exit, Failure> {
    match &args.name {
        Some(name) => show_one(client, &args.namespace, name, output).await,
        None => show_all(client, &args.namespace, output).await,
    }
}

pub(super) fn no_such_workflow(namespace: &str, name: &str) -> Failure {
    Failure::new(Exit::Failed, format!("there is no workflow {namespace}/{name}"))
        .remedy("`warren workflow show` lists the workflows; `warren workflow investigate` shows remaining objects of a deleted one")
}

async fn show_one(
    client: &Client,
    namespace: &str,
    name: &str,
    output: Output,
) -> Result<Exit, Failure> {
    let objects = gather(client, namespace, name).await?;
    let Some(workflow) = &objects.workflow else { return Err(no_such_workflow(namespace, name)) };
    if output.is_json() {
        output.json(&json!({"workflow": workflow, "waitsFor": waits(&objects)}))?;
    } else {
        output.text(&page(workflow, &objects, Timestamp::now()))?;
    }
    Ok(Exit::Done)
}

async fn show_all(client: &Client, namespace: &str, output: Output) -> Result<Exit, Failure> {
    let list: Readable<Workflow> =
        list_readable(client.clone(), Some(namespace), &ListParams::default())
            .await
            .map_err(|error| failure::api("list the Workflows", &error))?;
    list.unreadable.iter().for_each(|text| output.note(text));
    if output.is_json() {
        output.json(&list.items.iter().map(summary).collect::<Vec<_>>())?;
    } else if list.items.is_empty() {
        output.note("no workflows");
    } else {
        let header =
            ["NAME", "JOB", "USER", "STATE", "READY", "SINCE", "MESSAGE"].map(str::to_owned);
        let now = Timestamp::now();
        output.table(
            &header,
            &list.items.iter().map(|workflow| row(workflow, now)).collect::<Vec<_>>(),
        )?;
    }
    Ok(Exit::Done)
}

fn summary(workflow: &Workflow) -> Value {
    let status = workflow.status.clone().unwrap_or_default();
    json!({
        "name": workflow.name_any(), "job": workflow.spec.job_id, "user": workflow.spec.user_id,
        "desiredState": workflow.spec.desired_state, "state": status.state, "ready": status.ready,
        "status": status.status, "since": status.desired_state_change, "message": status.message,
    })
}

fn row(workflow: &Workflow, now: Timestamp) -> Vec<String> {
    let status = workflow.status.clone().unwrap_or_default();
    let since = if status.ready { status.ready_change } else { status.desired_state_change };
    vec![
        workflow.name_any(),
        job(workflow),
        workflow.spec.user_id.to_string(),
        status.state.map(|state| state.to_string()).unwrap_or_default(),
        if status.ready { "yes" } else { "no" }.to_owned(),
        since.map(|since| age(since.0, now)).unwrap_or_default(),
        status.message,
    ]
}

fn job(workflow: &Workflow) -> String {
    workflow.spec.job_id.to_string()
}

/// Returns the page about a workflow: job, state, directives, environment, and the reasons why it waits.
fn page(workflow: &Workflow, objects: &Objects, now: Timestamp) -> String {
    let status = workflow.status.clone().unwrap_or_default();
    let (spec, state) = (&workflow.spec, status.state.clone().unwrap_or_default());
    let mut lines = vec![
        format!("workflow  {}", workflow.name_any()),
        format!(
            "job       {} of {}, user {} group {}",
            job(workflow),
            spec.wlm_id,
            spec.user_id,
            spec.group_id
        ),
    ];
    let ready = if status.ready { "ready" } else { "not ready" };
    let took = if status.ready && !status.elapsed_time_last_state.is_empty() {
        format!(" after {}", status.elapsed_time_last_state)
    } else {
        String::new()
    };
    lines.push(format!("state     {state}, {ready}{took}"));
    if spec.desired_state != state {
        lines.push(format!("wanted    {}", spec.desired_state));
    }
    if !status.message.is_empty() {
        lines.push(format!("message   {}", status.message));
    }
    lines.push("directives".to_owned());
    for (index, directive) in spec.directives.iter().enumerate() {
        lines.push(format!("  {index}  {directive}"));
        lines
            .extend(placement_lines(index, objects).into_iter().map(|line| format!("     {line}")));
    }
    if !status.env.is_empty() {
        lines.push("environment".to_owned());
        lines.extend(status.env.iter().map(|(name, value)| format!("  {name}={value}")));
    }
    let waits = waits(objects);
    if !waits.is_empty() {
        lines.push("waits for".to_owned());
        lines.extend(waits.iter().map(|waiting| format!("  {}", waiting.line(now))));
    }
    lines.join("\n") + "\n"
}

/// Returns lines about the capacity that a directive needs, and about the rabbits that hold it.
fn placement_lines(index: usize, objects: &Objects) -> Vec<String> {
    use api::RabbitLabels;
    let index = index.to_string();
    let is_index = |label: Option<&str>| label == Some(index.as_str());
    let breakdowns = objects
        .of_kind::<DirectiveBreakdown>("DirectiveBreakdown")
        .filter(|object| is_index(object.directive_index()));
    let needs = breakdowns
        .filter_map(|object| object.status?.storage)
        .flat_map(|storage| storage.allocation_sets);
    let mut lines: Vec<String> = needs
        .map(|set| {
            format!(
                "needs {} {} of {}",
                set.label,
                set.allocation_strategy,
                capacity(set.minimum_capacity)
            )
        })
        .collect();
    let servers =
        objects.of_kind::<Servers>("Servers").filter(|object| is_index(object.directive_index()));
    for set in servers.flat_map(|servers| servers.spec.allocation_sets) {
        let storage = set
            .storage
            .iter()
            .map(|storage| format!("{}×{}", storage.name, storage.allocation_count));
        let storage: Vec<_> = storage.collect();
        lines.push(format!(
            "has   {} of {} each on {}",
            set.label,
            capacity(set.allocation_size),
            storage.join(" ")
        ));
    }
    lines
}

fn capacity(bytes: i64) -> String {
    u64::try_from(bytes).map_or_else(
        |_| bytes.to_string(),
        |bytes| bytesize::ByteSize(bytes).display().iec().to_string(),
    )
}

#[cfg(test)]
mod tests;
