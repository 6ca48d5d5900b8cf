//! Tears down Workflows whose command (`warren run` or `warren persistent create`) is gone. The command renews a lease
//! on its Workflow as long as it runs; after a SIGKILL or the loss of its host it cannot remove the Workflow itself.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use api::{Workflow, WorkflowState};
use apiclient::{list_readable, plain};
use controller::{Event, Watched as WatchedKind, watch};
use fanout::everywhere;
use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::sleep;
use workload::lease::{LABEL, Watched};
use workload::{Flow, Progress, Refused, progress};

/// Interval between two reads of the leases. A short interval costs little, because few Workflows have a lease.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Longest gap between two reads of a lease that counts towards the lease's expiry. After a longer gap the expiry clock
/// starts again: the API may have been unreachable for the command too.
const LONGEST_GAP: Duration = Duration::from_secs(40);

/// Removes, for ever, the Workflows whose lease has expired. While no Workflow carries a lease, this task only watches
/// Workflows, and runs no timer.
pub(crate) async fn remove_abandoned(client: Client) {
    let (has_leases, leases) = channel(false);
    tokio::join!(watch_leases(client.clone(), has_leases), check_leases(client, leases));
}

/// Watches the Workflows with a lease, and sends to `has_leases` whether such Workflows exist.
async fn watch_leases(client: Client, has_leases: Sender<bool>) {
    let config = Config::default().labels(LABEL);
    let mut events = pin!(watch(client, WatchedKind { config, ..everywhere::<Workflow>() }));
    let mut leased = BTreeSet::new();
    let place = |object: &DynamicObject| (object.namespace(), object.name_any());
    while let Some(event) = events.next().await {
        match event {
            Event::Listed(items) => leased = items.iter().flatten().map(place).collect(),
            Event::Applied(Ok(object)) => drop(leased.insert(place(&object))),
            Event::Deleted(Ok(object)) => drop(leased.remove(&place(&object))),
            Event::Applied(Err(_))
            | Event::Deleted(Err(_))
            | Event::Failing(_)
            | Event::Working => {}
        }
        has_leases.send_replace(!leased.is_empty());
    }
}

async fn check_leases(client: Client, mut has_leases: Receiver<bool>) {
    let leased = ListParams::default().labels(LABEL);
    let mut watched = Watched::default();
    while has_leases.wait_for(|has_leases| *has_leases).await.is_ok() {
        match list_readable::<Workflow>(client.clone(), None, &leased).await {
            Ok(list) => {
                for workflow in watched.expired(&list.items, Instant::now(), LONGEST_GAP) {
                    remove_workflow(&client, workflow).await;
                }
            }
            Err(error) => log::debug!("list the Workflows with a lease: {}", plain(&error)),
        }
        sleep(READ_INTERVAL).await;
    }
}

/// Takes one step towards the removal of a Workflow, and does not wait for its effect: each later read of the lease
/// takes the next step.
async fn remove_workflow(client: &Client, workflow: &Workflow) {
    let (namespace, name) = (workflow.namespace().unwrap_or_default(), workflow.name_any());
    let flow = Flow::new(client.clone(), &namespace, &name);
    if let Err(error) = take_step(&flow, workflow).await {
        log::warn!("{error}: {}; the coordinator tries again", plain(&error.source));
    }
}

async fn take_step(flow: &Flow, workflow: &Workflow) -> Result<(), Refused> {
    if workflow.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if workflow.spec.desired_state != WorkflowState::Teardown {
        log::warn!(workflow = flow.name(); "the command that made this workflow is gone and did not renew its lease: the coordinator tears the workflow down");
        let patch = json!({"metadata": {"uid": workflow.uid()}, "spec": {"desiredState": WorkflowState::Teardown}});
        return flow.patch("request Teardown of", &patch).await.map(drop);
    }
    match progress(workflow, &WorkflowState::Teardown) {
        Progress::Reached => flow.delete(workflow.uid()).await.map(drop),
        Progress::Failed(_) | Progress::Waiting(_) | Progress::Ending => Ok(()),
    }
}
