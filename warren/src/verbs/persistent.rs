//! Lists, creates and destroys persistent storage, which outlives its job; adopts that of the Go controllers.

mod adopt;
mod adoption;

use api::{PersistentStorageInstance, Servers, WorkflowState};
use apiclient::{Readable, list_readable};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::json;

use self::adopt::Act;
use crate::args::workflow::{CreatePersistent, Owner, PersistentVerb};
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::workflow::life::{Life, combine, directives, proposal};
use crate::workflow::signals::Signals;
use cli::Exit;
use cli::Output;

pub(crate) async fn run(
    server: &ServerArgs,
    verb: &PersistentVerb,
    output: Output,
) -> Result<Exit, Failure> {
    match verb {
        PersistentVerb::List { namespace } => list(server, namespace, output).await,
        PersistentVerb::Show { storage, namespace } => {
            show(&server.client(output).await?, storage, namespace, output).await
        }
        PersistentVerb::Create(args) => {
            let life = Life::new(server.client(output).await?, &args.owner, args.timeout, output);
            create(&life, args, output).await
        }
        PersistentVerb::Destroy { storage, owner, timeout } => {
            let life = Life::new(server.client(output).await?, owner, *timeout, output);
            destroy(&life, storage, owner, output).await
        }
        PersistentVerb::Adopt(args) => adopt::run(server, args, Act::Adopt, output).await,
        PersistentVerb::Release(args) => adopt::run(server, args, Act::Release, output).await,
    }
}

/// Returns the directive that creates the storage.
fn line(args: &CreatePersistent) -> String {
    let mut line = format!("#DW create_persistent type={} name={}", args.file_system, args.storage);
    args.capacity.iter().for_each(|capacity| line.push_str(&format!(" capacity={capacity}")));
    args.profile.iter().for_each(|profile| line.push_str(&format!(" profile={profile}")));
    line
}

/// Creates persistent storage with a workflow of this command. Removing that workflow also removes storage
/// that is not complete.
async fn create(life: &Life, args: &CreatePersistent, output: Output) -> Result<Exit, Failure> {
    let lines = directives(&[line(args)])?;
    let mut signals = Signals::listen()?;
    let workflow = proposal(life.drive.name(), &args.owner, "warren", life.drive.name(), lines);
    let lease = life.begin_leased(workflow).await;
    let setup = async {
        let _renewal = lease?;
        let proposed = life.go_to(&WorkflowState::Proposal).await?;
        if let Some(nodes) = &args.nodes {
            life.name_computes(&proposed, &nodes.0).await?;
        }
        life.go_to(&WorkflowState::Setup).await.map(drop)
    };
    let result = signals.until_signal(setup).await;
    let cleanup = signals.uninterrupted(output, life.end()).await;
    combine(output, result, cleanup)?;
    print_done(life, "made", output)
}

/// Destroys persistent storage with a workflow of this command, whose Teardown destroys the storage. The command
/// deletes this workflow also if the workflow fails, the command is interrupted, or Teardown is refused: a workflow
/// that remained would destroy the storage later, once no other workflow uses it. The workflow has no lease: with a
/// lease, the coordinator would tear the workflow down after this command is killed, and so destroy the storage.
async fn destroy(
    life: &Life,
    storage: &str,
    owner: &Owner,
    output: Output,
) -> Result<Exit, Failure> {
    let lines = directives(&[format!("#DW destroy_persistent name={storage}")])?;
    check_unused(life, storage).await?;
    let mut signals = Signals::listen()?;
    let workflow = proposal(life.drive.name(), owner, "warren", life.drive.name(), lines);
    let created = life.begin(workflow).await;
    let teardown = async {
        created?;
        life.go_to(&WorkflowState::Proposal).await?;
        life.go_to(&WorkflowState::Teardown).await.map(drop)
    };
    let result = signals.until_signal(teardown).await;
    let cleanup = signals.uninterrupted(output, life.withdraw()).await;
    combine(output, result, cleanup)?;
    print_done(life, "destroyed", output)
}

/// Fails unless the storage exists and no workflow uses it. The engine checks again when it destroys the storage.
async fn check_unused(life: &Life, storage: &str) -> Result<(), Failure> {
    let object = get(&life.client, storage, &life.namespace).await?;
    let users = summarize(&object).consumers;
    if users.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Failed,
        format!("persistent storage {storage} is used by {}", users.join(", ")),
    )
    .remedy("end these workflows first: `warren workflow show` lists them".to_owned()))
}

fn print_done(life: &Life, done: &str, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&json!({"workflow": life.drive.name(), "done": done}))?;
    } else {
        output.line(done)?;
    }
    Ok(Exit::Done)
}

/// The summary of a persistent storage.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    user: i64,
    state: String,
    /// Workflows that use the storage, each as `<workflow>-<index of its directive>`; for a management target, the
    /// Servers of its file systems.
    consumers: Vec<String>,
    error: Option<String>,
}

async fn list(server: &ServerArgs, namespace: &str, output: Output) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let list: Readable<PersistentStorageInstance> =
        list_readable(client, Some(namespace), &ListParams::default())
            .await
            .map_err(|error| failure::api("list the PersistentStorageInstances", &error))?;
    list.unreadable.iter().for_each(|text| output.note(text));
    let summaries: Vec<Summary> = list.items.iter().map(summarize).collect();
    if output.is_json() {
        output.json(&summaries)?;
    } else if summaries.is_empty() {
        output.note("no persistent storage");
    } else {
        let header = ["NAME", "TYPE", "USER", "STATE", "USED BY", "ERROR"].map(str::to_owned);
        output.table(&header, &summaries.iter().map(row).collect::<Vec<_>>())?;
    }
    Ok(Exit::Done)
}

async fn get(
    client: &Client,
    name: &str,
    namespace: &str,
) -> Result<PersistentStorageInstance, Failure> {
    let api: Api<PersistentStorageInstance> = Api::namespaced(client.clone(), namespace);
    let what = || format!("get the PersistentStorageInstance {namespace}/{name}");
    api.get(name).await.map_err(|error| failure::api(what(), &error))
}

/// Prints one persistent storage, with its rabbits.
async fn show(
    client: &Client,
    name: &str,
    namespace: &str,
    output: Output,
) -> Result<Exit, Failure> {
    let object = get(client, name, namespace).await?;
    let api: Api<Servers> = Api::namespaced(client.clone(), namespace);
    let reference = object.status.as_ref().and_then(|status| status.servers.as_ref());
    let name = reference.and_then(|servers| servers.name.as_deref()).unwrap_or(name);
    let what = || format!("get the Servers {namespace}/{name}");
    let servers = api.get_opt(name).await.map_err(|error| failure::api(what(), &error))?;
    let summary = summarize(&object);
    let places = servers.as_ref().map(places).unwrap_or_default();
    if output.is_json() {
        output.json(
            &json!({"storage": summary, "directive": object.spec.dw_directive, "places": places}),
        )?;
        return Ok(Exit::Done);
    }
    let or_none = |text: String| if text.is_empty() { "no workflow".to_owned() } else { text };
    output.line(&format!("storage    {}, {}", summary.name, summary.kind))?;
    output.line(&format!("owner      user {}", summary.user))?;
    output.line(&format!("state      {}", summary.state))?;
    output.line(&format!("used by    {}", or_none(summary.consumers.join(", "))))?;
    output.line(&format!("made by    {}", object.spec.dw_directive))?;
    for place in places {
        output.line(&format!("lies on    {place}"))?;
    }
    summary.error.iter().try_for_each(|error| output.line(&format!("error      {error}")))?;
    Ok(Exit::Done)
}

/// Returns the storage's allocations by rabbit.
fn places(servers: &Servers) -> Vec<String> {
    let sets = servers.spec.allocation_sets.iter();
    let each = sets.flat_map(|set| {
        set.storage.iter().map(|rabbit| {
            let (count, size) = (rabbit.allocation_count, set.allocation_size);
            format!("{}: {count} of {size} bytes for {}", rabbit.name, set.label)
        })
    });
    each.collect()
}

fn summarize(object: &PersistentStorageInstance) -> Summary {
    let status = object.status.as_ref();
    let state = status.map(|status| &status.state);
    let consumers =
        object.spec.consumer_references.iter().filter_map(|reference| reference.name.clone());
    Summary {
        name: object.name_any(),
        kind: object.spec.fs_type.clone(),
        user: object.spec.user_id,
        state: state.map(ToString::to_string).unwrap_or_default(),
        consumers: consumers.collect(),
        error: status
            .and_then(|status| status.error.as_ref())
            .map(|error| error.debug_message.clone()),
    }
}

fn row(summary: &Summary) -> Vec<String> {
    vec![
        summary.name.clone(),
        summary.kind.clone(),
        summary.user.to_string(),
        summary.state.clone(),
        summary.consumers.join(","),
        summary.error.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_persistent_storage_names_its_consumers() {
        let object: PersistentStorageInstance = serde_json::from_value(json!({
            "metadata": {"name": "shared"},
            "spec": {"name": "shared", "fsType": "xfs", "dwDirective": "", "userID": 7, "state": "Active",
                     "consumerReferences": [{"name": "w-0"}, {"name": "v-1"}]},
            "status": {"state": "Degraded"},
        }))
        .unwrap();
        assert_eq!(row(&summarize(&object)), ["shared", "xfs", "7", "Degraded", "w-0,v-1", ""]);
    }

    #[test]
    fn persistent_storage_is_shown_with_the_allocations_of_each_rabbit() {
        let servers: Servers = serde_json::from_value(json!({
            "metadata": {"name": "shared"},
            "spec": {"allocationSets": [{"label": "xfs", "allocationSize": 5,
                     "storage": [{"name": "r1", "allocationCount": 2}, {"name": "r2", "allocationCount": 1}]}]},
        }))
        .unwrap();
        assert_eq!(places(&servers), ["r1: 2 of 5 bytes for xfs", "r2: 1 of 5 bytes for xfs"]);
    }
}
