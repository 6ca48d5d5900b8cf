//! Which nodes' agents have a session with this coordinator, and since when the others have none.
//!
//! Silence is positive evidence only: an agent counts as silent when it had a session that ended, or when an object says
//! that it had one and it opened none since this coordinator began. An agent that never had a session may use the API
//! directly, and nothing follows from that. Ends of sessions are recorded only of agents that run all the time.

use std::{collections::BTreeMap, fmt, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The session of a node's agent was opened or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionChange {
    pub node: String,
    pub is_open: bool,
    pub at: Timestamp,
}

/// The sessions of nodes with this coordinator.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// Time from which this coordinator has accepted sessions; `None` before the engine runs.
    begun: Option<Timestamp>,
    /// Nodes that had a session: `None` while it is open, otherwise the time of its end.
    nodes: BTreeMap<String, Option<Timestamp>>,
}

/// Since when an agent is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    since: Timestamp,
    /// Whether a session ended then; otherwise this coordinator began then.
    has_ended: bool,
}

/// What the sessions say of a node's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The agent has a session.
    Open,
    /// Nothing follows: the agent never had a session with this coordinator.
    Unknown,
    /// The agent has no session, and counts as silent from this time on.
    Ended(Timestamp),
    Silent(Silence),
}

impl Sessions {
    /// Sets the time from which this coordinator accepts sessions.
    pub fn begin(&mut self, now: Timestamp) {
        self.begun = Some(now);
    }

    /// Takes in a change. A node that was not heard before its connection broke has been silent since it was last heard.
    pub fn record(&mut self, change: SessionChange) {
        let ended = (!change.is_open).then_some(change.at);
        let before = self.nodes.get(&change.node).copied().flatten();
        let earlier = before.filter(|earlier| ended.is_some_and(|ended| *earlier < ended));
        self.nodes.insert(change.node, earlier.or(ended));
    }

    /// Returns what is known of a node's agent. `had_session` says whether an object records that the agent had a
    /// session with some coordinator.
    #[must_use]
    pub fn contact(
        &self,
        node: &str,
        had_session: bool,
        limit: Duration,
        now: Timestamp,
    ) -> Contact {
        let Some(begun) = self.begun else { return Contact::Unknown };
        let silence = match self.nodes.get(node) {
            Some(None) => return Contact::Open,
            Some(Some(since)) => Silence { since: *since, has_ended: true },
            None if had_session => Silence { since: begun, has_ended: false },
            None => return Contact::Unknown,
        };
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        match silence.since.checked_add(limit) {
            Ok(due) if due > now => Contact::Ended(due),
            _ => Contact::Silent(silence),
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ");
        if self.has_ended {
            write!(
                f,
                "silent since {since}: its session with the coordinator ended, or it was not heard since then"
            )
        } else {
            write!(f, "silent at least since {since}, when this coordinator began")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn sessions(changes: &[(bool, i64)]) -> Sessions {
        let mut sessions = Sessions::default();
        sessions.begin(at(0));
        for (is_open, second) in changes {
            let node = "rabbit-1".to_owned();
            sessions.record(SessionChange { node, is_open: *is_open, at: at(*second) });
        }
        sessions
    }

    #[test]
    fn an_agent_is_silent_only_after_the_limit_and_only_with_evidence() {
        let ended = Silence { since: at(20), has_ended: true };
        let never = Silence { since: at(0), has_ended: false };
        for (changes, had_session, now, expected) in [
            (&[][..], false, 1000, Contact::Unknown),
            (&[], true, 59, Contact::Ended(at(60))),
            (&[], true, 60, Contact::Silent(never)),
            (&[(true, 10)], false, 1000, Contact::Open),
            (&[(true, 10), (false, 20)], false, 79, Contact::Ended(at(80))),
            (&[(true, 10), (false, 20)], false, 80, Contact::Silent(ended)),
            (&[(true, 10), (false, 20), (true, 90)], true, 1000, Contact::Open),
            (&[(true, 10), (false, 20), (false, 70)], false, 80, Contact::Silent(ended)),
        ] {
            let found = sessions(changes).contact("rabbit-1", had_session, LIMIT, at(now));
            assert_eq!(found, expected, "{changes:?} at {now}");
        }
    }
}
