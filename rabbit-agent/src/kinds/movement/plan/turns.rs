//! Chooses the movements that start. Users take turns: a user with a thousand movements does not delay a user with a
//! single movement.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::jiff::Timestamp;
use storage::desired::ObjectUid;

/// A movement that could start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub uid: ObjectUid,
    pub user: i64,
    pub created: Timestamp,
    /// Whether the copy was started before, for example by an earlier agent: such a movement starts first.
    pub has_begun: bool,
}

/// Returns the movements that start now, so that at most `limit` run. `running` holds the user of each running
/// movement; `served` holds users in the order in which one of their movements last started, the latest at the end.
///
/// Movements are preferred in this order: those that have begun; those of the user with the fewest running movements;
/// those of the user whose last turn is longest ago; the oldest.
#[must_use]
pub fn turns(
    waiting: &[Waiting],
    running: &[i64],
    served: &VecDeque<i64>,
    limit: usize,
) -> Vec<ObjectUid> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for user in running {
        *counts.entry(*user).or_default() += 1;
    }
    let mut turn_of: BTreeMap<i64, usize> =
        served.iter().enumerate().map(|(turn, user)| (*user, turn + 1)).collect();
    let mut left: Vec<&Waiting> = waiting.iter().collect();
    let mut next = Vec::new();
    for turn in 0..limit.saturating_sub(running.len()) {
        let rank = |(_, movement): &(usize, &&Waiting)| {
            let count = counts.get(&movement.user).copied().unwrap_or_default();
            let turn = turn_of.get(&movement.user).copied().unwrap_or_default();
            (!movement.has_begun, count, turn, movement.created, movement.uid)
        };
        let Some((place, _)) = left.iter().enumerate().min_by_key(rank) else { break };
        let first = left.swap_remove(place);
        *counts.entry(first.user).or_default() += 1;
        turn_of.insert(first.user, served.len() + turn + 1);
        next.push(first.uid);
    }
    next
}
