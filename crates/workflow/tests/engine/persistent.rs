//! Persistent storage, which outlives the workflow that made it.

mod shared;
mod transaction;

use serde_json::{Value, json};

use crate::{
    job::{GIB, STATES},
    site::{Site, at},
};

const COMPUTES: [&str; 3] = ["c1", "c2", "c3"];

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
fn persistent_storage_outlives_its_workflow_until_it_is_destroyed() {
    for kind in ["xfs", "raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        site.keep(kind, "kept", &COMPUTES);
        let instance = site.instance("kept");
        assert_eq!(instance["status"]["state"], "Active", "{instance:#}");
        assert_eq!(instance["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(site.names("NnfNodeStorage"), [format!("r/default-kept-{kind}-0")]);
        assert_eq!(site.names("Servers"), ["default/kept"]);
        assert_eq!(site.names("ClientMount").len() + site.names("DirectiveBreakdown").len(), 0);
        site.end("kept");
    }
}

#[test]
fn a_job_gets_the_path_by_variables_and_is_a_consumer_until_teardown() {
    let mut site = Site::new(3, 100 * GIB);
    site.keep("raw", "my-data", &["c1", "c2"]);
    site.bring("use", &uses("my-data"), "Setup", &["c2", "c1"]);
    assert_eq!(site.consumers("my-data"), ["use-0"]);
    site.go("use", "PreRun");
    let workflow = site.workflow("use").clone();
    let path = format!("/mnt/nnf/{}-0", workflow["metadata"]["uid"].as_str().unwrap());
    let env = &workflow["status"]["env"];
    assert_eq!(env["DW_PERSISTENT_my_data"], path, "{env:#}");
    assert_eq!(env["DW_PERSISTENTS"], format!("my-data:{path}"));
    let first =
        site.get("ClientMount", "c2", "default-use-0-computes")["spec"]["mounts"][0].clone();
    assert_eq!(first["mountPath"], path);
    assert_eq!(
        first["device"]["deviceReference"]["data"],
        Value::Null,
        "the first compute has the first allocation"
    );
    let tree = &site.get("ClientMount", "r", "default-use-0-servers")["spec"]["mounts"];
    let link = |index: usize| (tree[index]["mountPath"].clone(), tree[index]["compute"].clone());
    assert_eq!(link(0), (json!(format!("{path}/node-0")), json!("c2")));
    assert_eq!(link(1), (json!(format!("{path}/node-1")), json!("c1")));
    site.go("use", "PostRun");
    assert_eq!(
        site.get("NnfNodeBlockStorage", "r", "default-my-data-raw-0")["spec"]["allocations"][0]["access"],
        json!(["r"])
    );
    assert_eq!(site.consumers("my-data"), ["use-0"]);
    site.go("use", "Teardown");
    assert!(site.is_ready("use", "Teardown"), "{:?}", site.status_of("use"));
    assert_eq!(site.consumers("my-data"), Vec::<&str>::new());
    assert_eq!(site.names("ClientMount"), Vec::<String>::new());
    site.delete(&at("Workflow", "default", "use"));
    site.settle();
    site.end("my-data");
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
fn bytes_of_persistent_storage_are_not_free_for_jobs() {
    let mut site = Site::new(2, 3 * GIB);
    site.keep("xfs", "kept", &["c1"]);
    site.request_setup(
        "w",
        &["#DW jobdw type=xfs capacity=1GiB name=scratch".to_owned()],
        &["c1", "c2"],
    );
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "DriverWait", "{message}");
    assert!(message.contains("pending capacity on r: "), "{message}");
    site.bring("end", &destroy("kept"), "Teardown", &[]);
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    for name in ["w", "end"] {
        site.delete(&at("Workflow", "default", name));
    }
    site.settle();
    site.assert_clean();
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
