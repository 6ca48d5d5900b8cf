//! Storage that outlives its job: what there is, making it, destroying it.

use api::{PersistentStorageInstance, Servers, WorkflowState};
use apiclient::{Readable, list_readable};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::json;

use crate::args::workflow::{CreatePersistent, Owner, PersistentVerb};
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::workflow::life::{Life, both, directives, proposal};
use crate::workflow::signals::Signals;
use nodeclient::Exit;
use nodeclient::Output;

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
    }
}

/// The directive that makes it.
fn line(args: &CreatePersistent) -> String {
    let mut line = format!("#DW create_persistent type={} name={}", args.file_system, args.storage);
    args.capacity.iter().for_each(|capacity| line.push_str(&format!(" capacity={capacity}")));
    args.profile.iter().for_each(|profile| line.push_str(&format!(" profile={profile}")));
    line
}

/// Makes it by a workflow of its own. What was not made to its end is removed with the workflow.
async fn create(life: &Life, args: &CreatePersistent, output: Output) -> Result<Exit, Failure> {
    let lines = directives(&[line(args)])?;
    let mut signals = Signals::listen()?;
    let workflow = proposal(life.drive.name(), &args.owner, "warren", life.drive.name(), lines);
    let begun = life.begin_leased(workflow).await;
    let lived = async {
        let _renewal = begun?;
        let proposed = life.go_to(&WorkflowState::Proposal).await?;
        if let Some(nodes) = &args.nodes {
            life.name_computes(&proposed, &nodes.0).await?;
        }
        life.go_to(&WorkflowState::Setup).await.map(drop)
    };
    let lived = signals.or(lived).await;
    let ended = signals.despite(output, life.end()).await;
    both(output, lived, ended)?;
    print_done(life, "made", output)
}

/// Destroys it by a workflow of its own. Teardown does it: a workflow that fails or is interrupted before is deleted, and one
/// that is refused in Teardown too, or it would destroy the storage when its last user is through. The workflow has no lease: when
/// this command is killed, the coordinator would tear the workflow down, and so destroy the storage.
async fn destroy(
    life: &Life,
    storage: &str,
    owner: &Owner,
    output: Output,
) -> Result<Exit, Failure> {
    let lines = directives(&[format!("#DW destroy_persistent name={storage}")])?;
    unused(life, storage).await?;
    let mut signals = Signals::listen()?;
    let workflow = proposal(life.drive.name(), owner, "warren", life.drive.name(), lines);
    let begun = life.begin(workflow).await;
    let lived = async {
        begun?;
        life.go_to(&WorkflowState::Proposal).await?;
        life.go_to(&WorkflowState::Teardown).await.map(drop)
    };
    let lived = signals.or(lived).await;
    let ended = signals.despite(output, life.withdraw()).await;
    both(output, lived, ended)?;
    print_done(life, "destroyed", output)
}

/// Whether it exists and nobody uses it. The engine asks again at the moment that it destroys it.
async fn unused(life: &Life, storage: &str) -> Result<(), Failure> {
    let object = get(&life.client, storage, &life.namespace).await?;
    let users = shown(&object).consumers;
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

/// One of them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    user: i64,
    state: String,
    /// Workflow and directive, as `<workflow>-<index>`; of a management target file systems by their Servers.
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
    let shown: Vec<Shown> = list.items.iter().map(shown).collect();
    if output.is_json() {
        output.json(&shown)?;
    } else if shown.is_empty() {
        output.note("no persistent storage");
    } else {
        let header = ["NAME", "TYPE", "USER", "STATE", "USED BY", "ERROR"].map(str::to_owned);
        output.table(&header, &shown.iter().map(row).collect::<Vec<_>>())?;
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

/// One of them, with where it is.
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
    let (shown, rabbits) = (shown(&object), servers.as_ref().map(places).unwrap_or_default());
    if output.is_json() {
        output.json(
            &json!({"storage": shown, "directive": object.spec.dw_directive, "places": rabbits}),
        )?;
        return Ok(Exit::Done);
    }
    let or_none = |text: String| if text.is_empty() { "nobody".to_owned() } else { text };
    output.line(&format!("storage    {}, {}", shown.name, shown.kind))?;
    output.line(&format!("owner      user {}", shown.user))?;
    output.line(&format!("state      {}", shown.state))?;
    output.line(&format!("used by    {}", or_none(shown.consumers.join(", "))))?;
    output.line(&format!("made by    {}", object.spec.dw_directive))?;
    for place in rabbits {
        output.line(&format!("lies on    {place}"))?;
    }
    shown.error.iter().try_for_each(|error| output.line(&format!("error      {error}")))?;
    Ok(Exit::Done)
}

/// Its allocations by rabbit.
fn places(servers: &Servers) -> Vec<String> {
    let sets = servers.spec.allocation_sets.iter();
    let each = sets.flat_map(|set| {
        set.storage.iter().map(|one| {
            let (count, size) = (one.allocation_count, set.allocation_size);
            format!("{}: {count} of {size} bytes for {}", one.name, set.label)
        })
    });
    each.collect()
}

fn shown(object: &PersistentStorageInstance) -> Shown {
    let status = object.status.as_ref();
    let state = status.map(|status| &status.state);
    let consumers =
        object.spec.consumer_references.iter().filter_map(|reference| reference.name.clone());
    Shown {
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

fn row(shown: &Shown) -> Vec<String> {
    vec![
        shown.name.clone(),
        shown.kind.clone(),
        shown.user.to_string(),
        shown.state.clone(),
        shown.consumers.join(","),
        shown.error.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_who_uses_it() {
        let object: PersistentStorageInstance = serde_json::from_value(json!({
            "metadata": {"name": "shared"},
            "spec": {"name": "shared", "fsType": "xfs", "dwDirective": "", "userID": 7, "state": "Active",
                     "consumerReferences": [{"name": "w-0"}, {"name": "v-1"}]},
            "status": {"state": "Degraded"},
        }))
        .unwrap();
        assert_eq!(row(&shown(&object)), ["shared", "xfs", "7", "Degraded", "w-0,v-1", ""]);
    }

    #[test]
    fn a_place_tells_how_much_is_where() {
        let servers: Servers = serde_json::from_value(json!({
            "metadata": {"name": "shared"},
            "spec": {"allocationSets": [{"label": "xfs", "allocationSize": 5,
                     "storage": [{"name": "r1", "allocationCount": 2}, {"name": "r2", "allocationCount": 1}]}]},
        }))
        .unwrap();
        assert_eq!(places(&servers), ["r1: 2 of 5 bytes for xfs", "r2: 1 of 5 bytes for xfs"]);
    }
}
