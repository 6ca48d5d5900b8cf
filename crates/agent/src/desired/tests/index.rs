//! Tests of index trees: directories on a rabbit with a link for each compute, which leads to the compute's allocation.

use super::*;

#[test]
fn an_index_tree_has_a_link_per_compute() {
    let units = on_rabbit(&rabbit_index());
    assert!(units.binds.is_empty());
    let [tree] = &*units.trees else { panic!("{:?}", units.trees) };
    assert_eq!(tree.root.to_string(), PATH);
    let links: Vec<_> = tree.links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["compute-1 -> node-0", "compute-2 -> node-1", "compute-3 -> node-2"]);
}

#[test]
fn other_computes_keep_their_indices_when_a_compute_is_left_out() {
    let mut object = rabbit_index();
    object.spec.mounts.remove(1);
    let links: Vec<_> = on_rabbit(&object).trees[0].links.iter().map(ToString::to_string).collect();
    assert_eq!(links, ["compute-1 -> node-0", "compute-3 -> node-2"]);
}

#[test]
fn a_mount_without_compute_gets_no_link() {
    let mut object = rabbit_index();
    object.spec.mounts[0].compute = None;
    object.spec.mounts[1].compute = Some(String::new());
    assert_eq!(on_rabbit(&object).trees[0].links.len(), 1);
}

#[test]
fn an_invalid_or_repeated_name_of_a_compute_is_refused() {
    for (name, message) in [
        ("../../etc", "spec.mounts[1].compute: compute \"../../etc\" is not a host name"),
        ("node-0", "spec.mounts[1].compute: compute \"node-0\" looks like an index directory"),
        ("a b", "is not a host name"),
        (
            "compute-1",
            "spec.mounts[1].compute: \"compute-1\" is also the compute of spec.mounts[0]: name each compute once",
        ),
    ] {
        let mut object = rabbit_index();
        object.spec.mounts[1].compute = Some(name.into());
        let units = on_rabbit(&object);
        assert!(units.are_refused());
        let error = units.mounts[1].as_ref().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(units.mounts[0].is_ok() && units.mounts[2].is_ok());
    }
}

#[test]
fn mounts_with_other_names_than_node_k_get_bind_mounts_and_links_beneath_the_index_root() {
    let mut object = rabbit_gfs2();
    for (place, mount) in object.spec.mounts.iter_mut().enumerate() {
        mount.mount_path = format!("/mnt/nnf/wf-0/rabbit-1-{place}");
        mount.compute = Some(format!("compute-{}", place + 1));
    }
    let site = site(&object, Side::Rabbit);
    let plain = desired(&object, Ok(&profile()), &references, &site).unwrap();
    assert!(
        plain.trees.is_empty() && plain.binds.is_empty(),
        "the site's data movers expect no links in the directory that contains the mounts"
    );

    let units = desired(&object, Ok(&profile()), &references, &with_index_root(site)).unwrap();
    let targets: Vec<_> =
        units.binds.iter().map(|(shown, bind)| (*shown, bind.target.to_string())).collect();
    assert_eq!(targets[1], (1, "/mnt/index/wf-0/node-1".to_owned()));
    assert_eq!(targets.len(), object.spec.mounts.len());
    assert_eq!(units.trees[0].root.to_string(), "/mnt/index/wf-0");
    assert_eq!(units.trees[0].links[1].to_string(), "compute-2 -> node-1");
    let scopes: std::collections::BTreeSet<_> = units
        .mounts
        .iter()
        .flatten()
        .chain(units.binds.iter().map(|(_, bind)| bind))
        .map(|mount| mount.scope.clone())
        .collect();
    assert_eq!(
        scopes.len(),
        2 * object.spec.mounts.len(),
        "each bind mount has a hook scope of its own"
    );
}
