//! Tests which mounts the clean-up after a start removes, and which it leaves.

use super::*;

#[tokio::test]
async fn after_a_complete_list_the_clean_up_removes_warrens_unwanted_mounts_and_no_others() {
    let mut node = Node::start(Chassis::new(2));
    let objects = [0, 1].map(|index| node.chassis.object(index));
    node.chassis.compute.plant_mount(&point("/mnt/nnf/admin"), "/dev/sda1", "ext4");
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0], &objects[1]]).await;
    for object in &objects {
        session.report_of(object, ready).await;
    }
    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    session.health(health::State::Ok).await;
    assert_eq!(
        node.mounted().len(),
        3,
        "no mount is removed before the list of objects is complete"
    );
    session.send(&objects[1]).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    session.report_of(&objects[1], ready).await;
    // The agent stops only after it has finished its running work, also that on the object that the list lacked.
    node.stop.take().unwrap().send(()).unwrap();
    wait_for("the agent's end", &mut node.agent).await.unwrap();
    assert_eq!(node.mounted(), ["/mnt/nnf/admin", "/mnt/nnf/job-1"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_reported_and_postpones_the_clean_up() {
    let mut node = Node::start(Chassis::new(2));
    let (first, second) = (node.chassis.object(0), node.chassis.object(1));
    let mut session = node.coordinator.session().await;
    session.sync(&[&first]).await;
    session.report_of(&first, ready).await;
    // Without a record the agent cannot tell which object the mount belongs to.
    node.chassis.lose_records();
    node.restart_agent(session).await;
    let mut session = node.coordinator.session().await;
    session.send_message(to_node::Message::Welcome(Welcome { epoch: 2 })).await;
    let mut unreadable = message(&second);
    unreadable.client_mount = br#"{"spec":{"mounts":[{},{}]}}"#.to_vec();
    session.send_message(to_node::Message::Desired(unreadable)).await;
    session.send_message(to_node::Message::Synced(Synced {})).await;
    let (report, status) = session.report().await;
    assert_eq!((report.name.as_str(), status.mounts.len()), ("job-1", 2));
    let error = status.error.unwrap();
    assert!(error.user_message.unwrap().contains("the object cannot be read as a ClientMount"));
    assert_eq!(error.severity, Severity::Fatal);
    assert_eq!(node.mounted(), ["/mnt/nnf/job-0"], "the mount may belong to the unreadable object");
    session.send(&second).await;
    session.report_of(&second, ready).await;
    assert_eq!(node.mounted(), ["/mnt/nnf/job-1"]);
}

/// Mounts the first of two objects, then starts a new agent without records on the node that `host` returns. The
/// coordinator sends only the second object, so the mount of the first object is unwanted.
async fn restarted_on<H: Host + 'static>(
    host: impl FnOnce(Arc<FakeHost>) -> H,
) -> (Node, Session, [ClientMount; 2]) {
    let mut node = Node::start(Chassis::new(2));
    let objects = [0, 1].map(|index| node.chassis.object(index));
    let mut session = node.coordinator.session().await;
    session.sync(&[&objects[0]]).await;
    session.report_of(&objects[0], ready).await;
    node.chassis.lose_records();
    let host = host(Arc::clone(&node.chassis.compute));
    node.restart_agent_on(Arc::new(host), session).await;
    let session = node.coordinator.session().await;
    session.sync(&[&objects[1]]).await;
    (node, session, objects)
}

/// A node on which the first umount(2) fails. [`FakeHost::fail`] cannot choose this step, because it counts steps, and
/// the agent works on several paths at the same time, in any order.
#[derive(Debug)]
struct Refusing {
    node: Arc<FakeHost>,
    has_failed: std::sync::atomic::AtomicBool,
}

impl Host for Refusing {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let has_failed = || self.has_failed.swap(true, std::sync::atomic::Ordering::SeqCst);
        if matches!(step, Step::Unmount { .. }) && !has_failed() {
            let (call, target) = ("umount", step.on().to_string());
            return Err(StepError::System {
                call,
                target,
                source: std::io::ErrorKind::Other.into(),
            });
        }
        self.node.apply(step)
    }
}

#[tokio::test]
async fn a_failed_clean_up_is_reported_as_health_and_does_not_delay_work() {
    let refusing = |node| Refusing { node, has_failed: false.into() };
    let (_node, mut session, objects) = restarted_on(refusing).await;
    let health = session.health(health::State::Warning).await;
    assert!(health.message.starts_with("unwanted mounts remain: "), "{}", health.message);
    session.report_of(&objects[1], ready).await;
}

/// A node on which umount(2) hangs until the test lets it return.
#[derive(Debug)]
struct Hanging {
    node: Arc<FakeHost>,
    hang: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Host for Hanging {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.node.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        if matches!(step, Step::Unmount { .. }) {
            // recv returns when the test drops the sender.
            let _ = self.hang.lock().unwrap().recv();
        }
        self.node.apply(step)
    }
}

#[tokio::test]
async fn a_clean_up_that_hangs_delays_only_the_objects_whose_mounts_it_removes() {
    let (release, hang) = std::sync::mpsc::channel();
    let (node, mut session, objects) =
        restarted_on(|node| Hanging { node, hang: hang.into() }).await;
    session.report_of(&objects[1], ready).await;

    // The clean-up is about to unmount this object's path: until the path is unmounted, the agent must not observe and
    // report the mount.
    session.send(&objects[0]).await;
    session.send(&version(&objects[1], "2")).await;
    let again = session.report_of(&objects[1], ready).await;
    assert_eq!(again.observed_resource_version, "2");
    assert!(session.other_reports.is_empty(), "{:?}", session.other_reports);
    drop(release);
    session.report_of(&objects[0], ready).await;
    assert_eq!(node.mounted().len(), 2);
}
