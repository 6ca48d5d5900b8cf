//! The node's health: whether objects or the clean-up fail.

use proto::v1::{Health, health};

use super::Agent;

impl Agent {
    pub(super) fn report_health(&self) {
        let clean_up = self.clean_up.failure().map(|why| format!("unwanted mounts remain: {why}"));
        let objects = self
            .failing
            .iter()
            .map(|(uid, why)| format!("ClientMount {}: {why}", self.objects.name(uid)));
        let problems: Vec<_> = objects.chain(clean_up).collect();
        let (state, message) = match &*problems {
            [] => (health::State::Ok, String::new()),
            [problem] => (health::State::Warning, problem.clone()),
            [first, others @ ..] => (
                health::State::Warning,
                format!("{first} (other problems of the agent: {})", others.len()),
            ),
        };
        self.outbox.set_health(Health { state: state.into(), message, ..Health::default() });
    }
}
