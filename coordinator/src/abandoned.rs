//! Tears down the Workflows of commands that are gone: `warren run` renews a lease as long as it lives, and one that was killed
//! outright, or whose host is gone, removes nothing itself.

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

/// Between two looks at the leases. There are few: only commands that drive a Workflow themselves hold one.
const LOOK: Duration = Duration::from_secs(10);
/// Looks that are further apart prove nothing.
const GAP: Duration = Duration::from_secs(40);

/// Looks at all leases for ever. While no Workflow has one, nothing is asked and no timer runs.
pub(crate) async fn remove(client: Client) {
    let (are_any, any) = channel(false);
    tokio::join!(follow(client.clone(), are_any), look(client, any));
}

/// Tells whether there is a Workflow with a lease.
async fn follow(client: Client, are_any: Sender<bool>) {
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
        are_any.send_replace(!leased.is_empty());
    }
}

async fn look(client: Client, mut are_any: Receiver<bool>) {
    let leased = ListParams::default().labels(LABEL);
    let mut watched = Watched::default();
    while are_any.wait_for(|are_any| *are_any).await.is_ok() {
        match list_readable::<Workflow>(client.clone(), None, &leased).await {
            Ok(list) => {
                for workflow in watched.look(&list.items, Instant::now(), GAP) {
                    end(&client, workflow).await;
                }
            }
            Err(error) => log::debug!("list the Workflows with a lease: {}", plain(&error)),
        }
        sleep(LOOK).await;
    }
}

/// Takes one step towards the end of a Workflow; later looks take the next.
async fn end(client: &Client, workflow: &Workflow) {
    let (namespace, name) = (workflow.namespace().unwrap_or_default(), workflow.name_any());
    let flow = Flow::new(client.clone(), &namespace, &name);
    if let Err(error) = step(&flow, workflow).await {
        log::warn!("{error}: {}; the coordinator tries again", plain(&error.source));
    }
}

async fn step(flow: &Flow, workflow: &Workflow) -> Result<(), Refused> {
    if workflow.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if workflow.spec.desired_state != WorkflowState::Teardown {
        log::warn!(workflow = flow.name(); "the command that made this workflow is gone and did not renew its lease: it is torn down");
        let patch = json!({"metadata": {"uid": workflow.uid()}, "spec": {"desiredState": WorkflowState::Teardown}});
        return flow.patch("ask for Teardown of", &patch).await.map(drop);
    }
    match progress(workflow, &WorkflowState::Teardown) {
        Progress::Reached => flow.delete(workflow.uid()).await.map(drop),
        Progress::Failed(_) | Progress::Waiting(_) | Progress::Ending => Ok(()),
    }
}
