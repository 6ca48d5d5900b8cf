//! Objects that cannot be read when the engine starts: each is there all the same, and nothing may be concluded from it.

use serde_json::json;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

fn workflow(name: &str) -> crate::site::At {
    at("Workflow", "default", name)
}

#[test]
fn a_workflow_that_cannot_be_read_keeps_everything_that_it_has() {
    let lines = [directive("raw", "one"), directive("xfs", "two")];
    for state in STATES {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &lines, state, &["c1", "c2"]);
        let before = site.objects.clone();
        site.unreadable = vec![workflow("w")];
        site.settle();
        assert!(site.objects == before, "{state}: something was changed");
        // Corrected, it goes on; one that is taken away instead leaves nothing.
        let mut corrected = site.clone();
        corrected.unreadable.clear();
        corrected.settle();
        corrected.remove("w");
        site.edit("Workflow", "default", "w", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        site.delete(&workflow("w"));
        site.settle();
        site.is_clean();
    }
}

#[test]
fn storage_that_a_workflow_which_cannot_be_read_uses_stays_its_own() {
    for state in ["Setup", "PreRun", "PostRun"] {
        let mut site = Site::new(1, 100 * GIB);
        site.keep("raw", "kept", &["c1"]);
        site.bring("use", &["#DW persistentdw name=kept".to_owned()], state, &["c1"]);
        let before = site.objects.clone();
        site.unreadable = vec![workflow("use")];
        site.settle();
        assert!(site.objects == before, "{state}: something was changed");
        // Nobody destroys it meanwhile.
        site.create("end", &["#DW destroy_persistent name=kept".to_owned()]);
        site.settle();
        site.ask("end", "Teardown");
        site.settle();
        assert!(site.told("end").3.contains("use-0"), "{state}: {:?}", site.told("end"));
        // What takes the workflow away takes its use along.
        site.edit("Workflow", "default", "use", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        site.delete(&workflow("use"));
        site.settle();
        assert!(site.is_ready("end", "Teardown"), "{state}: {:?}", site.told("end"));
        site.remove("end");
    }
}

/// A site with room for one, whose engine died after it had filled the Servers of `a`, which cannot be read any more.
fn promised() -> Site {
    // Two computes take 2 GiB and the padding.
    let mut site = Site::new(2, 3 * GIB);
    site.create("a", &[directive("xfs", "scratch")]);
    site.settle();
    site.fill_computes("a", &["c1", "c2"]);
    site.ask("a", "Setup");
    while site.get("Servers", "default", "a-0")["spec"]["allocationSets"].is_null() {
        assert!(site.step(|length| (0..length.min(1)).collect()), "{:?}", site.told("a"));
    }
    assert!(site.names("NnfNodeBlockStorage").is_empty());
    site.unreadable = vec![at("Servers", "default", "a-0")];
    site
}

#[test]
fn servers_that_cannot_be_read_keep_what_they_may_have_promised() {
    let mut site = promised();
    site.ask_for_storage("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    for name in ["a", "b"] {
        let (_, ready, status, message) = site.told(name);
        assert!(!ready && status == "TransientCondition", "{name}: {status} {message}");
        assert!(message.contains("Servers default/a-0 cannot be read"), "{name}: {message}");
    }
    assert!(site.names("NnfNodeBlockStorage").is_empty());
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("a", "Setup"), "{:?}", site.told("a"));
    assert!(site.told("b").3.contains("pending capacity on r"), "{:?}", site.told("b"));
    site.pass_space_on("a", "b");
}

#[test]
fn servers_that_cannot_be_read_promise_nothing_when_they_are_torn_down_or_made() {
    let mut site = promised();
    site.ask_for_storage("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    site.ask("a", "Teardown");
    site.settle();
    assert!(site.is_ready("b", "Setup"), "{:?}", site.told("b"));

    let mut site = Site::new(2, 6 * GIB);
    site.bring("a", &[directive("xfs", "scratch")], "PreRun", &["c1", "c2"]);
    site.unreadable = vec![at("Servers", "default", "a-0")];
    site.ask_for_storage("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    assert!(site.is_ready("b", "Setup"), "{:?}", site.told("b"));
}

#[test]
fn servers_of_persistent_storage_that_cannot_be_read_are_waited_for() {
    let mut site = Site::new(2, 100 * GIB);
    site.create("make", &["#DW create_persistent type=xfs capacity=1GiB name=kept".to_owned()]);
    site.settle();
    site.unreadable = vec![at("Servers", "default", "kept")];
    site.fill_computes("make", &["c1"]);
    site.ask("make", "Setup");
    site.settle();
    let (_, _, status, message) = site.told("make");
    assert_eq!(status, "TransientCondition");
    assert!(message.contains("Servers default/kept cannot be read"), "{message}");
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("make", "Setup"), "{:?}", site.told("make"));
    site.unreadable = vec![at("Servers", "default", "kept")];
    site.ask_for_storage("b", &[directive("xfs", "scratch")], &["c1", "c2"]);
    assert!(site.is_ready("b", "Setup"), "all of it is made: {:?}", site.told("b"));
}

#[test]
fn servers_that_cannot_be_read_when_computes_are_to_mount_are_not_called_gone() {
    let mut site = Site::new(2, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.bring("own", &[directive("xfs", "scratch")], "DataIn", &["c1"]);
    site.bring("use", &["#DW persistentdw name=kept".to_owned()], "DataIn", &["c1"]);
    site.unreadable = vec![at("Servers", "default", "own-0"), at("Servers", "default", "kept")];
    for (name, servers) in [("own", "own-0"), ("use", "kept")] {
        site.ask(name, "PreRun");
        site.settle();
        let (_, ready, status, message) = site.told(name);
        assert!(!ready && status == "TransientCondition", "{name}: {status} {message}");
        assert!(
            message.contains(&format!("Servers default/{servers} cannot be read")),
            "{message}"
        );
    }
    let kept = site.get("PersistentStorageInstance", "default", "kept");
    assert!(
        kept["status"]["error"]["debugMessage"].to_string().contains("cannot be read"),
        "{kept}"
    );
    site.unreadable.clear();
    site.settle();
    for name in ["own", "use"] {
        assert!(site.is_ready(name, "PreRun"), "{name}: {:?}", site.told(name));
    }
}
