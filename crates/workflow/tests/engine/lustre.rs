//! Lustre: the order of targets, file system names, workflows from Proposal to Teardown, and faults.

mod agents;
mod faults;
mod lives;
mod names;
mod persistent;
mod samples;

use serde_json::{Value, json};

use crate::{job::GIB, site::Site};

pub(crate) const LUSTRE: &str = "#DW jobdw type=lustre capacity=20GB name=lus";

/// Changes the Lustre part of the site's default profile.
pub(crate) fn with_profile(site: &mut Site, change: &Value) {
    site.edit("NnfStorageProfile", "nnf-system", "default", |object| {
        json_patch::merge(&mut object["data"]["lustreStorage"], change);
    });
}

/// Returns a site with two rabbits that have two computes each.
pub(crate) fn two_rabbits() -> Site {
    let mut site = Site::new(2, 1000 * GIB);
    site.add_rabbit("s", &["d1", "d2"].map(str::to_owned), 1000 * GIB);
    site.settle();
    site
}

/// Adds a management target outside of the rabbits.
pub(crate) fn put_external(site: &mut Site, address: &str) {
    site.put(json!({
        "kind": "NnfLustreMGT", "metadata": {"name": "outside", "namespace": "nnf-system"},
        "spec": {"addresses": [address], "fsNameStart": "bbbbbbbb"},
    }));
    site.settle();
}

/// Returns a site whose file systems use a management target outside of the rabbits.
pub(crate) fn with_external() -> Site {
    let mut site = two_rabbits();
    put_external(&mut site, "10.9.9.9@tcp");
    let options = json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp"}});
    with_profile(&mut site, &options);
    site
}

/// Adds a persistent management target to the pool, as `create_persistent` of the Go controllers leaves it.
pub(crate) fn put_persistent(site: &mut Site, name: &str, rabbit: &str, state: &str) {
    site.put(json!({
        "kind": "PersistentStorageInstance",
        "metadata": {"name": name, "namespace": "default", "labels": {"nnf.cray.hpe.com/standalone_mgt": "pool"}},
        "spec": {"name": name, "fsType": "lustre", "dwDirective": "#DW create_persistent", "userID": 1, "state": "Active"},
        "status": {"state": state},
    }));
    let labels = json!({
        "dataworkflowservices.github.io/owner.kind": "NnfStorage", "dataworkflowservices.github.io/owner.name": name,
        "dataworkflowservices.github.io/owner.namespace": "default", "dataworkflowservices.github.io/owner.uid": name,
    });
    let address = site.get("NnfNode", rabbit, "nnf-nlc")["status"]["lnetNid"].clone();
    site.put(json!({
        "kind": "NnfLustreMGT", "metadata": {"name": name, "namespace": rabbit, "labels": labels},
        "spec": {"addresses": [address], "fsNameStart": "aaaaaaaa"},
    }));
    site.settle();
}

/// Adds two storage profiles: `target` for management targets of a pool, and `pooled` for file systems
/// that use the pool.
pub(crate) fn lend_pool(site: &mut Site) {
    for (name, options) in [
        ("target", json!({"standaloneMgtPoolName": "pool"})),
        ("pooled", json!({"externalMgs": "pool:pool", "preMountCommands": ["lctl x $FS_NAME"]})),
    ] {
        let mut profile = site.get("NnfStorageProfile", "nnf-system", "default").clone();
        profile["metadata"]["name"] = json!(name);
        profile["data"]["default"] = json!(false);
        json_patch::merge(
            &mut profile["data"]["lustreStorage"],
            &json!({"combinedMgtMdt": false, "mgtOptions": options}),
        );
        site.put(profile);
    }
}

/// Returns the directive that creates a member of the pool.
pub(crate) fn create_target(name: &str) -> Vec<String> {
    vec![format!("#DW create_persistent type=lustre name={name} profile=target")]
}

impl Site {
    /// Returns the targets of a workflow's first directive: rabbit, name, kind, and index of the first target.
    fn targets(&self, workflow: &str) -> Vec<String> {
        let uid = &self.workflow(workflow)["metadata"]["uid"];
        let storages = self.objects.iter().filter(|((kind, ..), object)| {
            kind == "NnfNodeStorage"
                && object["metadata"]["labels"]["dataworkflowservices.github.io/workflow.uid"]
                    == *uid
        });
        let texts = storages.map(|((_, rabbit, name), object)| {
            let lustre = &object["spec"]["lustreStorage"];
            let (kind, first) = (lustre["targetType"].as_str().unwrap(), &lustre["startIndex"]);
            format!("{rabbit}/{name} {kind} {}", first.as_i64().unwrap_or(0))
        });
        texts.collect()
    }

    /// Returns the file system name and the MGS address that a workflow's targets were made with.
    fn name_and_address(&self, workflow: &str) -> (String, String) {
        let uid = &self.workflow(workflow)["metadata"]["uid"];
        let mut storages = self.objects.iter().filter(|((kind, ..), object)| {
            kind == "NnfNodeStorage"
                && object["metadata"]["labels"]["dataworkflowservices.github.io/workflow.uid"]
                    == *uid
        });
        let lustre = &storages.next().unwrap().1["spec"]["lustreStorage"];
        let text = |field: &str| lustre[field].as_str().unwrap().to_owned();
        (text("fileSystemName"), text("mgsAddress"))
    }

    fn request_state_and_settle(&mut self, name: &str, state: &str) {
        self.request_state(name, state);
        self.settle();
    }

    /// Brings a new workflow to the end of Proposal, and fills in these computes.
    fn propose(&mut self, name: &str, directive: &str, computes: &[&str]) {
        self.create(name, &[directive.to_owned()]);
        self.settle();
        assert!(self.is_ready(name, "Proposal"), "{:?}", self.status_of(name));
        self.fill_computes(name, computes);
    }

    pub(crate) fn fill_servers(&mut self, name: &str, sets: &[(&str, &[(&str, i64)])]) {
        let set = |(label, on): &(&str, &[(&str, i64)])| {
            let storage: Vec<Value> = on
                .iter()
                .map(|(rabbit, count)| json!({"name": rabbit, "allocationCount": count}))
                .collect();
            json!({"label": label, "allocationSize": 20_000_000_000_i64, "storage": storage})
        };
        let sets: Vec<Value> = sets.iter().map(set).collect();
        self.edit("Servers", "default", &format!("{name}-0"), |object| {
            object["spec"]["allocationSets"] = json!(sets);
        });
    }
}
