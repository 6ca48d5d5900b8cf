//! Storage that outlives its job: what there is, making it, destroying it.

use api::{PersistentStorageInstance, WorkflowState};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
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
        PersistentVerb::Create(args) => {
            let life = Life::new(server.client(output).await?, &args.owner, args.timeout, output);
            through(&life, &args.owner, line(args), &args.nodes.0, "made", output).await
        }
        PersistentVerb::Destroy { storage, owner, timeout } => {
            let life = Life::new(server.client(output).await?, owner, *timeout, output);
            let line = format!("#DW destroy_persistent name={storage}");
            through(&life, owner, line, &[], "destroyed", output).await
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

/// Takes a workflow of one directive through Setup, and ends it.
async fn through(
    life: &Life,
    owner: &Owner,
    line: String,
    nodes: &[String],
    done: &str,
    output: Output,
) -> Result<Exit, Failure> {
    let lines = directives(&[line])?;
    let mut signals = Signals::listen()?;
    let workflow = proposal(life.drive.name(), owner, "warren", life.drive.name(), lines);
    let begun = life.begin(workflow).await;
    let lived = async {
        begun?;
        let proposed = life.go_to(&WorkflowState::Proposal).await?;
        if !nodes.is_empty() {
            life.place(&proposed, nodes).await?;
        }
        life.go_to(&WorkflowState::Setup).await.map(drop)
    };
    let lived = signals.or(lived).await;
    let ended = signals.despite(output, life.end()).await;
    both(output, lived, ended)?;
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
    /// Workflow and directive, as `<workflow>-<index>`.
    consumers: Vec<String>,
    error: Option<String>,
}

async fn list(server: &ServerArgs, namespace: &str, output: Output) -> Result<Exit, Failure> {
    let api: Api<PersistentStorageInstance> =
        Api::namespaced(server.client(output).await?, namespace);
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(|error| failure::api("list the PersistentStorageInstances", &error))?;
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

fn shown(object: &PersistentStorageInstance) -> Shown {
    let status = object.status.as_ref();
    let state = status.and_then(|status| status.state.as_ref());
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
}
