//! A coordinator that sends another node's objects.

use super::{
    in_use::{agent_with, work},
    *,
};

#[tokio::test]
async fn an_object_whose_namespace_or_spec_node_names_another_node_is_not_mounted() {
    for (namespace, node) in
        [("compute-2", "compute-2"), ("compute-1", "compute-2"), ("compute-2", "compute-1")]
    {
        let chassis = Chassis::new(2);
        let mut object = chassis.object(0);
        object.metadata.namespace = Some(namespace.to_owned());
        object.spec.node = node.to_owned();
        let mut agent = agent_with(&chassis, &object);
        work(&mut agent, Instant::now()).await;
        let converger = Converger::new(Arc::<FakeHost>::clone(&chassis.compute));
        let observed = converger.observe(&Desired::OnlyMounts(Vec::new())).unwrap();
        assert!(observed.mounts.is_empty(), "{namespace} {node}: {:?}", observed.mounts);
        let problem = agent.failing.values().next().unwrap();
        assert!(problem.contains("compute-2"), "{namespace} {node}: {problem}");
    }
}
