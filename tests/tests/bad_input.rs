//! Gives bad objects to the real programs: each object must get a precise `userMessage`, and must change
//! nothing on the node.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{cluster::PATIENCE, fixture::Fixture, gate, program::until};

/// A case: its name, a function that makes a good ClientMount of compute-1 bad, and words that
/// the `userMessage` must contain.
type Case = (&'static str, fn(&mut Value, &str), &'static [&'static str]);

const MOUNTS: [Case; 9] = [
    (
        "relative",
        |mount, _| path(mount, "mnt/x"),
        &["spec.mounts[0].mountPath", "mnt/x", "absolute"],
    ),
    (
        "parent",
        |mount, root| path(mount, &format!("{root}/../etc")),
        &["spec.mounts[0].mountPath", ".."],
    ),
    (
        "outside",
        |mount, _| path(mount, "/etc/warren"),
        &["spec.mounts[0].mountPath", "/etc/warren", "use a path under"],
    ),
    (
        "symlink",
        |mount, root| path(mount, &format!("{root}/planted/x")),
        &["planted", "symbolic link"],
    ),
    ("occupied", |mount, root| path(mount, &format!("{root}/busy")), &["busy", "tmpfs"]),
    ("no device", no_device, &["nqn.2026-01.io.warren:nowhere", "7"]),
    (
        "no such profile",
        |mount, _| profile(mount, "nowhere"),
        &["default/nowhere", "NnfStorageProfile"],
    ),
    ("unpinned profile", |mount, _| profile(mount, "unpinned"), &["default/unpinned", "pinned"]),
    (
        "foreign node",
        |mount, _| mount["spec"]["node"] = json!("compute-9"),
        &["spec.node", "compute-9"],
    ),
];

fn path(mount: &mut Value, path: &str) {
    mount["spec"]["mounts"][0]["mountPath"] = json!(path);
}

fn profile(mount: &mut Value, name: &str) {
    mount["metadata"]["labels"]["nnf.cray.hpe.com/pinned_storage_profile_name"] = json!(name);
}

fn no_device(mount: &mut Value, _: &str) {
    mount["spec"]["mounts"][0]["device"]["lvm"]["nvmeInfo"] = json!([{"deviceSerial": "nqn.2026-01.io.warren:nowhere", "namespaceID": "7", "namespaceGUID": ""}]);
}

/// Prepares storage that compute-1 can reach, and returns the ClientMount that would mount it there.
fn prepare_storage(fixture: &mut Fixture) -> anyhow::Result<Value> {
    let run = &mut fixture.run;
    run.carve()?;
    run.wait_for_file_systems()?;
    let chassis = run.cluster.chassis().clone();
    run.apply("access", &[run.job.block_storage(&chassis, true)])?;
    let carved = until("access", PATIENCE, || {
        let carved = run.block_storage()?;
        let accesses = &carved["status"]["allocations"][0]["accesses"];
        ensure!(accesses["compute-1"].is_object(), "not yet: {accesses}");
        Ok(carved)
    })?;
    Ok(run.job.compute_mount(&chassis, 0, &carved))
}

/// Waits until the object's status has an error, and returns that error.
fn wait_for_error(
    fixture: &Fixture,
    kind: &str,
    name: &str,
    namespace: &str,
) -> anyhow::Result<Value> {
    until("an error in the status", PATIENCE, || {
        let text =
            fixture.run.cluster.warren_prints(&["get", kind, name, "-n", namespace, "--json"])?;
        let object: Value = serde_json::from_str(&text).context("decode")?;
        let error = object["status"]["error"].clone();
        ensure!(error.is_object(), "not yet: {}", object["status"]);
        Ok(error)
    })
}

/// Lists the mounts and the files below a node's mount root. Mounts elsewhere belong to the machine
/// that runs the tests.
fn mounts_of(fixture: &Fixture, node: &str) -> anyhow::Result<String> {
    let root = fixture.run.cluster.mount_root();
    fixture.run.cluster.run_on(
        node,
        0,
        &format!("grep -F {root} /proc/self/mountinfo; find {root}"),
    )
}

#[test]
fn a_faulty_client_mount_mounts_nothing_and_its_status_has_the_cause() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "xfs")?;
    let good = prepare_storage(&mut fixture)?;
    let root = fixture.run.cluster.mount_root();
    let mut unpinned = fixture.run.job.profile();
    unpinned["metadata"]["name"] = json!("unpinned");
    unpinned["data"]["pinned"] = json!(false);
    fixture.run.apply("unpinned", &[unpinned])?;
    fixture.run.cluster.run_on(
        "compute-1",
        0,
        &format!(
            "mkdir -p {root}/busy; ln -s /etc {root}/planted; mount -t tmpfs other {root}/busy"
        ),
    )?;
    let before = mounts_of(&fixture, "compute-1")?;
    for (what, change, words) in MOUNTS {
        let mut mount = good.clone();
        change(&mut mount, &root);
        let name = format!("bad-{}", what.replace(' ', "-"));
        mount["metadata"]["name"] = json!(name);
        fixture.run.apply("bad", &[mount])?;
        let error = wait_for_error(&fixture, "clientmount", &name, "compute-1")?;
        let message = error["userMessage"].as_str().unwrap_or_default();
        for word in words {
            ensure!(
                message.contains(word),
                "{what}: {word:?} is not in the user's message: {error}"
            );
        }
        let after = mounts_of(&fixture, "compute-1")?;
        ensure!(before == after, "{what}: mounts changed from\n{before}\nto\n{after}");
        fixture.run.warren(&["delete", "clientmount", &name, "-n", "compute-1"])?;
        ensure!(
            before == mounts_of(&fixture, "compute-1")?,
            "{what}: mounts changed when it was deleted"
        );
    }
    fixture.run.cluster.run_on("compute-1", 0, &format!("umount {root}/busy"))?;
    Ok(())
}

#[test]
fn the_refusal_of_a_mount_point_in_use_names_the_client_mount_that_uses_it() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "xfs")?;
    let first = prepare_storage(&mut fixture)?;
    fixture.run.apply("first", std::slice::from_ref(&first))?;
    fixture.run.wait_for_computes("mounted")?;
    let mut second = first;
    second["metadata"]["name"] = json!("second");
    fixture.run.apply("second", &[second])?;
    let error = wait_for_error(&fixture, "clientmount", "second", "compute-1")?;
    let message = error["userMessage"].as_str().unwrap_or_default();
    ensure!(message.contains(&fixture.run.job.computes_mount()), "{error}");
    // Deletes the refused ClientMount. The mount of the other ClientMount must stay.
    fixture.run.warren(&["delete", "clientmount", "second", "-n", "compute-1"])?;
    fixture.run.write()
}

const CAPACITIES: [(i64, &[&str]); 3] = [
    (0, &["capacity"]),
    (-5, &["capacity", "-5"]),
    (1 << 50, &["rabbit-1", "insufficient capacity available"]),
];

#[test]
fn a_capacity_that_no_rabbit_can_give_is_refused_and_allocates_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "xfs")?;
    let chassis = fixture.run.cluster.chassis().clone();
    for (capacity, words) in CAPACITIES {
        let mut storage = fixture.run.job.block_storage(&chassis, false);
        let name = format!("capacity{capacity}");
        storage["metadata"]["name"] = json!(name);
        storage["spec"]["allocations"][0]["capacity"] = json!(capacity);
        fixture.run.apply("capacity", &[storage])?;
        let error = wait_for_error(&fixture, "nnfnodeblockstorage", &name, "rabbit-1")?;
        let message = error["userMessage"].as_str().unwrap_or_default();
        ensure!(words.iter().all(|word| message.contains(word)), "{capacity}: {error}");
        ensure!(error["severity"] == "Fatal", "{capacity}: {error}");
        ensure!(fixture.namespaces()?.is_empty(), "{capacity}: {:?}", fixture.namespaces()?);
        fixture.run.warren(&["delete", "nnfnodeblockstorage", &name, "-n", "rabbit-1"])?;
    }
    Ok(())
}

/// Profiles whose command lines cannot work, each with words that the `userMessage` must contain.
const PROFILES: [(&str, &str, &[&str]); 3] = [
    ("mkfs", "'$DEVICE", &["mkfs", "quote"]),
    ("mkfs", "--no-such-option $DEVICE", &["mkfs", "no-such-option"]),
    ("mkfs", "-m uuid=7772726e-0000-8000-8000-000000000000 $DEVICE", &["mkfs", "uuid"]),
];

#[test]
fn a_profile_command_that_fails_is_reported_with_its_output() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for (field, line, words) in PROFILES {
        let mut fixture = Fixture::new(1, "xfs")?;
        let chassis = fixture.run.cluster.chassis().clone();
        let mut profile = fixture.run.job.profile();
        profile["data"]["xfsStorage"]["fileSystemCommands"]["rabbitCommands"][field] = json!(line);
        let objects = [
            profile,
            fixture.run.job.block_storage(&chassis, false),
            fixture.run.job.file_systems(&chassis),
        ];
        fixture.run.apply("storage", &objects)?;
        let error = wait_for_error(
            &fixture,
            "nnfnodestorage",
            &fixture.run.job.node_storage(),
            "rabbit-1",
        )?;
        let text = error.to_string();
        ensure!(words.iter().all(|word| text.contains(word)), "{line}: {error}");
        fixture.run.tear_down_storage()?;
        ensure!(fixture.namespaces()?.is_empty(), "{line}: {:?}", fixture.namespaces()?);
    }
    Ok(())
}

#[test]
fn a_foreign_file_system_on_the_device_is_left_alone() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "xfs")?;
    let chassis = fixture.run.cluster.chassis().clone();
    let run = &mut fixture.run;
    run.apply("allocation", &[run.job.profile(), run.job.block_storage(&chassis, false)])?;
    let device = until("the device", PATIENCE, || {
        let carved = run.block_storage()?;
        let paths = &carved["status"]["allocations"][0]["accesses"]["rabbit-1"]["devicePaths"];
        Ok(paths[0].as_str().context("no device yet")?.to_owned())
    })?;
    run.cluster.run_on(
        "rabbit-1",
        0,
        &format!("mkfs.ext4 -q {device}; blkid -p -o full {device}"),
    )?;
    let before = run.cluster.run_on("rabbit-1", 0, &format!("sha256sum {device}"))?;
    run.apply("file-system", &[run.job.file_systems(&chassis)])?;
    let error =
        wait_for_error(&fixture, "nnfnodestorage", &fixture.run.job.node_storage(), "rabbit-1")?;
    let message = error["userMessage"].as_str().unwrap_or_default();
    ensure!(message.contains("ext4"), "{error}");
    let after = fixture.run.cluster.run_on("rabbit-1", 0, &format!("sha256sum {device}"))?;
    ensure!(before == after, "the device changed");
    fixture.run.tear_down_storage()
}

/// The error names `spec.capacity`, and teardown removes all allocations.
#[test]
fn a_capacity_too_small_for_a_file_system_is_refused_and_torn_down() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for capacity in [1, 4096, 65_536] {
        let mut fixture = Fixture::new(1, "xfs")?;
        let run = &mut fixture.run;
        run.job.capacity = capacity;
        let chassis = run.cluster.chassis().clone();
        let block = run.job.block_storage(&chassis, false);
        run.apply("storage", &[run.job.profile(), block, run.job.file_systems(&chassis)])?;
        let node_storage = run.job.node_storage();
        let error = wait_for_error(&fixture, "nnfnodestorage", &node_storage, "rabbit-1")?;
        let message = error["userMessage"].as_str().unwrap_or_default();
        let words = format!("spec.capacity is {capacity} bytes");
        ensure!(message.contains(&words) && message.contains("ask for at least"), "{error}");
        ensure!(error["severity"] == "Fatal", "{error}");
        fixture.run.tear_down_storage()?;
        ensure!(fixture.namespaces()?.is_empty(), "{capacity}: {:?}", fixture.namespaces()?);
    }
    Ok(())
}
