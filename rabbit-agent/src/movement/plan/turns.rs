//! Which movements start. Users take turns: a user with a thousand movements does not delay a user with a single movement.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::jiff::Timestamp;
use storage::desired::ObjectUid;

/// A movement that could start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub uid: ObjectUid,
    pub user: i64,
    pub created: Timestamp,
    /// Whether an earlier agent began it: it holds half a copy, and goes on first.
    pub has_begun: bool,
}

/// Returns the movements that start now, at most until `most` run. `running` are the users of those that run; `served` are users in
/// the order in which one of their movements last started, the latest at the end.
///
/// Next is a movement that has begun; then one of the user of whom the fewest run; then of the user whose turn was
/// longest ago; then the oldest.
#[must_use]
pub fn turns(
    waiting: &[Waiting],
    running: &[i64],
    served: &VecDeque<i64>,
    most: usize,
) -> Vec<ObjectUid> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for user in running {
        *counts.entry(*user).or_default() += 1;
    }
    let mut turn_of: BTreeMap<i64, usize> =
        served.iter().enumerate().map(|(turn, user)| (*user, turn + 1)).collect();
    let mut left: Vec<&Waiting> = waiting.iter().collect();
    let mut next = Vec::new();
    for turn in 0..most.saturating_sub(running.len()) {
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
