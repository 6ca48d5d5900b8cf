//! A node that could not be looked at since the agent started: some of what is mounted may be an object's that is to go.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    held::{told, told_on, work},
    *,
};

/// A node whose mounts cannot be looked at for a while.
#[derive(Debug)]
struct Veiled {
    node: Arc<FakeHost>,
    veiled: AtomicBool,
}

impl Host for Veiled {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        if matches!(desired, Desired::OnlyMounts(_)) && self.veiled.load(Ordering::SeqCst) {
            let source = std::io::Error::from_raw_os_error(5);
            return Err(ObserveError::Read { path: "/proc/self/mountinfo".into(), source });
        }
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.node.apply(step)
    }
}

/// An agent that starts on a veiled node with an object that is to go, and another.
async fn veiled(now: Instant) -> (Chassis, Arc<Veiled>, Agent) {
    let chassis = Chassis::new(2);
    let [going, other] = [0, 1].map(|index| chassis.object(index));
    work(&mut told(&chassis, &going), now).await;
    let node = Arc::new(Veiled { node: chassis.compute.clone(), veiled: AtomicBool::new(true) });
    let agent = told_on(node.clone(), &[&deleted(&going), &other]);
    (chassis, node, agent)
}

fn status(agent: &Agent, object: &ClientMount) -> (bool, ClientMountStatus) {
    let reports = agent.outbox.reports();
    let report = reports.iter().find(|it| Some(&it.uid) == object.metadata.uid.as_ref()).unwrap();
    (report.released, report.status.clone())
}

#[tokio::test]
async fn an_object_that_waits_for_the_first_look_says_so_and_others_go_on() {
    let now = Instant::now();
    let (chassis, node, mut agent) = veiled(now).await;
    work(&mut agent, now).await;
    let (released, waiting) = status(&agent, &chassis.object(0));
    let error = waiting.error.unwrap();
    let why = "waiting until the node's mounts could be looked at: observe the node: read /proc";
    assert!(!released && error.debug_message.contains(why), "{error:?}");
    assert!(error.user_message.unwrap().ends_with(crate::error::ASK));
    assert_eq!(agent.failing.len(), 1, "{:?}", agent.failing);
    assert!(status(&agent, &chassis.object(1)).1.all_ready);

    node.veiled.store(false, Ordering::SeqCst);
    let due = agent.next_due().unwrap();
    assert!(due > now);
    work(&mut agent, due).await;
    assert!(status(&agent, &chassis.object(0)).0 && agent.failing.is_empty());
}

/// A worker may be with a mount for as long as that hangs.
#[tokio::test]
async fn the_first_look_is_taken_again_while_other_work_goes_on() {
    let now = Instant::now();
    let (chassis, node, mut agent) = veiled(now).await;
    work(&mut agent, now).await;
    node.veiled.store(false, Ordering::SeqCst);
    agent.workers.spawn(std::future::pending());
    let due = agent.next_due().unwrap();
    while !status(&agent, &chassis.object(0)).0 {
        agent.start(due);
        let back = within("the look and the unmount", agent.workers.join_next()).await;
        agent.back(back.unwrap().unwrap(), due);
    }
    assert!(agent.sweep.due(due), "unwanted mounts are removed when nothing else runs");
    agent.start(due);
    assert!(!agent.sweep.running());
}
