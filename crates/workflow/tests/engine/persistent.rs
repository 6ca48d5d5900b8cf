//! Persistent storage, which outlives the workflow that made it.

mod shared;
mod transaction;

use serde_json::Value;

use crate::{
    job::{GIB, STATES},
    site::{Site, at},
};

fn create(kind: &str, name: &str) -> Vec<String> {
    vec![format!("#DW create_persistent type={kind} capacity=1GiB name={name}")]
}

fn uses(name: &str) -> Vec<String> {
    vec![format!("#DW persistentdw name={name}")]
}

fn destroy(name: &str) -> Vec<String> {
    vec![format!("#DW destroy_persistent name={name}")]
}

impl Site {
    /// Creates persistent storage for these computes, and removes the workflow that created it.
    pub(crate) fn keep(&mut self, kind: &str, name: &str, computes: &[&str]) {
        let maker = format!("make-{name}");
        self.bring(&maker, &create(kind, name), "Teardown", computes);
        self.delete(&at("Workflow", "default", &maker));
        self.settle();
        assert!(!self.objects.contains_key(&at("Workflow", "default", &maker)));
    }

    /// Destroys persistent storage, and checks that nothing of it or of any workflow is left.
    pub(crate) fn end(&mut self, name: &str) {
        self.bring("end", &destroy(name), "Teardown", &[]);
        self.remove("end");
    }

    fn instance(&self, name: &str) -> &Value {
        self.get("PersistentStorageInstance", "default", name)
    }

    fn consumers(&self, name: &str) -> Vec<&str> {
        let entries = self.instance(name)["spec"]["consumerReferences"].as_array();
        let entries = entries.into_iter().flatten();
        entries.map(|entry| entry["name"].as_str().unwrap()).collect()
    }

    /// Brings a workflow from its present state to another state. Does not check that the workflow reaches that state.
    fn go(&mut self, name: &str, to: &str) {
        let from = self.status_of(name).0;
        let place = |state: &str| STATES.iter().position(|known| *known == state).unwrap();
        for state in &STATES[place(&from) + 1..=place(to)] {
            self.request_state(name, state);
            self.settle();
        }
    }
}

#[test]
fn labels_of_a_mount_name_the_directive_that_made_the_volume() {
    let mut site = Site::new(1, 100 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    let lines = ["#DW jobdw type=xfs capacity=1GiB name=own".to_owned(), uses("kept").remove(0)];
    site.bring("use", &lines, "PreRun", &["c1"]);
    let labels = &site.get("ClientMount", "c1", "default-use-1-computes")["metadata"]["labels"];
    let owner = site.get("Servers", "default", "kept")["metadata"]["uid"].clone();
    assert_eq!(labels["nnf.cray.hpe.com/directive_index"], "1");
    assert_eq!(labels["nnf.cray.hpe.com/target_directive_index"], "0");
    assert_eq!(labels["nnf.cray.hpe.com/target_owner_uid"], owner);
    assert_eq!(labels["nnf.cray.hpe.com/pinned_storage_profile_name"], "kept");
    site.delete(&at("Workflow", "default", "use"));
    site.settle();
    site.end("kept");
}

#[test]
fn objects_of_persistent_storage_have_the_shape_of_the_go_controllers() {
    let captured = crate::samples::captured;
    let mut site = Site::new(1, 100 * GIB);
    site.bring("pcreate", &create("xfs", "shared"), "PreRun", &["c1"]);
    site.bring("puse", &uses("shared"), "PreRun", &["c1"]);
    let recorded = captured("persistentstorageinstance-use");
    let ours = site.instance("shared");
    let members = |object: &Value, part: &str| -> Vec<String> {
        object[part].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(members(ours, "spec"), members(&recorded, "spec"));
    assert_eq!(ours["spec"]["consumerReferences"], recorded["spec"]["consumerReferences"]);
    assert_eq!(ours["status"], recorded["status"]);
    assert_eq!(ours["metadata"]["finalizers"], recorded["metadata"]["finalizers"]);
    let servers = captured("servers-persistent");
    let ours = site.get("Servers", "default", "shared");
    assert_eq!(ours["metadata"]["finalizers"], servers["metadata"]["finalizers"]);
    for (key, value) in servers["metadata"]["labels"].as_object().unwrap() {
        if !key.ends_with("uid") {
            assert_eq!(&ours["metadata"]["labels"][key], value, "{key}");
        }
    }
    for (kind, name) in [("create", "pcreate-0"), ("use", "puse-0")] {
        let recorded = captured(&format!("directivebreakdown-persistent-{kind}"));
        let mut ours = site.get("DirectiveBreakdown", "default", name)["status"].clone();
        if kind == "create" {
            // The Go controllers' profile added 300 MiB, and their directive asked for 1 GB.
            let size = &recorded["status"]["storage"]["allocationSets"][0]["minimumCapacity"];
            ours["storage"]["allocationSets"][0]["minimumCapacity"] = size.clone();
        }
        assert_eq!(ours, recorded["status"], "{kind}");
    }
}

#[test]
fn persistent_storage_of_other_controllers_is_neither_used_nor_changed() {
    let mut site = Site::new(1, 100 * GIB);
    for name in ["persistentstorageinstance-use", "servers-persistent"] {
        site.put(crate::samples::captured(name));
    }
    let uid = site.instance("shared")["metadata"]["uid"].clone();
    site.edit("Servers", "default", "shared", |object| {
        object["metadata"]["ownerReferences"][0]["uid"] = uid;
    });
    let user = u32::try_from(site.instance("shared")["spec"]["userID"].as_i64().unwrap()).unwrap();
    let before: Vec<Value> = [site.instance("shared"), site.get("Servers", "default", "shared")]
        .map(Value::clone)
        .into();
    for (index, lines) in
        [uses("shared"), destroy("shared"), create("xfs", "shared")].iter().enumerate()
    {
        let name = format!("w{index}");
        site.create_by(user, &name, lines);
        site.settle();
        assert_eq!(site.status_of(&name).2, "Error", "{:?}", site.status_of(&name));
        site.delete(&at("Workflow", "default", &name));
        site.settle();
    }
    assert_eq!(
        before,
        [site.instance("shared"), site.get("Servers", "default", "shared")].map(Value::clone)
    );
}
