//! How this rabbit is, for the coordinator: told when it changes.

use proto::v1::{Health, health::State};
use tokio::sync::watch;

/// As many as a person reads in one line of a table.
const NAMED: usize = 8;

/// The newest health, for whoever listens.
#[derive(Debug, Clone)]
pub struct Board(watch::Sender<Health>);

impl Default for Board {
    fn default() -> Self {
        Self(watch::Sender::new(Health::default()))
    }
}

impl Board {
    /// Puts up the newest health. What is wrong is logged once, and again only when it is something else.
    pub fn tell(&self, health: Health) {
        self.0.send_if_modified(|current| {
            let changed = *current != health;
            if current.message != health.message && !health.message.is_empty() {
                log::warn!("{}", health.message);
            }
            *current = health;
            changed
        });
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> watch::Receiver<Health> {
        self.0.subscribe()
    }
}

/// Health of a rabbit whose drives were seen; `faults` are those that need attention, each with the reason.
#[must_use]
pub fn of_drives(total: u64, allocated: u64, unclaimed: &[String], faults: &[String]) -> Health {
    let mut told = Vec::new();
    if total == 0 {
        told.push(
            "no drive is usable: check the drives of this node and --drive-model, or name a pool with --file-pool"
                .to_owned(),
        );
    }
    if !faults.is_empty() {
        told.push(format!("{} drives need attention: {}", faults.len(), named(faults)));
    }
    if !unclaimed.is_empty() {
        told.push(format!(
            "{} namespaces belong to no NnfNodeBlockStorage and are left alone; delete them by hand if nobody needs them: {}",
            unclaimed.len(),
            named(unclaimed)
        ));
    }
    let state = match (total, told.is_empty()) {
        (0, _) => State::Critical,
        (_, true) => State::Ok,
        (_, false) => State::Warning,
    };
    let message = told.join("; ");
    Health { state: state.into(), message, capacity_total: total, capacity_allocated: allocated }
}

fn named(all: &[String]) -> String {
    let (named, more) = all.split_at(all.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("{}{more}", named.join(", "))
}

/// Health of a rabbit whose drives could not be looked at.
#[must_use]
pub fn of_failure(why: &str) -> Health {
    Health {
        state: State::Critical.into(),
        message: format!("the drives cannot be looked at: {why}"),
        ..Health::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_hear_only_changes() {
        let board = Board::default();
        let mut listener = board.listen();
        board.tell(of_drives(100, 10, &[], &[]));
        assert!(listener.has_changed().unwrap());
        assert_eq!(listener.borrow_and_update().capacity_allocated, 10);
        board.tell(of_drives(100, 10, &[], &[]));
        assert!(!listener.has_changed().unwrap());
    }

    #[test]
    fn a_rabbit_without_drives_is_critical() {
        assert_eq!(of_drives(0, 0, &[], &[]).state(), State::Critical);
    }

    #[test]
    fn unclaimed_namespaces_are_a_warning_with_their_names() {
        let health = of_drives(100, 10, &["nqn.x:3".into()], &[]);
        assert_eq!(health.state(), State::Warning);
        assert!(health.message.contains("nqn.x:3"));
        let many: Vec<String> = (0..4096).map(|nsid| format!("nqn.x:{nsid}")).collect();
        let message = of_drives(100, 10, &many, &[]).message;
        assert!(message.ends_with("nqn.x:7 and 4088 more"), "{message}");
    }

    #[test]
    fn a_drive_that_cannot_be_used_is_a_warning_with_its_reason() {
        let health = of_drives(100, 10, &[], &["nqn.x: it is not plugged in".into()]);
        assert_eq!(health.state(), State::Warning);
        assert_eq!(health.message, "1 drives need attention: nqn.x: it is not plugged in");
    }
}
