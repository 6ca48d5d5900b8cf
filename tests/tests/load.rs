//! What a mount costs the API server, counted by the server's own audit log and by a watch beside ours.
//!
//! Prints one table. Counts are asserted, times are not measured here. `make kube` runs it.

use std::{collections::BTreeSet, sync::mpsc, thread};

use anyhow::{Context, ensure};
use control_plane::AuditEvent;
use futures::StreamExt;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, WatchEvent, WatchParams},
};
use tests::{
    cluster::PATIENCE,
    disturbed::{DAEMONS, Disturbed},
    program::until,
};

/// What one life of a ClientMount costs: created, mounted, unmounted, deleted.
#[derive(Debug)]
struct Cost {
    way: String,
    /// Watches on ClientMounts that our programs hold, all nodes together.
    watches: usize,
    /// Requests of our programs for one ClientMount, by verb.
    reads: f64,
    writes: f64,
    /// Those of the writes that a mount waits for.
    writes_to_mount: f64,
    whole_objects: f64,
    /// Bytes of those writes and of the answers to them.
    bytes: f64,
    /// Events that each watch on the object is sent.
    events: f64,
}

/// The Go daemon, as it was measured on such a server: whole objects written, events of its watch.
const GO: (f64, f64) = (3.0, 8.0);

#[test]
fn a_mount_costs_the_api_server_little() -> anyhow::Result<()> {
    let costs = [through_the_coordinator(1)?, through_the_coordinator(8)?];
    show(&costs);
    for cost in &costs {
        ensure!(cost.watches == 1, "one watch for any number of computes: {cost:?}");
        ensure!(cost.writes <= 4.0, "finalizer, mounted, unmounted, finalizer: {cost:?}");
        ensure!(cost.whole_objects == 0.0, "a whole object was written: {cost:?}");
        ensure!(cost.events <= 7.0, "three of the controllers' and four of ours: {cost:?}");
    }
    Ok(())
}

fn through_the_coordinator(computes: u8) -> anyhow::Result<Cost> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(computes, "raw")?;
    let run = &mut fixture.run;
    run.job.capacity = 4 << 20;
    run.carve()?;
    run.wait_for_file_systems()?;
    let name = run.job.computes_mount();
    let events = count_events(&disturbed, &name)?;
    run.mount_on_computes()?;
    run.wait_for_computes("mounted")?;
    let mounted = disturbed.plane.audit()?.len();
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    let lives = f64::from(computes);
    let events = events.finish(usize::from(computes))?;
    let audit = disturbed.plane.audit()?;
    run.tear_down_storage()?;
    fixture.end()?;
    Ok(cost(format!("coordinator, {computes} computes"), &audit, mounted, &name, lives, events))
}

fn cost(
    way: String,
    audit: &[AuditEvent],
    mounted: usize,
    name: &str, lives: f64, events: usize) -> Cost {
    let ours = || audit.iter().filter(|event| event.user == DAEMONS && event.code < 300);
    let of_it =
        || ours().filter(|event| event.resource.starts_with("clientmounts") && event.name == name);
    let count = |verbs: &[&str]| {
        of_it().filter(|event| verbs.contains(&event.verb.as_str())).count() as f64 / lives
    };
    let early = audit[..mounted].iter().filter(|event| {
        event.user == DAEMONS && event.code < 300 && event.verb == "patch" && event.name == name
    });
    // A rabbit watches the ClientMounts of its own namespace.
    let watches: BTreeSet<_> = ours()
        .filter(|event| event.verb == "watch" && event.resource == "clientmounts")
        .filter(|event| event.namespace != "rabbit-1")
        .map(|event| (event.namespace.clone(), event.agent.clone()))
        .collect();
    let written = of_it().filter(|event| matches!(event.verb.as_str(), "patch" | "update"));
    let bytes: usize = written.map(|event| event.request_bytes + event.response_bytes).sum();
    Cost {
        way,
        watches: watches.len(),
        reads: count(&["get", "list"]),
        writes: count(&["patch", "update"]),
        writes_to_mount: early.count() as f64 / lives,
        whole_objects: count(&["update"]),
        bytes: bytes as f64 / lives,
        events: events as f64 / lives,
    }
}

/// A watch of the test's own, counting what every watch is sent of ClientMounts with one name.
struct Counting {
    counted: mpsc::Receiver<(usize, usize)>,
}

fn count_events(disturbed: &Disturbed, name: &str) -> anyhow::Result<Counting> {
    let kubeconfig = disturbed.plane.kubeconfig();
    let name = name.to_owned();
    let (tell, counted) = mpsc::channel();
    let (ready, begun) = mpsc::channel();
    thread::spawn(move || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = control_plane::client(&kubeconfig).await?;
            let kind = ApiResource::erase::<api::ClientMount>(&());
            let all: Api<DynamicObject> = Api::all_with(client, &kind);
            let now = all.list(&kube::api::ListParams::default()).await?.metadata;
            let from = now.resource_version.context("a list without resourceVersion")?;
            let mut watch = std::pin::pin!(all.watch(&WatchParams::default(), &from).await?);
            ready.send(())?;
            let (mut events, mut gone) = (0, 0);
            while let Some(event) = watch.next().await {
                let (object, last) = match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                if object.metadata.name.as_deref() == Some(&name) {
                    events += 1;
                    gone += usize::from(last);
                    tell.send((events, gone))?;
                }
            }
            Ok(())
        })
    });
    begun.recv_timeout(PATIENCE).context("the counting watch did not begin")?;
    Ok(Counting { counted })
}

impl Counting {
    /// How many events there were until all of them were gone.
    fn finish(self, objects: usize) -> anyhow::Result<usize> {
        let mut last = (0, 0);
        until("the last event", PATIENCE, || {
            last = self.counted.try_iter().last().unwrap_or(last);
            ensure!(last.1 == objects, "{} of {objects} are gone", last.1);
            Ok(last.0)
        })
    }
}

#[expect(clippy::print_stderr, reason = "the table is what this suite is for")]
fn show(costs: &[Cost]) {
    eprintln!(
        "per ClientMount, created to gone     watches  reads  writes  of them whole objects  bytes written and answered  events"
    );
    eprintln!(
        "{:<36} {:>8} {:>6} {:>7} {:>22} {:>27} {:>7}",
        "Go daemon (recorded)", "3/node", "", GO.0, GO.0, "", GO.1
    );
    for cost in costs {
        eprintln!(
            "{:<36} {:>8} {:>6.1} {:>7.1} {:>22.1} {:>27.0} {:>7.1}",
            cost.way,
            cost.watches,
            cost.reads,
            cost.writes,
            cost.whole_objects,
            cost.bytes,
            cost.events
        );
    }
}
