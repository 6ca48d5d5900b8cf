//! Persistent storage that the Go controllers made: `warren persistent adopt` lets jobs of Warren's engine use its data, and
//! `release` gives it back. The objects are of the form that those controllers leave; rabbit, computes, file systems and
//! data are real.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    cluster::PATIENCE,
    program::until,
    run::{Machines, Run, Silent},
    workflow::object,
};

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
struct Site<'a, M> {
    run: &'a mut Run<Silent, M>,
    /// Name of the storage.
    name: String,
    /// Checksum of the data of each compute, in the order of the chassis.
    sums: Vec<String>,
}

impl<'a, M: Machines> Site<'a, M> {
    /// Creates the storage with the objects of the Go controllers, and writes data on each compute.
    fn new(run: &'a mut Run<Silent, M>) -> anyhow::Result<Self> {
        let name = run.job.directive();
        let mut site = Self { run, name, sums: Vec::new() };
        site.create_central_objects()?;
        site.run.carve_and_mount()?;
        site.sums = site
            .on_computes("head -c 3000000 /dev/urandom > PATH/data; sync; sha256sum < PATH/data")?;
        site.unmount()?;
        Ok(site)
    }

    /// Creates what the Go controllers make in the namespace of the storage.
    fn create_central_objects(&mut self) -> anyhow::Result<()> {
        let (run, name) = (&mut *self.run, self.name.clone());
        run.apply("crd", &[nnf_storage_crd()])?;
        let metadata = json!({"name": name, "namespace": "default"});
        let mut held = metadata.clone();
        held["finalizers"] = json!(["nnf.cray.hpe.com/persistentStorage"]);
        run.apply("instance", &[json!({
            "apiVersion": DWS, "kind": "PersistentStorageInstance", "metadata": held,
            "spec": {"name": name, "fsType": run.job.file_system, "userID": run.job.user, "state": "Active",
                "dwDirective": format!("#DW create_persistent type={} capacity=320MiB name={name}", run.job.file_system)},
        })])?;
        let instance = object(run, "persistentstorageinstance", &name, "default")?;
        let uid = instance["metadata"]["uid"].clone();
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
        let storage = object(run, "nnfstorage", &name, "default")?;
        run.job.storage_uid = storage["metadata"]["uid"].as_str().context("a uid")?.to_owned();
        Ok(())
    }

    /// Runs a script on each compute, with the path of its mount for PATH, and returns what the scripts print.
    fn on_computes(&self, script: &str) -> anyhow::Result<Vec<String>> {
        let (job, cluster) = (&self.run.job, &self.run.cluster);
        let script = script.replace("PATH", &job.mount_path());
        let computes = cluster.chassis().computes.iter();
        computes.map(|(compute, _)| cluster.run_on(compute, job.user, &script)).collect()
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        let run = &mut *self.run;
        run.unmount_from_computes()?;
        run.wait_for_computes("unmounted")?;
        run.withdraw_from_computes()
    }

    /// Checks the data as jobs of the Go controllers see it.
    fn check_with_go_mounts(&mut self) -> anyhow::Result<()> {
        let run = &mut *self.run;
        run.mount_on_computes()?;
        run.wait_for_computes("mounted")?;
        let sums = self.on_computes("sha256sum < PATH/data")?;
        ensure!(sums == self.sums, "after the release: {sums:?}, written were {:?}", self.sums);
        self.unmount()
    }

    fn verb(&self, verb: &str, flags: &[&str]) -> anyhow::Result<String> {
        self.run.prints(&[&["persistent", verb, self.name.as_str()], flags].concat())
    }

    /// Checks in a job that each compute reads its data in the storage.
    fn use_in_job(&mut self, job: &str) -> anyhow::Result<()> {
        self.create_job(job, &format!("#DW persistentdw name={}", self.name))?;
        self.advance(job, "PreRun")?;
        let workflow = object(self.run, "workflow", job, "default")?;
        let variable = format!("DW_PERSISTENT_{}", self.name.replace('-', "_"));
        let path = workflow["status"]["env"][&variable].as_str().context("no path")?;
        let (cluster, user) = (&self.run.cluster, self.run.job.user);
        for ((compute, _), sum) in cluster.chassis().computes.iter().zip(&self.sums) {
            let found = cluster.run_on(compute, user, &format!("sha256sum < {path}/data"))?;
            ensure!(found == *sum, "{compute} reads {found}, written was {sum}");
        }
        self.advance(job, "Teardown")?;
        self.run.warren(&["workflow", "delete", job])
    }

    fn create_job(&mut self, job: &str, directive: &str) -> anyhow::Result<()> {
        let user = self.run.job.user.to_string();
        let create = ["workflow", "create", "--name", job, "--user", &user, "--group", &user];
        self.run.warren(&[&create[..], &[directive]].concat())
    }

    /// Takes a job through all states up to this one.
    fn advance(&mut self, job: &str, state: &str) -> anyhow::Result<()> {
        let computes = self.run.cluster.chassis().computes.iter();
        let computes: Vec<&str> = computes.map(|(name, _)| name.as_str()).collect();
        let (computes, all) =
            (computes.join(","), ["Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"]);
        let object = object(self.run, "workflow", job, "default")?;
        let now = all.iter().position(|known| object["spec"]["desiredState"] == *known);
        for next in &all[now.map_or(0, |now| now + 1)..] {
            let nodes: &[&str] = if *next == "Setup" { &["--nodes", &computes] } else { &[] };
            let words = ["workflow", "advance", job, "--to", next, "--timeout", "180s"];
            self.run.warren(&[&words[..], nodes].concat())?;
            if *next == state {
                break;
            }
        }
        Ok(())
    }

    fn storage(&self) -> anyhow::Result<Value> {
        object(self.run, "nnfstorage", &self.name, "default")
    }

    /// Checks that a job which asks for storage that is not adopted gets an error with the remedy.
    fn is_refused_before(&mut self) -> anyhow::Result<()> {
        self.create_job("refused", &format!("#DW persistentdw name={}", self.name))?;
        until("the Workflow to name the remedy", PATIENCE, || {
            let refused = object(self.run, "workflow", "refused", "default")?;
            let message = refused["status"]["message"].to_string();
            let remedy = format!("warren persistent adopt {}", self.name);
            ensure!(
                refused["status"]["status"] == "Error" && message.contains(&remedy),
                "{refused:#}"
            );
            Ok(())
        })?;
        self.run.warren(&["workflow", "delete", "refused"])
    }

    fn adopt(&self) -> anyhow::Result<()> {
        let before = self.storage()?;
        let printed = self.verb("adopt", &["--dry-run"])?;
        ensure!(printed.contains("would be adopted, in 6 steps"), "{printed}");
        ensure!(self.storage()? == before, "--dry-run changed the NnfStorage");
        let printed = self.verb("adopt", &[])?;
        ensure!(printed.ends_with(": adopted\n"), "{printed}");
        ensure!(self.verb("adopt", &[])?.ends_with(": nothing to do\n"));
        let shown = self.run.prints(&["persistent", "show", &self.name])?;
        ensure!(shown.contains("state      Active"), "{shown}");
        Ok(())
    }

    /// Releases the storage, and checks that its NnfStorage has the metadata of the time before its adoption.
    fn release(&self, before: &Value) -> anyhow::Result<()> {
        let printed = self.verb("release", &[])?;
        ensure!(printed.ends_with(": released to the Go controllers\n"), "{printed}");
        let after = self.storage()?;
        for part in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let (was, is) = (&before["metadata"][part], &after["metadata"][part]);
            let is_none = |value: &Value| value.is_null() || *value == json!({});
            ensure!(was == is || (is_none(was) && is_none(is)), "{part}: {was} became {is}");
        }
        Ok(())
    }

    fn destroy(&mut self) -> anyhow::Result<()> {
        self.create_job("end", &format!("#DW destroy_persistent name={}", self.name))?;
        self.advance("end", "Teardown")?;
        self.run.warren(&["workflow", "delete", "end"])?;
        until("the NnfStorage to be gone", PATIENCE, || {
            ensure!(self.storage().is_err(), "it is still there");
            Ok(())
        })
    }
}

/// Creates storage as the Go controllers do, with the file system of the run's job; then adopts it, uses it in a job, releases
/// it, mounts it as the Go controllers do, adopts it again, uses it in a job, and destroys it. Each mount must show the same
/// data.
///
/// # Errors
/// When a step fails or data differs.
pub fn adopt_use_release_destroy<M: Machines>(run: &mut Run<Silent, M>) -> anyhow::Result<()> {
    let mut site = Site::new(run)?;
    site.is_refused_before()?;
    let before = site.storage()?;
    site.adopt()?;
    site.use_in_job("first")?;
    site.release(&before)?;
    site.check_with_go_mounts()?;
    site.verb("adopt", &[])?;
    site.use_in_job("second")?;
    site.destroy()
}
