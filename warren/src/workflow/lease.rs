//! Renews the lease of a Workflow as long as this command lives: when a lease expires, the coordinator
//! tears its Workflow down.

use std::time::Duration;

use api::Workflow;
use kube::ResourceExt;
use nix::sys::signal::{Signal, raise};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use workload::Flow;
use workload::lease::{ANNOTATION, Lease};

/// First lease: without a renewal, the coordinator keeps a Workflow for 600 s.
pub(super) const FIRST: Lease = Lease { seconds: 600, renewals: 0 };
/// Interval between two renewals.
const RENEWAL: Duration = Duration::from_secs(60);
/// Longest time that a command waits for the API before it stops on Ctrl-Z.
const STOP: Duration = Duration::from_secs(2);

/// A task that renews a lease until this value is dropped.
pub(crate) struct Renewal(
    #[expect(dead_code, reason = "the task ends when it is dropped")] JoinSet<()>,
);

impl Renewal {
    pub(super) fn start(flow: Flow, workflow: &Workflow) -> Self {
        let mut task = JoinSet::new();
        task.spawn(renew(flow, workflow.uid()));
        Self(task)
    }
}

/// Renews the lease every minute. When the user stops the command (Ctrl-Z), writes a lease that does not expire until
/// the command continues.
async fn renew(flow: Flow, uid: Option<String>) {
    let Ok(mut stops) = signal(SignalKind::from_raw(Signal::SIGTSTP as i32)) else { return };
    let mut lease = FIRST;
    let write = async |lease: Lease| {
        let annotations = json!({ANNOTATION: lease.text()});
        // Ignores failures: the next renewals come before the lease expires, and a Workflow that is gone needs no
        // lease.
        let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
        drop(flow.patch("renew the lease of", &patch).await);
    };
    loop {
        lease.renewals += 1;
        tokio::select! {
            () = sleep(RENEWAL) => write(lease).await,
            _ = stops.recv() => {
                drop(timeout(STOP, write(Lease { seconds: 0, ..lease })).await);
                // Stops this process until SIGCONT.
                let _ = raise(Signal::SIGSTOP);
                lease.renewals += 1;
                write(lease).await;
            }
        }
    }
}
