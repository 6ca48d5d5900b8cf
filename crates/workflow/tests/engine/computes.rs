//! Computes that change, are missing or come late: no allocation is ever mounted by two nodes that may not share it.

use serde_json::{Value, json};

use crate::{
    job::{GIB, directive},
    site::{Site, at},
};

fn slot(site: &Site, compute: &str) -> Value {
    let mount = site.get("ClientMount", compute, "default-w-0-computes");
    mount["spec"]["mounts"][0]["device"]["deviceReference"]["data"].clone()
}

/// [`Site::make`] refuses a second mount of an XFS.
#[test]
fn a_compute_that_takes_anothers_place_in_prerun_does_not_get_its_allocation() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "DataIn", &["c1"]);
        site.dead = vec!["c1".to_owned()];
        site.ask("w", "PreRun");
        site.settle();
        site.fill_computes("w", &["c2"]);
        site.settle();
        assert!(!site.names("ClientMount").contains(&"c2/default-w-0-computes".to_owned()));
        let (_, ready, status, message) = site.told("w");
        assert_eq!((ready, &*status), (false, "Error"), "{kind}: {message}");
        assert!(message.contains("Too many clients for storage: c2 is served by r"), "{message}");
        assert!(message.contains("ClientMount c1/default-w-0-computes has one"), "{message}");
        // Only the end of c1's mount tells that c1 has nothing of it mounted.
        site.dead.clear();
        site.settle();
        site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
        site.settle();
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.told("w"));
        assert_eq!(slot(&site, "c2"), Value::Null, "{kind}");
        site.remove("w");
    }
}

#[test]
fn a_mount_that_somebody_deletes_comes_back_on_its_own_allocation() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "PreRun", &["c1", "c2"]);
    site.fill_computes("w", &["c2"]);
    site.delete(&at("ClientMount", "c2", "default-w-0-computes"));
    site.settle();
    assert_eq!(slot(&site, "c2"), json!(1), "c1 has the first mounted");
    site.remove("w");
}

#[test]
fn nobody_gets_an_allocation_beside_a_mount_that_cannot_be_read() {
    let mut site = Site::new(2, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "PreRun", &["c1"]);
    site.unreadable = vec![at("ClientMount", "c1", "default-w-0-computes")];
    site.fill_computes("w", &["c2"]);
    site.settle();
    assert!(!site.names("ClientMount").contains(&"c2/default-w-0-computes".to_owned()));
    site.unreadable.clear();
    site.remove("w");
}
