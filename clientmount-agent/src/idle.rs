//! Ends an idle agent: an agent with no connection to its socket and nothing to do. Mounts stay.
//!
//! The agent keeps its knowledge in `<state>/mounts` and in the API, so that the next agent process has it too. An
//! agent that is to end when idle has only one timer, which starts once the agent is idle.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{ClientMountStatus, client_mount::MountState};
use proto::v1::{JobMount, JobState};
use tokio::{sync::watch, time::sleep};

use crate::{clients::Clients, view::View};
use agent::{outbox::Outbox, questions::Question, received::Report};

/// Returns once the agent has been idle for the time `after`. Without a coordinator, the agent is not idle while an
/// unmounted object still carries the finalizer: the agent itself must remove the finalizer when the object is deleted.
pub async fn idle(
    after: Duration,
    has_coordinator: bool,
    view: Arc<View>,
    outbox: Arc<Outbox>,
    clients: Clients,
) {
    let mut question = Question::ask(&outbox, None);
    let (mut viewed, mut clients) = (view.changes(), clients.changes());
    loop {
        viewed.borrow_and_update();
        let is_idle = {
            let (no_clients, state) =
                (*clients.borrow_and_update() == 0, question.answer.borrow_and_update());
            no_clients && is_idle(&view, &outbox.reports(), state.as_ref(), has_coordinator)
        };
        tokio::select! {
            changed = wait_for_change(&mut viewed, &mut clients, &mut question) => if !changed {
                return std::future::pending().await;
            },
            () = sleep(after), if is_idle => return,
        }
    }
}

async fn wait_for_change(
    view: &mut watch::Receiver<()>,
    clients: &mut watch::Receiver<usize>,
    question: &mut Question,
) -> bool {
    tokio::select! {
        changed = view.changed() => changed.is_ok(),
        changed = clients.changed() => changed.is_ok(),
        changed = question.answer.changed() => changed.is_ok(),
    }
}

/// Returns whether the agent has nothing to do. While the coordinator has not answered, the agent does not know what
/// the API stores; the agent is then idle only if it has done nothing since its start.
fn is_idle(
    view: &View,
    reports: &[Report],
    state: Option<&JobState>,
    has_coordinator: bool,
) -> bool {
    let Some(state) = state else {
        return reports.is_empty() && view.activity().idle && !view.activity().cleaned_up;
    };
    view.activity().idle
        && view.activity().cleaned_up
        && are_reports_stored(reports, &state.mounts)
        && (has_coordinator || state.mounts.iter().all(|mount| !mount.held || is_mounted(mount)))
}

/// Returns whether the API has every report of the agent.
fn are_reports_stored(reports: &[Report], mounts: &[JobMount]) -> bool {
    let by_uid: BTreeMap<_, _> = mounts.iter().map(|mount| (mount.uid.as_str(), mount)).collect();
    reports.iter().all(|report| match by_uid.get(report.uid.as_str()) {
        None => true,
        Some(mount) if report.released => !mount.held,
        Some(mount) => status(mount).as_ref() == Some(&report.status),
    })
}

fn status(mount: &JobMount) -> Option<ClientMountStatus> {
    serde_json::from_slice(&mount.status).ok()
}

/// Returns whether an object is completely mounted, for a running job. The agent may end although such an object
/// exists: the script that ends the job starts the agent again.
fn is_mounted(mount: &JobMount) -> bool {
    let is_ready = |status: ClientMountStatus| {
        status.mounts.iter().all(|mount| mount.ready && mount.state == MountState::Mounted)
    };
    mount.desired_state == "mounted" && !mount.deleting && status(mount).is_some_and(is_ready)
}

#[cfg(test)]
mod tests {
    use api::client_mount::ClientMountInfoStatus;

    use super::*;
    use crate::view::Activity;

    fn all(state: MountState, ready: bool) -> ClientMountStatus {
        let mounts = vec![ClientMountInfoStatus { state, ready }];
        ClientMountStatus { mounts, all_ready: ready, error: None }
    }

    fn report(status: ClientMountStatus, released: bool) -> Report {
        let text = || "a".to_owned();
        Report {
            namespace: text(),
            name: text(),
            uid: text(),
            resource_version: text(),
            status,
            released,
        }
    }

    fn stored_job(
        status: &ClientMountStatus,
        desired: &str,
        held: bool,
        deleting: bool,
    ) -> JobState {
        let mount = JobMount {
            uid: "a".to_owned(),
            desired_state: desired.to_owned(),
            deleting,
            held,
            status: serde_json::to_vec(status).unwrap(),
            ..JobMount::default()
        };
        JobState { mounts: vec![mount], ..JobState::default() }
    }

    #[test]
    fn an_agent_is_idle_once_everything_is_done_and_the_api_has_every_report() {
        let (mounted, unmounted) =
            (all(MountState::Mounted, true), all(MountState::Unmounted, true));
        let before_first_list = View::default();
        before_first_list.set_activity(Activity { cleaned_up: false, idle: true });
        let at_rest = View::default();
        at_rest.set_activity(Activity { cleaned_up: true, idle: true });
        let busy = View::default();
        busy.set_activity(Activity { cleaned_up: true, idle: false });
        for (what, view, reports, state, expected) in [
            (
                "mounted, and the API has the report",
                &at_rest,
                vec![report(mounted.clone(), false)],
                Some(stored_job(&mounted, "mounted", true, false)),
                true,
            ),
            (
                "the API does not have the last report",
                &at_rest,
                vec![report(unmounted.clone(), false)],
                Some(stored_job(&mounted, "unmounted", true, false)),
                false,
            ),
            ("a pass runs", &busy, Vec::new(), Some(JobState::default()), false),
            (
                "the finalizer is not removed yet",
                &at_rest,
                vec![report(unmounted.clone(), true)],
                Some(stored_job(&unmounted, "unmounted", true, true)),
                false,
            ),
            (
                "the finalizer is removed",
                &at_rest,
                vec![report(unmounted.clone(), true)],
                Some(stored_job(&unmounted, "unmounted", false, true)),
                true,
            ),
            (
                "the object is deleted",
                &at_rest,
                vec![report(unmounted.clone(), true)],
                Some(JobState::default()),
                true,
            ),
            (
                "a mount, and no answer of the coordinator",
                &at_rest,
                vec![report(mounted.clone(), false)],
                None,
                false,
            ),
            (
                "nothing done since the start, and no answer of the coordinator",
                &before_first_list,
                Vec::new(),
                None,
                true,
            ),
        ] {
            assert_eq!(is_idle(view, &reports, state.as_ref(), true), expected, "{what}");
        }
    }

    #[test]
    fn without_a_coordinator_the_agent_stays_until_unmounted_objects_are_deleted() {
        let at_rest = View::default();
        at_rest.set_activity(Activity { cleaned_up: true, idle: true });
        let is_idle = |state: &JobState| is_idle(&at_rest, &[], Some(state), false);
        let (mounted, unmounted) =
            (all(MountState::Mounted, true), all(MountState::Unmounted, true));
        assert!(is_idle(&stored_job(&mounted, "mounted", true, false)), "a job runs");
        assert!(!is_idle(&stored_job(&unmounted, "unmounted", true, false)));
        assert!(!is_idle(&stored_job(&mounted, "mounted", true, true)));
        assert!(is_idle(&stored_job(&unmounted, "unmounted", false, true)));
    }
}
