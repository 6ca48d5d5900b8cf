//! Rehearsals: what a job would create and what would fail, compared with what the engine then does.

use std::collections::BTreeSet;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::from_value;
use workflow::rehearsal::{Rehearsal, RehearsedStorage, rehearse};

use crate::{
    job::{GIB, directive, new_workflow},
    site::Site,
};

fn rehearsal(site: &Site, name: &str, lines: &[String], computes: &[&str]) -> Rehearsal {
    let workflow = from_value(new_workflow(1001, name, lines)).unwrap();
    let computes: Vec<_> = computes.iter().map(|name| (*name).to_owned()).collect();
    rehearse(site.world(), &workflow, &computes)
}

fn failure(rehearsal: &Rehearsal) -> (Option<usize>, &str) {
    let [(index, text)] = &rehearsal.failures[..] else { panic!("{rehearsal:?}") };
    (*index, text)
}

#[test]
fn a_rehearsal_names_the_storage_and_objects_that_the_engine_then_creates() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 8 * GIB);
        let lines = [directive(kind, "scratch")];
        let before = site.world();
        let rehearsal = rehearsal(&site, "w", &lines, &["c1", "c2"]);
        assert_eq!(rehearsal.failures, []);
        assert_eq!(format!("{:?}", site.world()), format!("{before:?}"), "nothing was made");

        site.agents_sleep = true;
        site.request_setup("w", &lines, &["c1", "c2"]);
        let servers = site.get("Servers", "default", "w-0");
        let sets = servers["spec"]["allocationSets"].as_array().unwrap();
        let storage = sets.iter().map(|set| RehearsedStorage {
            directive: 0,
            rabbit: "r".to_owned(),
            label: set["label"].as_str().unwrap().to_owned(),
            count: set["storage"][0]["allocationCount"].as_u64().unwrap(),
            bytes: set["allocationSize"].as_u64().unwrap(),
            free: 8 << 30,
        });
        assert_eq!(rehearsal.storage, storage.collect::<Vec<_>>(), "{kind}");
        let at = |object: &DynamicObject| {
            let kind = object.types.as_ref().unwrap().kind.clone();
            (kind, object.namespace().unwrap(), object.name_any())
        };
        let rehearsed: BTreeSet<_> = rehearsal.objects.iter().map(at).collect();
        assert!(!rehearsed.is_empty());
        for (kind, namespace, name) in rehearsed {
            site.get(&kind, &namespace, &name);
        }
    }
}

#[test]
fn a_rehearsal_says_what_would_fail() {
    let mut site = Site::new(2, 3 * GIB);
    let scratch = || directive("xfs", "scratch");
    let large = || "#DW jobdw type=xfs capacity=1TiB name=scratch".to_owned();
    for (lines, computes, index, text) in [
        (vec![large()], ["c1"], Some(0), "its drives have 3221225472 in all"),
        (vec![scratch()], ["x9"], Some(0), "names x9, which no rabbit serves"),
        (
            vec![scratch(), "#DW jobdw type=xfs capacity=1GiB name=more profile=none".to_owned()],
            ["c1"],
            Some(1),
            "none",
        ),
        (vec!["#DW jobdw type=zfs capacity=1GiB name=more".to_owned()], ["c1"], None, "zfs"),
    ] {
        let rehearsal = rehearsal(&site, "w", &lines, &computes);
        let failures: Vec<_> = rehearsal.failures.iter().map(|(at, text)| (*at, text)).collect();
        let is_it = |(at, found): &(Option<usize>, &String)| *at == index && found.contains(text);
        assert!(failures.iter().any(is_it), "{lines:?}: {failures:?}");
    }
    site.bring("a", &[scratch()], "Setup", &["c1", "c2"]);
    let waiting = rehearsal(&site, "b", &[scratch()], &["c1", "c2"]);
    let (index, text) = failure(&waiting);
    assert_eq!(index, Some(0));
    assert!(text.starts_with("it would wait for capacity on r"), "{text}");
    let taken = rehearsal(&site, "a", &[scratch()], &["c1"]);
    let taken = failure(&taken);
    assert_eq!(taken, (None, "Workflow default/a exists already: give another --name"));
}
