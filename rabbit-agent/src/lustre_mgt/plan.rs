//! What is to be done next about a management target, from its object alone. Pure.

use std::{collections::BTreeSet, fmt};

use api::{
    Nested, NnfLustreMgt, NnfLustreMgtStatus, RabbitLabels, ResourceError,
    names::label,
    nnf_lustre_mgt::{NnfLustreMgtSpecCommand, NnfLustreMgtStatusClaim, NnfLustreMgtStatusCommand},
};
use k8s_openapi::api::core::v1::ObjectReference;

use super::{
    MgtError,
    config_map::KEY,
    name::{FsName, can_be_erased},
};

/// What the object's ConfigMap says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name to give out next, if it has one.
    pub next: Option<String>,
    /// Its resourceVersion.
    pub version: Option<String>,
}

impl Published {
    /// Namespace and name.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A part of the work. One that failed is left out for the rest of a pass, and stops no other.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Giving out names.
    Names,
    /// Erasing a name.
    Erase(String),
    /// Running the commands that an object asked for.
    Commands(Nested<ObjectReference>),
    /// Writing down what is no longer asked for.
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
            Self::Records => write!(f, "drop what is not asked for"),
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write this status; nothing else is to be done first.
    Tell(Box<NnfLustreMgtStatus>),
    /// Put this name into the ConfigMap, as the next one.
    Publish(FsName),
    /// Erase the name, and then take the claim out of the status; one that [`goes_with_target`] whether or not it was erased.
    Erase(NnfLustreMgtStatusClaim),
    /// Run the commands, and then tell how that went.
    Run(NnfLustreMgtSpecCommand),
}

/// The next part of the work that has not failed yet, and what to do for it.
#[must_use]
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

/// Whether a name is about to be chosen.
#[must_use]
pub fn is_name_wanted(object: &NnfLustreMgt) -> bool {
    status(object).fs_name_next.is_empty() || unnamed(object).is_some()
}

/// The status once a claim is erased. If somebody claims it again meanwhile, he gets a new name.
#[must_use]
pub fn without_claim(object: &NnfLustreMgt, claim: &NnfLustreMgtStatusClaim) -> NnfLustreMgtStatus {
    let mut status = status(object);
    status.claim_list.retain(|other| other != claim);
    status
}

/// The status once commands ran, if they are still what the object asks for.
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

/// Whether nobody is owed the erasure of this name, because its target goes anyway: the object is being deleted, or the
/// claim was that of the NnfStorage which the target itself is part of. A target that never came up, or is gone already, must
/// not keep a job's tear-down waiting for ever.
#[must_use]
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
    deleted || claim.reference.given().is_some_and(of_owner)
}

/// The status with this error, or none.
#[must_use]
pub fn with_error(object: &NnfLustreMgt, error: Option<ResourceError>) -> NnfLustreMgtStatus {
    NnfLustreMgtStatus { error, ..status(object) }
}

fn status(object: &NnfLustreMgt) -> NnfLustreMgtStatus {
    object.status.clone().unwrap_or_default()
}

/// The first claim that has no name yet.
fn unnamed(object: &NnfLustreMgt) -> Option<&ObjectReference> {
    let given = status(object).claim_list;
    let has_name = |claim: &&ObjectReference| given.iter().any(|given| *given.reference == **claim);
    object.spec.claim_list.iter().find(|claim| !has_name(claim))
}

fn names(
    object: &NnfLustreMgt,
    published: Option<&Published>,
) -> Option<(Work, Result<Action, MgtError>)> {
    is_name_wanted(object).then(|| (Work::Names, name(object, published)))
}

/// First where to begin is written down; then, for one claim, the ConfigMap is told of the name after it, and last the status
/// of both. What was not written down in between is written again as it was.
fn name(object: &NnfLustreMgt, published: Option<&Published>) -> Result<Action, MgtError> {
    let mut status = status(object);
    let mut taken: BTreeSet<_> = object.spec.fs_name_black_list.iter().cloned().collect();
    // Also those whose claim is gone, until they are erased.
    taken.extend(status.claim_list.iter().map(|claim| claim.fs_name.clone()));
    let Some(claim) = unnamed(object).filter(|_| !status.fs_name_next.is_empty()) else {
        status.fs_name_next = start(object, published)?.first_free(&taken).to_string();
        return Ok(Action::Tell(Box::new(status)));
    };
    let next = counted("status.fsNameNext", &status.fs_name_next)?.first_free(&taken);
    let after = next.next().first_free(&taken);
    if published.is_some_and(|published| published.next.as_deref() != Some(&*after.to_string())) {
        return Ok(Action::Publish(after));
    }
    let (reference, fs_name) = (claim.clone().into(), next.to_string());
    status.claim_list.push(NnfLustreMgtStatusClaim { reference, fs_name });
    status.fs_name_next = after.to_string();
    Ok(Action::Tell(Box::new(status)))
}

fn start(object: &NnfLustreMgt, published: Option<&Published>) -> Result<FsName, MgtError> {
    if let Some((published, next)) =
        published.and_then(|published| Some((published, published.next.as_deref()?)))
    {
        return counted(&format!("ConfigMap {}: data.{KEY}", published.place()), next);
    }
    match object.spec.fs_name_start.as_str() {
        "" => Err(MgtError::NoStart),
        start => counted("spec.fsNameStart", start),
    }
}

fn counted(field: &str, value: &str) -> Result<FsName, MgtError> {
    let named = || MgtError::Name { field: field.to_owned(), value: value.to_owned() };
    value.parse().map_err(|_| named())
}

fn records(object: &NnfLustreMgt) -> Option<(Work, Result<Action, MgtError>)> {
    let mut after = status(object);
    let asked = |reported: &NnfLustreMgtStatusCommand| {
        object.spec.command_list.iter().any(|command| command.reference == reported.reference)
    };
    after.command_list.retain(asked);
    let differs = after.command_list.len() != status(object).command_list.len();
    differs.then(|| (Work::Records, Ok(Action::Tell(Box::new(after)))))
}

/// Names whose claim is gone. One that nobody ever claimed is nobody's to withdraw.
fn erasures(object: &NnfLustreMgt) -> impl Iterator<Item = (Work, Result<Action, MgtError>)> {
    let withdrawn = |claim: &NnfLustreMgtStatusClaim| {
        claim.reference.given().is_some_and(|reference| !object.spec.claim_list.contains(reference))
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

/// Entries that did not run to their end, in order. One that comes twice is one.
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
