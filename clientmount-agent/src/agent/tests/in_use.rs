//! A mount that a process keeps in use.

use std::process::{Child, Command, Stdio};

use super::*;

#[expect(clippy::disallowed_methods, reason = "a process that keeps a mount in use")]
fn holder() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Does all work that is due at `now`.
pub(super) async fn work(agent: &mut Agent, now: Instant) {
    loop {
        agent.start(now);
        let Some(result) = wait_for("a worker", agent.workers.join_next()).await else { return };
        agent.worker_finished(result.unwrap(), now);
    }
}

/// Creates the agent of a compute; this object is the only object that the agent has received.
pub(super) fn agent_with(chassis: &Chassis, object: &ClientMount) -> Agent {
    agent_with_all(chassis, &[object])
}

/// Creates the agent of a compute; the agent has received a complete list, which has these objects.
pub(super) fn agent_with_all(chassis: &Chassis, objects: &[&ClientMount]) -> Agent {
    let site = site(&agent::testing::compute_xfs(), Side::Compute);
    let mut agent = Agent::new(
        site,
        Arc::new(Converger::new(chassis.compute.clone())),
        chassis.records(),
        Arc::default(),
    );
    agent.handle_event(LinkEvent::Up);
    for object in objects {
        agent.handle_event(LinkEvent::Desired(Box::new(received_mount(object))));
    }
    agent.handle_event(LinkEvent::Synced);
    agent
}

/// The test's clock does not advance, so no retry is due.
#[tokio::test]
async fn an_unmount_is_retried_at_once_when_the_holder_ends() {
    let chassis = Chassis::new(1);
    let object = chassis.object(0);
    let now = Instant::now();
    let mut agent = agent_with(&chassis, &object);
    work(&mut agent, now).await;

    let (at, mut process) = (point("/mnt/nnf/job-0"), holder());
    chassis.compute.hold_by(&at, vec![process.id().try_into().unwrap()]);
    agent.handle_event(LinkEvent::Desired(Box::new(received_mount(&deleted(&object)))));
    work(&mut agent, now).await;
    let failure = agent.failing.values().next().unwrap();
    assert!(failure.contains(&format!("held by process {}", process.id())), "{failure}");
    assert!(agent.queue.deadline().is_some_and(|due| due > now));
    assert!(agent.queue.start(now, |_| true).is_empty(), "the retry is not due yet");

    chassis.compute.let_go(&at);
    drop(process.stdin.take());
    process.wait().unwrap();
    let uid = wait_for("the holder's end", agent.holders.next_free()).await;
    agent.queue.wake(uid.clone());
    work(&mut agent, now).await;
    assert!(agent.failing.is_empty(), "{:?}", agent.failing);
    assert!(agent.outbox.reports()[0].released);
}

/// Makes a script's request to detach mounts, which holds for passes that begin no later than `until`. Returns whether
/// a pass that begins at `begins` detaches the object's mounts.
fn detaches(agent: &mut Agent, begins: Instant, until: Instant) -> bool {
    let uid = agent.objects.uids().remove(0);
    agent.handle_request(crate::job::Request::Detach { uids: vec![uid.clone()], until });
    let work = agent.objects.work(&uid).unwrap();
    let units = agent.with_detach(&uid, work, begins).units.unwrap();
    format!("{:?}", units.mounts).contains("--lazy")
}

#[test]
fn a_pass_detaches_mounts_only_if_it_begins_before_the_script_is_answered() {
    let chassis = Chassis::new(1);
    let (object, now) = (chassis.object(0), Instant::now());
    let later = now + Duration::from_millis(1);
    let mut agent = agent_with(&chassis, &unmounted(&object));
    assert!(detaches(&mut agent, now, now));
    let uid = agent.objects.uids().remove(0);
    let work = agent.objects.work(&uid).unwrap();
    let again = agent.with_detach(&uid, work, now).units.unwrap();
    assert!(
        !format!("{:?}", again.mounts).contains("--lazy"),
        "a request to detach holds for one pass only"
    );
    assert!(!detaches(&mut agent, later, now));
    assert!(
        !detaches(&mut agent_with(&chassis, &object), now, later),
        "the object's desired state is mounted"
    );
}
