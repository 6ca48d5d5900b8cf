//! Checks a Workflow against the site's limits: in Proposal what its directives ask for at least, in Setup what its Servers
//! reserve. Every Workflow passes here, whoever created it.

use api::{ResourceError, directive_breakdown::StorageAllocationSet};
use directive::{
    Command,
    breakdown::{AllocationSet, of_jobdw, of_persistent},
};

use crate::{
    limits::{Amount, Asked},
    objects::{
        allocation::total_bytes,
        site::Site,
        view::{DirectiveView, View},
    },
    profile::to_storage_profile,
    progress::user_error,
};

/// Returns the limit that the directives of a Workflow in Proposal exceed, as text.
pub fn proposal_refusal(view: &View<'_>) -> Option<String> {
    let amounts = view.workflow.spec.directives.iter().map(|line| {
        let is_kept = matches!(Command::read(line), Some(Command::CreatePersistent(_)));
        Amount { bytes: requested_bytes(view.site, line), persistent: u64::from(is_kept) }
    });
    refusal(view, amounts)
}

/// Checks what the Servers of a Workflow in Setup reserve. A Servers that is not filled yet counts as its breakdown.
///
/// # Errors
/// The limit that they exceed together.
pub fn check_placed(view: &View<'_>) -> Result<(), ResourceError> {
    let amounts = view.directives.iter().map(|directive| {
        // A Workflow that only uses persistent storage has no breakdown of it.
        let bytes = directive.breakdown.as_ref().map_or(0, |_| placed_bytes(directive));
        Amount { bytes, persistent: 0 }
    });
    refusal(view, amounts).map_or(Ok(()), |text| Err(user_error(text)))
}

fn refusal(view: &View<'_>, amounts: impl Iterator<Item = Amount>) -> Option<String> {
    let amount = amounts.fold(Amount::default(), |sum, amount| Amount {
        bytes: sum.bytes.saturating_add(amount.bytes),
        persistent: sum.persistent + amount.persistent,
    });
    let (user, group) = (view.workflow.spec.user_id, view.workflow.spec.group_id);
    let asked = Asked { user, group, amount };
    view.site.settings.limits.check(&asked, &view.used).err().map(|limit| limit.to_string())
}

/// Returns true if a directive makes storage.
pub fn makes_storage(command: &Command) -> bool {
    matches!(command, Command::Jobdw(_) | Command::CreatePersistent(_))
}

fn placed_bytes(directive: &DirectiveView) -> u64 {
    let filled = directive.storage.servers.as_ref().map_or(0, |servers| total_bytes(servers));
    if filled > 0 {
        return u64::try_from(filled).unwrap_or_default();
    }
    let status = directive.breakdown.as_ref().and_then(|breakdown| breakdown.status.as_ref());
    let storage = status.and_then(|status| status.storage.as_ref());
    storage.map_or(0, |storage| minimum_bytes(&storage.allocation_sets))
}

/// Returns the bytes that a breakdown asks for at least: storage of each compute counts once.
pub fn minimum_bytes(sets: &[StorageAllocationSet]) -> u64 {
    let bytes = sets.iter().map(|set| u64::try_from(set.minimum_capacity).unwrap_or_default());
    bytes.fold(0, u64::saturating_add)
}

/// Returns the bytes that a directive asks for at least; 0 for a directive that makes no storage, or that Proposal refuses
/// for another reason.
pub fn requested_bytes(site: &Site, line: &str) -> u64 {
    let command = Command::read(line);
    let sets = match &command {
        Some(Command::Jobdw(jobdw)) => profile(site, jobdw.profile.as_deref())
            .and_then(|profile| of_jobdw(jobdw, &profile).ok()),
        Some(Command::CreatePersistent(create)) => profile(site, create.profile.as_deref())
            .and_then(|profile| of_persistent(create, &profile).ok()),
        _ => None,
    };
    let bytes = |set: &AllocationSet| set.minimum_capacity;
    sets.iter().flatten().map(bytes).fold(0, u64::saturating_add)
}

fn profile(site: &Site, name: Option<&str>) -> Option<directive::profile::StorageProfile> {
    let mut profiles = site.profiles.iter();
    let profile = match name {
        Some(name) => site.profiles.get(name),
        None => profiles.find(|(_, profile)| profile.data().default).map(|(_, profile)| profile),
    };
    profile.map(|profile| to_storage_profile(profile))
}
