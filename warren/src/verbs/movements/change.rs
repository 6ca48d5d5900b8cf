//! Cancels and limits the data movements of a workflow that have not ended. The agents of the rabbits carry it out.

use api::{NnfDataMovement, names::annotation};
use cli::{Exit, Output};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{list, selector};
use crate::args::{MovementRate, MovementVerb};
use crate::failure::{self, Failure};

pub(super) async fn run(
    client: Client,
    verb: &MovementVerb,
    output: Output,
) -> Result<Exit, Failure> {
    match verb {
        MovementVerb::Cancel { workflow, namespace } => {
            let patch = json!({"spec": {"cancel": true}});
            change(
                client,
                (workflow, namespace),
                &patch,
                ("cancel", "cancellation requested"),
                output,
            )
            .await
        }
        MovementVerb::Limit { workflow, rate, namespace } => {
            let did = match rate.0 {
                Some(_) => "limit requested",
                None => "end of the limit requested",
            };
            change(client, (workflow, namespace), &limit(*rate), ("limit", did), output).await
        }
    }
}

/// Returns the patch that limits a movement. Null removes the annotation.
fn limit(rate: MovementRate) -> Value {
    json!({"metadata": {"annotations": {annotation::BYTES_PER_SECOND: rate.0.map(|rate| rate.to_string())}}})
}

/// Patches all movements of a workflow that have not ended. `verb` is for errors, `did` for the notes.
async fn change(
    client: Client,
    (workflow, namespace): (&str, &str),
    patch: &Value,
    (verb, did): (&str, &str),
    output: Output,
) -> Result<Exit, Failure> {
    let mut movements = list(client.clone(), &selector(namespace, Some(workflow))).await?;
    movements.retain(|movement| !movement.is_finished());
    for movement in &movements {
        let (rabbit, name) = (movement.namespace().unwrap_or_default(), movement.name_any());
        let api: Api<NnfDataMovement> = Api::namespaced(client.clone(), &rabbit);
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let what = format!("{verb} NnfDataMovement {rabbit}/{name}");
        patched.map_err(|error| failure::api(what, &error))?;
        output.note(&format!("{rabbit}/{name}: {did}"));
    }
    if movements.is_empty() {
        output.note(&format!("every data movement of {workflow} has ended"));
    }
    Ok(Exit::Done)
}
