//! Tests of NnfSystemStorages with all programs, on real loop devices and real file systems.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{cluster::patience, gate, program::until, workflow::Flow};

const NNF: &str = "nnf.cray.hpe.com/v1alpha11";

/// A system storage on a cluster.
struct System {
    flow: Flow,
    name: &'static str,
}

impl System {
    /// Starts a chassis with two computes, and creates the profile of a system storage.
    fn new(name: &'static str) -> anyhow::Result<Self> {
        let flow = Flow::new(2, "unused")?;
        let mut system = Self { flow, name };
        let template = system.flow.object("nnfstorageprofile", "default", "nnf-system")?;
        let mut data = template["data"].clone();
        (data["pinned"], data["default"]) = (json!(true), json!(false));
        let profile = json!({"apiVersion": NNF, "kind": "NnfStorageProfile", "data": data,
            "metadata": {"name": "system", "namespace": "nnf-system"}});
        system.flow.fixture.run.apply("profile", &[profile])?;
        Ok(system)
    }

    /// Creates or changes the system storage with these fields.
    fn change(&mut self, mut spec: Value) -> anyhow::Result<()> {
        let reference =
            json!({"kind": "NnfStorageProfile", "name": "system", "namespace": "nnf-system"});
        spec["storageProfile"] = reference;
        let object = json!({"apiVersion": NNF, "kind": "NnfSystemStorage",
            "metadata": {"name": self.name, "namespace": "default"}, "spec": spec});
        self.flow.fixture.run.apply("system-storage", &[object])
    }

    fn status(&self) -> anyhow::Result<Value> {
        let object = self.flow.object("nnfsystemstorage", self.name, "default")?;
        Ok(object["status"].clone())
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        until("the system storage to be ready", patience(), || {
            let status = self.status()?;
            ensure!(status["ready"] == true, "not yet: {status}");
            Ok(())
        })
    }

    /// Waits until exactly these nodes have access to the first allocation.
    fn wait_for_access(&self, nodes: &[&str]) -> anyhow::Result<()> {
        let name = format!("default-{}-system-storage-0", self.name);
        until("the access", patience(), || {
            let block = self.flow.object("nnfnodeblockstorage", &name, "rabbit-1")?;
            let accesses = block["status"]["allocations"][0]["accesses"].as_object();
            let found: Vec<&str> =
                accesses.context("no access")?.keys().map(String::as_str).collect();
            ensure!(found == nodes, "{found:?}, expected {nodes:?}");
            Ok(())
        })
    }

    /// Runs a script on a node as root.
    fn run_on(&self, node: &str, script: &str) -> anyhow::Result<String> {
        self.flow.fixture.run.cluster.run_on(node, 0, script)
    }

    /// Lets jobs use the rabbit, or not.
    fn set_rabbit(&mut self, state: &str) -> anyhow::Result<()> {
        let storage = json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Storage",
            "metadata": {"name": "rabbit-1", "namespace": "default"}, "spec": {"state": state}});
        self.flow.fixture.run.apply("storage", &[storage])
    }

    /// Deletes the system storage, and checks that nothing of it is left.
    fn end(self) -> anyhow::Result<()> {
        let run = &self.flow.fixture.run;
        run.prints(&["delete", "nnfsystemstorage", self.name, "-n", "default"])?;
        self.flow.nothing_is_left()?;
        self.flow.end()
    }
}

#[test]
fn each_compute_has_an_xfs_of_its_own_until_the_system_storage_is_deleted() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut system = System::new("scratch")?;
    let path = format!("{}/scratch", system.flow.fixture.run.cluster.mount_root());
    let spec = json!({"type": "xfs", "shared": false, "capacity": 320 << 20, "computesTarget": "pattern",
        "computesPattern": [0, 1], "makeClientMounts": true, "clientMountPath": path});
    system.change(spec)?;
    system.wait_until_ready()?;
    for compute in ["compute-1", "compute-2"] {
        let script = format!("test ! -e {path}/file; echo {compute} > {path}/file");
        system.run_on(compute, &script)?;
    }
    system.flow.kill_coordinator()?;
    system.wait_until_ready()?;
    for compute in ["compute-1", "compute-2"] {
        let found = system.run_on(compute, &format!("cat {path}/file"))?;
        ensure!(found.trim() == compute, "{compute} reads {found:?}");
    }
    system.end()
}

#[test]
fn computes_share_a_raw_volume_and_keep_it_while_their_rabbit_is_disabled() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut system = System::new("lock")?;
    system.change(json!({"capacity": 64 << 20}))?;
    system.wait_until_ready()?;
    system.wait_for_access(&["compute-1", "compute-2", "rabbit-1"])?;
    let path = format!("{}/lock", system.flow.fixture.run.cluster.mount_root());
    let mounted = json!({"excludeDisabledRabbits": true, "capacity": 64 << 20,
        "makeClientMounts": true, "clientMountPath": path});
    system.change(mounted.clone())?;
    let read = format!("dd if={path} bs=4096 count=1 iflag=direct status=none");
    until("both computes to mount", patience(), || {
        system.run_on("compute-1", &format!("test -b {path}"))?;
        system.run_on("compute-2", &format!("test -b {path}")).map(drop)
    })?;
    let write = format!(
        "printf %-4096s locked | dd of={path} bs=4096 iflag=fullblock oflag=direct status=none"
    );
    system.run_on("compute-1", &write)?;
    let found = system.run_on("compute-2", &read)?;
    ensure!(found.trim() == "locked", "compute-2 reads {found:?}");

    system.set_rabbit("Disabled")?;
    until("the error of no rabbit", patience(), || {
        let status = system.status()?;
        let message = status["error"]["debugMessage"].as_str().unwrap_or_default();
        ensure!(message.starts_with("no rabbit is left"), "not yet: {status}");
        ensure!(status["error"]["severity"] == "Minor", "{status}");
        Ok(())
    })?;
    let found = system.run_on("compute-2", &read)?;
    ensure!(found.trim() == "locked", "compute-2 reads {found:?} while the rabbit is disabled");
    system.set_rabbit("Enabled")?;
    system.wait_until_ready()?;

    let mut without = mounted;
    without["excludeComputes"] = json!(["compute-2"]);
    system.change(without)?;
    system.wait_for_access(&["compute-1", "rabbit-1"])?;
    system.run_on("compute-2", &format!("test ! -b {path}"))?;
    system.end()
}

#[test]
fn the_api_refuses_fields_outside_their_bounds_and_the_engine_what_the_api_cannot_know()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut system = System::new("bad")?;
    system.change(json!({"includeRabbits": ["a"], "excludeRabbits": ["b"]}))?;
    until("the error", patience(), || {
        let status = system.status()?;
        let is_fatal = status["error"]["severity"] == "Fatal" && status["error"]["type"] == "User";
        ensure!(is_fatal, "not yet: {status}");
        Ok(())
    })?;
    for (spec, expected) in [
        (json!({"type": "lustre"}), "Unsupported value"),
        (json!({"computesTarget": "prime"}), "Unsupported value"),
        (json!({"computesPattern": [16]}), "computesPattern"),
    ] {
        let why = system.change(spec.clone()).expect_err("the API refuses the field");
        ensure!(format!("{why:#}").contains(expected), "{spec}: {why:#}");
    }
    system.end()
}

/// Returns a list with the results of `warren cabling`, by compute.
fn cabling(system: &System) -> anyhow::Result<(i32, Vec<(String, String)>)> {
    let cluster = &system.flow.fixture.run.cluster;
    let output = cluster.warren()?.args(["cabling", "--json"]).output()?;
    let lines: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("decode the output: {output:?}"))?;
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let lines = lines.as_array().context("a list")?.iter();
    let results = lines.map(|line| (text(line, "compute"), text(line, "result"))).collect();
    Ok((output.status.code().unwrap_or(-1), results))
}

/// Exchanges the simulated cables of two computes: each then reaches what is attached to the other.
fn swap_cables(system: &System, first: &str, second: &str) -> anyhow::Result<()> {
    let script = format!(
        "for markers in {}/drive-*/*/access; do
            for pair in '{first} was' '{second} {first}' 'was {second}'; do
                set -- $pair
                ! test -e \"$markers/$1\" || mv \"$markers/$1\" \"$markers/$2\"
            done
        done",
        system.flow.fixture.pool().display()
    );
    system.flow.fixture.run.cluster.run_on_host_as(0, &script).map(drop)
}

#[test]
fn cabling_names_swapped_cables_and_silent_computes() -> anyhow::Result<()> {
    if !gate::loop_devices() || tests::cluster::on_nvme() {
        return Ok(());
    }
    let mut system = System::new("cables")?;
    let results = |results: [&str; 2]| -> Vec<(String, String)> {
        let computes = ["compute-1", "compute-2"].into_iter().zip(results);
        computes.map(|(name, result)| (name.to_owned(), result.to_owned())).collect()
    };
    ensure!(cabling(&system)? == (3, results(["untested", "untested"])), "{:?}", cabling(&system)?);
    system.change(json!({"shared": false, "capacity": 64 << 20, "computesTarget": "pattern",
        "computesPattern": [0, 1]}))?;
    system.wait_until_ready()?;
    ensure!(cabling(&system)? == (0, results(["right", "right"])), "{:?}", cabling(&system)?);

    swap_cables(&system, "compute-1", "compute-2")?;
    ensure!(cabling(&system)? == (4, results(["swapped", "swapped"])), "{:?}", cabling(&system)?);
    let output = system.flow.fixture.run.cluster.warren()?.arg("cabling").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "compute-1 sees the storage of compute-2, and compute-2 that of compute-1: the cables of port 0 of rabbit-1 and port 1 of rabbit-1 are swapped";
    ensure!(text.contains(expected), "{text}");
    swap_cables(&system, "compute-1", "compute-2")?;

    system.flow.fixture.run.cluster.stop_one("compute-2")?;
    until("compute-2 to be unknown", patience(), || {
        let found = cabling(&system)?;
        ensure!(found == (7, results(["right", "unknown"])), "{found:?}");
        Ok(())
    })?;
    system.flow.fixture.run.cluster.start_node("compute-2")?;
    system.end()
}
