//! Decides from the object alone the next action on a management target. Does no I/O.

use std::{collections::BTreeSet, fmt};

use api::{
    Nested, NnfLustreMgt, NnfLustreMgtStatus, RabbitLabels, ResourceError,
    fs_name::{FsName, can_be_erased},
    names::label,
    nnf_lustre_mgt::{NnfLustreMgtSpecCommand, NnfLustreMgtStatusClaim, NnfLustreMgtStatusCommand},
};
use k8s_openapi::api::core::v1::ObjectReference;

use super::{MgtError, config_map::KEY};

/// The object's ConfigMap, in which the next name is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub namespace: String,
    pub name: String,
    /// Next name to give out, if the ConfigMap has one.
    pub next: Option<String>,
    pub version: Option<String>,
}

impl Published {
    /// Returns namespace and name of the ConfigMap.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A part of the work on an object. If the part fails, the pass skips it and continues with the other parts.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Names,
    /// Erase this name.
    Erase(String),
    Commands(Nested<ObjectReference>),
    /// Remove records of commands that the spec no longer has.
    Records,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names => write!(f, "give out names"),
            Self::Erase(fs_name) => write!(f, "erase {fs_name}"),
            Self::Commands(reference) => {
                let name = reference.name.as_deref().unwrap_or_default();
                write!(f, "run the commands of {name}")
            }
            Self::Records => write!(f, "remove records of commands that spec no longer has"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    WriteStatus(Box<NnfLustreMgtStatus>),
    Publish(FsName),
    /// Erase the name, then remove the claim from the status. If [`goes_with_target`] is true of the claim, the claim
    /// is removed even if the erasure fails.
    Erase(NnfLustreMgtStatusClaim),
    /// Run the commands, then write their result into the status.
    Run(NnfLustreMgtSpecCommand),
}

/// Returns the next part of the work that is not in `failed`, and its action.
pub fn plan(
    object: &NnfLustreMgt,
    published: Option<&Published>,
    failed: &[Work],
) -> Option<(Work, Result<Action, MgtError>)> {
    let steps = [names(object, published), records(object)];
    let at_work = object.metadata.deletion_timestamp.is_none();
    let steps = steps.into_iter().flatten().filter(|_| at_work);
    let commands = commands(object).filter(|_| at_work);
    steps.chain(erasures(object)).chain(commands).find(|(work, _)| !failed.contains(work))
}

/// Returns whether a claim waits for a name, or the status does not have the next name yet.
pub fn is_name_wanted(object: &NnfLustreMgt) -> bool {
    status(object).fs_name_next.is_empty() || first_unnamed(object).is_some()
}

/// Returns the status after a claim's name was erased. If the same claim is in the spec again by now, it
/// gets a new name.
pub fn without_claim(object: &NnfLustreMgt, claim: &NnfLustreMgtStatusClaim) -> NnfLustreMgtStatus {
    let mut status = status(object);
    status.claim_list.retain(|other| other != claim);
    status
}

/// Returns the status after commands ran; their result is added only if the spec still has them.
#[must_use]
pub fn with_commands_run(
    object: &NnfLustreMgt,
    entry: &NnfLustreMgtSpecCommand,
    error: Option<&ResourceError>,
) -> NnfLustreMgtStatus {
    let mut status = status(object);
    if !object.spec.command_list.contains(entry) {
        return status;
    }
    let reported = NnfLustreMgtStatusCommand {
        reference: entry.reference.clone(),
        ready: error.is_none(),
        error: error.cloned(),
    };
    match status.command_list.iter_mut().find(|command| command.reference == entry.reference) {
        Some(known) => *known = reported,
        None => status.command_list.push(reported),
    }
    status
}

/// Returns whether the claim may be removed although its name could not be erased: the target itself is about to be
/// removed, because the object is being deleted or the claim is of the NnfStorage that contains the target. A target
/// that never came up, or is gone already, must not block the tear-down of a job.
pub fn goes_with_target(object: &NnfLustreMgt, claim: &NnfLustreMgtStatusClaim) -> bool {
    let of_owner = |reference: &ObjectReference| {
        [
            (label::OWNER_KIND, &reference.kind),
            (label::OWNER_NAMESPACE, &reference.namespace),
            (label::OWNER_NAME, &reference.name),
        ]
        .into_iter()
        .all(|(key, part)| part.is_some() && object.label(key) == part.as_deref())
    };
    let deleted = object.metadata.deletion_timestamp.is_some();
    deleted || claim.reference.non_default().is_some_and(of_owner)
}

/// Returns the status with this error, or without an error.
#[must_use]
pub fn with_error(object: &NnfLustreMgt, error: Option<ResourceError>) -> NnfLustreMgtStatus {
    NnfLustreMgtStatus { error, ..status(object) }
}

fn status(object: &NnfLustreMgt) -> NnfLustreMgtStatus {
    object.status.clone().unwrap_or_default()
}

/// Returns the first claim without a name.
fn first_unnamed(object: &NnfLustreMgt) -> Option<&ObjectReference> {
    let granted = status(object).claim_list;
    let has_name =
        |claim: &&ObjectReference| granted.iter().any(|entry| *entry.reference == **claim);
    object.spec.claim_list.iter().find(|claim| !has_name(claim))
}

fn names(
    object: &NnfLustreMgt,
    published: Option<&Published>,
) -> Option<(Work, Result<Action, MgtError>)> {
    is_name_wanted(object).then(|| (Work::Names, name_step(object, published)))
}

/// Returns the next step towards a name. The steps are: write the first name into the status; write the following name
/// into the ConfigMap; write the claim, with its name, and the following name into the status. After a crash between
/// two steps the same steps are repeated with the same result.
fn name_step(object: &NnfLustreMgt, published: Option<&Published>) -> Result<Action, MgtError> {
    let mut status = status(object);
    let mut taken: BTreeSet<_> = object.spec.fs_name_black_list.iter().cloned().collect();
    // Names of withdrawn claims cannot be given out until they are erased.
    taken.extend(status.claim_list.iter().map(|claim| claim.fs_name.clone()));
    let Some(claim) = first_unnamed(object).filter(|_| !status.fs_name_next.is_empty()) else {
        status.fs_name_next = start(object, published)?.first_free(&taken).to_string();
        return Ok(Action::WriteStatus(Box::new(status)));
    };
    let next = parse_name("status.fsNameNext", &status.fs_name_next)?.first_free(&taken);
    let after = next.next().first_free(&taken);
    if published.is_some_and(|published| published.next.as_deref() != Some(&*after.to_string())) {
        return Ok(Action::Publish(after));
    }
    let (reference, fs_name) = (claim.clone().into(), next.to_string());
    status.claim_list.push(NnfLustreMgtStatusClaim { reference, fs_name });
    status.fs_name_next = after.to_string();
    Ok(Action::WriteStatus(Box::new(status)))
}

fn start(object: &NnfLustreMgt, published: Option<&Published>) -> Result<FsName, MgtError> {
    if let Some((published, next)) =
        published.and_then(|published| Some((published, published.next.as_deref()?)))
    {
        return parse_name(&format!("ConfigMap {}: data.{KEY}", published.place()), next);
    }
    match object.spec.fs_name_start.as_str() {
        "" => Err(MgtError::NoStart),
        start => parse_name("spec.fsNameStart", start),
    }
}

fn parse_name(field: &str, value: &str) -> Result<FsName, MgtError> {
    let invalid = || MgtError::Name { field: field.to_owned(), value: value.to_owned() };
    value.parse().map_err(|_| invalid())
}

fn records(object: &NnfLustreMgt) -> Option<(Work, Result<Action, MgtError>)> {
    let mut after = status(object);
    let is_in_spec = |reported: &NnfLustreMgtStatusCommand| {
        object.spec.command_list.iter().any(|command| command.reference == reported.reference)
    };
    after.command_list.retain(is_in_spec);
    let differs = after.command_list.len() != status(object).command_list.len();
    differs.then(|| (Work::Records, Ok(Action::WriteStatus(Box::new(after)))))
}

/// Returns the names to erase: those of claims that the spec no longer has. A record without a reference belongs to
/// no claim and stays.
fn erasures(object: &NnfLustreMgt) -> impl Iterator<Item = (Work, Result<Action, MgtError>)> {
    let withdrawn = |claim: &NnfLustreMgtStatusClaim| {
        claim
            .reference
            .non_default()
            .is_some_and(|reference| !object.spec.claim_list.contains(reference))
    };
    let names: Vec<_> = status(object).claim_list.into_iter().filter(withdrawn).collect();
    names.into_iter().map(|claim| {
        let work = Work::Erase(claim.fs_name.clone());
        if can_be_erased(&claim.fs_name) || goes_with_target(object, &claim) {
            (work, Ok(Action::Erase(claim)))
        } else {
            (work, Err(MgtError::NotErasable(claim.fs_name)))
        }
    })
}

/// Returns the entries whose commands have not run yet, in order.
fn commands(object: &NnfLustreMgt) -> impl Iterator<Item = (Work, Result<Action, MgtError>)> {
    let reported = status(object).command_list;
    object
        .spec
        .command_list
        .iter()
        .filter(move |entry| {
            !reported.iter().any(|command| command.reference == entry.reference && command.ready)
        })
        .map(|entry| (Work::Commands(entry.reference.clone()), Ok(Action::Run(entry.clone()))))
}

#[cfg(test)]
mod tests;
