//! Objects that cannot be read when the engine starts: each is there all the same, and nothing may be concluded from it.

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
            object["metadata"]["finalizers"] = serde_json::json!([]);
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
            object["metadata"]["finalizers"] = serde_json::json!([]);
        });
        site.delete(&workflow("use"));
        site.settle();
        assert!(site.is_ready("end", "Teardown"), "{state}: {:?}", site.told("end"));
        site.remove("end");
    }
}
