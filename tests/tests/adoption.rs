//! Persistent storage that the Go controllers made: `warren persistent adopt` lets jobs of Warren's engine use its data, and
//! `release` gives it back. The objects are of the form that those controllers leave; rabbit, computes, file systems and
//! data are real.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{cluster::PATIENCE, gate, program::until, workflow::Flow};

const DWS: &str = "dataworkflowservices.github.io/v1alpha7";
const NNF: &str = "nnf.cray.hpe.com/v1alpha11";

/// The CRD of NnfStorage, which only the Go controllers use.
fn nnf_storage_crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nnfstorages.nnf.cray.hpe.com"},
        "spec": {
            "group": "nnf.cray.hpe.com", "scope": "Namespaced",
            "names": {"kind": "NnfStorage", "listKind": "NnfStorageList", "plural": "nnfstorages", "singular": "nnfstorage"},
            "versions": [{"name": "v1alpha11", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
        },
    })
}

/// Storage of the Go controllers on a running cluster.
struct Site {
    flow: Flow,
    /// Name of the storage.
    name: String,
    /// Checksum of the data of each compute, in the order of the chassis.
    sums: Vec<String>,
}

impl Site {
    /// Creates the storage with the objects of the Go controllers, and writes data on each compute.
    fn new(file_system: &'static str) -> anyhow::Result<Self> {
        let mut flow = Flow::new(2, "use")?;
        flow.fixture.run.job.file_system = file_system;
        let name = flow.fixture.run.job.directive();
        let mut site = Self { flow, name, sums: Vec::new() };
        site.create_central_objects()?;
        let run = &mut site.flow.fixture.run;
        run.carve_and_mount()?;
        site.sums = site
            .on_computes("head -c 3000000 /dev/urandom > PATH/data; sync; sha256sum < PATH/data")?;
        site.unmount()?;
        Ok(site)
    }

    /// Creates what the Go controllers make in the namespace of the storage.
    fn create_central_objects(&mut self) -> anyhow::Result<()> {
        let (run, name) = (&mut self.flow.fixture.run, self.name.clone());
        run.apply("crd", &[nnf_storage_crd()])?;
        let metadata = json!({"name": name, "namespace": "default"});
        let mut held = metadata.clone();
        held["finalizers"] = json!(["nnf.cray.hpe.com/persistentStorage"]);
        run.apply("instance", &[json!({
            "apiVersion": DWS, "kind": "PersistentStorageInstance", "metadata": held,
            "spec": {"name": name, "fsType": run.job.file_system, "userID": run.job.user, "state": "Active",
                "dwDirective": format!("#DW create_persistent type=xfs capacity=320MiB name={name}")},
        })])?;
        let uid =
            self.flow.object("persistentstorageinstance", &name, "default")?["metadata"]["uid"]
                .clone();
        let owned = |mut metadata: Value, finalizer: &str| {
            metadata["labels"] = json!({
                "dataworkflowservices.github.io/owner.kind": "PersistentStorageInstance",
                "dataworkflowservices.github.io/owner.name": name,
                "dataworkflowservices.github.io/owner.namespace": "default",
                "dataworkflowservices.github.io/owner.uid": uid,
                "dataworkflowservices.github.io/persistentstorage.name": name,
                "dataworkflowservices.github.io/persistentstorage.namespace": "default",
            });
            metadata["ownerReferences"] = json!([{
                "apiVersion": DWS, "kind": "PersistentStorageInstance", "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }]);
            metadata["finalizers"] = json!([finalizer]);
            metadata
        };
        let run = &mut self.flow.fixture.run;
        let (rabbit, kind) = (run.cluster.chassis().rabbit.clone(), run.job.file_system);
        run.apply("servers", &[json!({
            "apiVersion": DWS, "kind": "Servers", "metadata": owned(metadata.clone(), "nnf.cray.hpe.com/nnf-servers"),
            "spec": {"allocationSets": [{"label": kind, "allocationSize": run.job.capacity,
                "storage": [{"name": rabbit, "allocationCount": 2}]}]},
        })])?;
        let mut profile = run.job.profile();
        profile["metadata"] = owned(metadata.clone(), "example.org/none");
        profile["metadata"]["finalizers"] = json!([]);
        run.apply("profile", &[profile])?;
        let storage = json!({
            "apiVersion": NNF, "kind": "NnfStorage", "metadata": owned(metadata, "nnf.cray.hpe.com/nnf_storage"),
            "spec": {"fileSystemType": kind, "userID": run.job.user, "groupID": run.job.user, "allocationSets": [
                {"name": kind, "capacity": run.job.capacity, "nodes": [{"name": rabbit, "count": 2}]}]},
        });
        until("the API to serve NnfStorages", PATIENCE, || {
            run.apply("storage", std::slice::from_ref(&storage))
        })?;
        let storage = self.flow.object("nnfstorage", &self.name, "default")?;
        self.flow.fixture.run.job.storage_uid =
            storage["metadata"]["uid"].as_str().context("a uid")?.to_owned();
        Ok(())
    }

    /// Runs a script on each compute, with the path of its mount for PATH, and returns what the scripts print.
    fn on_computes(&self, script: &str) -> anyhow::Result<Vec<String>> {
        let run = &self.flow.fixture.run;
        let script = script.replace("PATH", &run.job.mount_path());
        let computes = run.cluster.chassis().computes.iter();
        computes.map(|(compute, _)| self.flow.run_on(compute, &script)).collect()
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        let run = &mut self.flow.fixture.run;
        run.unmount_from_computes()?;
        run.wait_for_computes("unmounted")?;
        run.withdraw_from_computes()
    }

    /// Checks the data as jobs of the Go controllers see it.
    fn check_with_go_mounts(&mut self) -> anyhow::Result<()> {
        let run = &mut self.flow.fixture.run;
        run.mount_on_computes()?;
        run.wait_for_computes("mounted")?;
        let sums = self.on_computes("sha256sum < PATH/data")?;
        ensure!(sums == self.sums, "after the release: {sums:?}, written were {:?}", self.sums);
        self.unmount()
    }

    fn verb(&self, verb: &str, flags: &[&str]) -> anyhow::Result<String> {
        self.flow.fixture.run.prints(&[&["persistent", verb, self.name.as_str()], flags].concat())
    }

    fn use_in_job(&mut self, job: &str) -> anyhow::Result<()> {
        let directive = format!("#DW persistentdw name={}", self.name);
        let variable = format!("DW_PERSISTENT_{}", self.name.replace('-', "_"));
        let (sums, computes) =
            (self.sums.clone(), self.flow.fixture.run.cluster.chassis().computes.clone());
        self.flow.live(job, &directive, |flow, workflow| {
            let path = workflow["status"]["env"][&variable].as_str().context("no path")?;
            for ((compute, _), sum) in computes.iter().zip(&sums) {
                let found = flow.run_on(compute, &format!("sha256sum < {path}/data"))?;
                ensure!(found == *sum, "{compute} reads {found}, written was {sum}");
            }
            Ok(())
        })
    }

    fn storage(&self) -> anyhow::Result<Value> {
        self.flow.object("nnfstorage", &self.name, "default")
    }
}

#[test]
fn adopted_storage_is_used_by_jobs_with_its_data_and_released_unharmed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut site = Site::new("xfs")?;
    site.flow.next("refused");
    site.flow.create(&[&format!("#DW persistentdw name={}", site.name)])?;
    let refused = site.flow.wait("Proposal", "Error")?;
    let message = refused["status"]["message"].to_string();
    ensure!(message.contains(&format!("warren persistent adopt {}", site.name)), "{message}");
    site.flow.leave()?;

    let before = site.storage()?;
    let printed = site.verb("adopt", &["--dry-run"])?;
    ensure!(printed.contains("would be adopted, in 6 steps"), "{printed}");
    ensure!(site.storage()? == before, "--dry-run changed the NnfStorage");
    let printed = site.verb("adopt", &[])?;
    ensure!(printed.ends_with(": adopted\n"), "{printed}");
    ensure!(site.verb("adopt", &[])?.ends_with(": nothing to do\n"));
    let shown = site.flow.fixture.run.prints(&["persistent", "show", &site.name])?;
    ensure!(shown.contains("state      Active"), "{shown}");
    site.use_in_job("first")?;

    let printed = site.verb("release", &[])?;
    ensure!(printed.ends_with(": released to the Go controllers\n"), "{printed}");
    let after = site.storage()?;
    for part in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let (was, is) = (&before["metadata"][part], &after["metadata"][part]);
        let is_none = |value: &Value| value.is_null() || *value == json!({});
        ensure!(was == is || (is_none(was) && is_none(is)), "{part}: {was} became {is}");
    }
    site.check_with_go_mounts()?;

    site.verb("adopt", &[])?;
    site.use_in_job("second")?;
    let destroy = format!("#DW destroy_persistent name={}", site.name);
    site.flow.live("end", &destroy, |_, _| Ok(()))?;
    until("the NnfStorage to be gone", PATIENCE, || {
        ensure!(site.storage().is_err(), "it is still there");
        Ok(())
    })?;
    site.flow.nothing_is_left()?;
    site.flow.end()
}
