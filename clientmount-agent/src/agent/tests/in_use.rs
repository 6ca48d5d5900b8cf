//! A mount that somebody keeps in use.

use std::process::{Child, Command, Stdio};

use super::*;

#[expect(clippy::disallowed_methods, reason = "a process that holds a mount")]
fn holder() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Lets all that is due at this time come to its end.
pub(super) async fn work(agent: &mut Agent, now: Instant) {
    loop {
        agent.start(now);
        let Some(result) = within("a worker", agent.workers.join_next()).await else { return };
        agent.worker_finished(result.unwrap(), now);
    }
}

/// An agent of the compute that was told that this is its one object.
pub(super) fn told(chassis: &Chassis, object: &ClientMount) -> Agent {
    told_all(chassis, &[object])
}

/// The same with all these objects.
pub(super) fn told_all(chassis: &Chassis, objects: &[&ClientMount]) -> Agent {
    let site = site(&agent::testing::compute_xfs(), Side::Compute);
    let mut agent = Agent::new(
        site,
        Arc::new(Converger::new(chassis.compute.clone())),
        chassis.records(),
        Arc::default(),
    );
    agent.event(LinkEvent::Up);
    for object in objects {
        agent.event(LinkEvent::Desired(Box::new(told_of(object))));
    }
    agent.event(LinkEvent::Synced);
    agent
}

/// Without the clock: it stands still.
#[tokio::test]
async fn a_mount_is_tried_again_at_once_when_its_holder_ends() {
    let chassis = Chassis::new(1);
    let object = chassis.object(0);
    let now = Instant::now();
    let mut agent = told(&chassis, &object);
    work(&mut agent, now).await;

    let (at, mut process) = (point("/mnt/nnf/job-0"), holder());
    chassis.compute.hold_by(&at, vec![process.id().try_into().unwrap()]);
    agent.event(LinkEvent::Desired(Box::new(told_of(&deleted(&object)))));
    work(&mut agent, now).await;
    let told = agent.failing.values().next().unwrap();
    assert!(told.contains(&format!("held by process {}", process.id())), "{told}");
    assert!(agent.queue.deadline().is_some_and(|due| due > now));
    assert!(agent.queue.start(now, |_| true).is_empty(), "not by the clock");

    chassis.compute.let_go(&at);
    drop(process.stdin.take());
    process.wait().unwrap();
    let uid = within("the holder's end", agent.holders.ended()).await;
    agent.queue.wake(uid.clone());
    work(&mut agent, now).await;
    assert!(agent.failing.is_empty(), "{:?}", agent.failing);
    assert!(agent.outbox.reports()[0].released);
}

/// Whether a pass that begins at this time, of all that were requested to detach by `until`, detaches.
fn detaches(agent: &mut Agent, begins: Instant, until: Instant) -> bool {
    let uid = agent.objects.uids().remove(0);
    agent.requested(crate::job::Request::Detach { uids: vec![uid.clone()], until });
    let work = agent.objects.work(&uid).unwrap();
    let units = agent.detached(&uid, work, begins).now.unwrap();
    format!("{:?}", units.mounts).contains("--lazy")
}

#[test]
fn nothing_is_detached_once_whoever_wanted_it_has_had_another_answer() {
    let chassis = Chassis::new(1);
    let (object, now) = (chassis.object(0), Instant::now());
    let later = now + Duration::from_millis(1);
    let mut agent = told(&chassis, &unmounted(&object));
    assert!(detaches(&mut agent, now, now));
    let uid = agent.objects.uids().remove(0);
    let work = agent.objects.work(&uid).unwrap();
    let again = agent.detached(&uid, work, now).now.unwrap();
    assert!(!format!("{:?}", again.mounts).contains("--lazy"), "a request is for one pass");
    assert!(!detaches(&mut agent, later, now));
    assert!(!detaches(&mut told(&chassis, &object), now, later), "it is to be mounted");
}
