//! A coordinator that sends what is not this node's.

use super::{
    held::{told, work},
    *,
};

#[tokio::test]
async fn what_another_node_is_to_mount_is_not_mounted_here() {
    for (namespace, node) in
        [("compute-2", "compute-2"), ("compute-1", "compute-2"), ("compute-2", "compute-1")]
    {
        let chassis = Chassis::new(2);
        let mut object = chassis.object(0);
        object.metadata.namespace = Some(namespace.to_owned());
        object.spec.node = node.to_owned();
        let mut agent = told(&chassis, &object);
        work(&mut agent, Instant::now()).await;
        let converger = Converger::new(Arc::<FakeHost>::clone(&chassis.compute));
        let seen = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
        assert!(seen.mounts.is_empty(), "{namespace} {node}: {:?}", seen.mounts);
        let problem = agent.failing.values().next().unwrap();
        assert!(problem.contains("compute-2"), "{namespace} {node}: {problem}");
    }
}
