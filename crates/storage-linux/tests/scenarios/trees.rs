use storage::{
    desired::{IndexLink, IndexTree},
    observed::{PathState, TreeEntry},
};

use super::*;

fn tree(world: &dyn World, links: &[(&str, &str)]) -> IndexTree {
    let links =
        links.iter().map(|(compute, target)| IndexLink::new(compute, target).unwrap()).collect();
    IndexTree { root: world.point("wf-0"), links }
}

/// A tree is created, changed, reduced when a compute is lost, and removed. Its root is removed if it is empty.
pub fn life(world: &dyn World) {
    let rabbit = world.rabbit();
    let links: Vec<_> =
        (0..16).map(|k| (format!("compute-{}", k + 1), format!("node-{k}"))).collect();
    let links: Vec<_> =
        links.iter().map(|(name, target)| (name.as_str(), target.as_str())).collect();
    assert_eq!(settle(&rabbit, &Desired::IndexTree(tree(world, &links))).len(), 17);
    // Compute 4 is lost: its link is removed, and the links of the other computes keep their targets.
    let fewer: Vec<_> = links.iter().copied().filter(|(name, _)| *name != "compute-4").collect();
    let steps = settle(&rabbit, &Desired::IndexTree(tree(world, &fewer)));
    assert_eq!(steps, [format!("unlink {}/compute-4", world.point("wf-0"))]);
    let observed = rabbit.observe(&Desired::IndexTree(tree(world, &fewer))).unwrap().tree.unwrap();
    assert_eq!(observed.entries["compute-5"], TreeEntry::Link("node-4".into()));
    assert_eq!(settle(&rabbit, &Desired::NoIndexTree(tree(world, &fewer))).len(), 16);
    assert!(settle(&rabbit, &Desired::NoIndexTree(tree(world, &fewer))).is_empty());
}

/// Sixteen of seventeen computes are on one rabbit, and the last is on another rabbit. Each rabbit numbers its own
/// computes, and the loss of a compute changes no other link.
pub fn seventeen_computes(world: &dyn World) {
    let links = |computes: std::ops::Range<usize>| -> Vec<IndexLink> {
        let link = |(k, number)| IndexLink::new(&format!("compute-{number}"), &format!("node-{k}"));
        (0..).zip(computes).map(link).collect::<Result<_, _>>().unwrap()
    };
    let hosts = [world.rabbit(), world.compute("rabbit-2")];
    let shown = |host: usize, links: Vec<IndexLink>| -> Vec<String> {
        let root = world.point(&format!("rabbit-{host}/wf-0"));
        let desired = Desired::IndexTree(IndexTree { root, links });
        settle(&hosts[host], &desired);
        let entries = hosts[host].observe(&desired).unwrap().tree.unwrap().entries;
        entries.into_iter().map(|(name, entry)| format!("{name} {entry:?}")).collect()
    };
    assert_eq!(shown(0, links(0..16)).len(), 16);
    assert_eq!(shown(1, links(16..17)), [r#"compute-16 Link("node-0")"#]);
    let mut fewer = links(0..16);
    fewer.remove(3);
    let remaining_links = shown(0, fewer);
    assert_eq!(remaining_links.len(), 15);
    assert!(
        remaining_links.contains(&r#"compute-15 Link("node-15")"#.to_owned()),
        "{remaining_links:?}"
    );
}

/// A wrong link is corrected. Files that are not links stay, and so does the root that contains them.
pub fn planted(world: &dyn World) {
    let rabbit = world.rabbit();
    let root = world.point("wf-0");
    world.plant_link(&world.point("wf-0/compute-1"), "/etc");
    settle(&rabbit, &Desired::IndexTree(tree(world, &[("compute-1", "node-0")])));
    let observed = rabbit.observe(&Desired::IndexTree(tree(world, &[]))).unwrap().tree.unwrap();
    assert_eq!(observed.entries["compute-1"], TreeEntry::Link("node-0".into()));

    world.plant_file(&world.point("wf-0/compute-2"));
    let twice =
        Desired::IndexTree(tree(world, &[("compute-1", "node-0"), ("compute-2", "node-1")]));
    let rejection = rejected(world, &rabbit, &twice);
    assert_eq!(rejection, Rejection::NotALink { root, name: "compute-2".into() });
    settle(&rabbit, &Desired::NoIndexTree(tree(world, &[])));
    let observed = rabbit.observe(&twice).unwrap().tree.unwrap();
    assert_eq!(observed.entries.keys().collect::<Vec<_>>(), ["compute-2"]);
}

/// A tree whose root is a link or is inside a mounted file system is rejected.
pub fn root_in_the_way(world: &dyn World) {
    let rabbit = world.rabbit();
    let wanted = Desired::IndexTree(tree(world, &[("compute-1", "node-0")]));
    world.plant_link(&world.point("wf-0"), "/etc");
    assert!(matches!(rejected(world, &rabbit, &wanted), Rejection::ThroughSymlink { .. }));
    let mounted = world.point("mounted");
    world.plant_mount(&mounted);
    for root in [mounted, world.point("mounted/inside")] {
        let desired = Desired::IndexTree(IndexTree { root: root.clone(), links: vec![] });
        let rejection = rejected(world, &rabbit, &desired);
        assert!(matches!(rejection, Rejection::ThroughMount { .. }), "{rejection}");
        assert!(
            settle(&rabbit, &Desired::NoIndexTree(IndexTree { root, links: vec![] })).is_empty()
        );
    }
}

/// The root of a tree stays as long as there are mounts in the tree.
pub fn with_mounts(world: &dyn World) {
    let rabbit = world.rabbit();
    let (_, first) = create_file_system(world, 0);
    let (_, second) = create_file_system(world, 1);
    let mounts = [
        mount_of(&first, world.point("wf-0/node-0")),
        mount_of(&second, world.point("wf-0/node-1")),
    ];
    for mount in &mounts {
        settle(&rabbit, &Desired::Mounted(mount.clone()));
    }
    let tree = tree(world, &[("compute-1", "node-0"), ("compute-2", "node-1")]);
    settle(&rabbit, &Desired::IndexTree(tree.clone()));
    assert_eq!(settle(&rabbit, &Desired::NoIndexTree(tree.clone())).len(), 2);
    for mount in &mounts {
        settle(&rabbit, &Desired::Unmounted(mount.clone()));
    }
    let observed = rabbit.observe(&Desired::NoIndexTree(tree)).unwrap().tree.unwrap();
    assert_eq!(observed.path, PathState::Absent);
}
