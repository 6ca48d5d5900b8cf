//! Disables and enables rabbits for jobs.

use api::{
    Storage,
    names::{STORAGE_NAMESPACE, annotation},
};
use cli::{Exit, Output};
use jiff::Zoned;
use kube::{
    Client, ResourceExt,
    api::{Api, Patch, PatchParams},
};
use nix::unistd::{User, getuid};
use serde_json::{Value, json};

use super::storages;
use crate::{
    args::workflow::Hosts,
    failure::{self, Failure},
};

/// Disables the rabbits for this reason, or enables them.
///
/// # Errors
/// When a rabbit has no Storage; then no rabbit is changed.
pub(super) async fn run(
    client: &Client,
    rabbits: &[Hosts],
    reason: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    let (state, patch) = match reason {
        Some(reason) => ("Disabled", disable(reason, &who(), &now())),
        None => ("Enabled", enable()),
    };
    let api: Api<Storage> = Api::namespaced(client.clone(), STORAGE_NAMESPACE);
    for storage in storages(client, rabbits, output).await? {
        let rabbit = storage.name_any();
        let patched = api.patch(&rabbit, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map_err(|error| failure::api(format!("change Storage {rabbit}"), &error))?;
        output.note(&format!("{rabbit}: {state}"));
    }
    Ok(Exit::Done)
}

/// Returns the patch that disables a rabbit, with the annotations that flux-coral2 also writes.
fn disable(reason: &str, who: &str, now: &str) -> Value {
    json!({"spec": {"state": "Disabled"}, "metadata": {"annotations": {
        annotation::DISABLE_REASON: reason, annotation::DISABLED_BY: who, annotation::DISABLE_DATE: now}}})
}

/// Returns the patch that enables a rabbit. Null removes an annotation.
fn enable() -> Value {
    json!({"spec": {"state": "Enabled"}, "metadata": {"annotations": {
        annotation::DISABLE_REASON: null, annotation::DISABLED_BY: null, annotation::DISABLE_DATE: null}}})
}

/// Returns the name of the user who runs this program.
fn who() -> String {
    let uid = getuid();
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |user| user.name)
}

fn now() -> String {
    Zoned::now().strftime("%Y-%m-%d %H:%M:%S %z").to_string()
}
