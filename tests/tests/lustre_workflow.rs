//! Tests of workflows with Lustre, with the coordinator's engine, the agents of rabbit and computes, real loop
//! devices, and stand-ins for the programs of ZFS and Lustre (`tests::lustre_tools`). The tests prove that each
//! program runs the right commands at the right time, and that nothing is left. They do not prove that a kernel with
//! Lustre accepts the commands.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    lustre_tools::NID,
    program::until,
    workflow::{AFTER_PROPOSAL, Flow},
};

const JOB: &str = "#DW jobdw type=lustre capacity=1GB name=lus";
const COMPUTES: [&str; 2] = ["compute-1", "compute-2"];

fn start(name: &str) -> anyhow::Result<Flow> {
    let flow = Flow::on(Fixture::with_lustre(2)?, name)?;
    until("the rabbit's LNet address", PATIENCE, || {
        let node = flow.object("nnfnode", "nnf-nlc", "rabbit-1")?;
        ensure!(node["status"]["lnetNid"] == NID, "not yet: {}", node["status"]["lnetNid"]);
        Ok(())
    })?;
    Ok(flow)
}

/// Returns source and path of each Lustre mount on a node.
fn lustre_mounts(flow: &Flow, node: &str) -> anyhow::Result<Vec<(String, String)>> {
    let table = flow.run_on(node, "cat /proc/self/mounts")?;
    let words = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let ours = words.filter(|words| words[0].starts_with(&format!("{NID}:/")));
    Ok(ours.map(|words| (words[0].to_owned(), words[1].to_owned())).collect())
}

/// Checks that the computes and the rabbit have mounted this file system at this path, and no other Lustre file system.
fn ensure_mounted_everywhere(flow: &Flow, name: &str, path: &Value) -> anyhow::Result<()> {
    let wanted = (format!("{NID}:/{name}"), path.as_str().context("a path")?.to_owned());
    for node in COMPUTES.into_iter().chain(["rabbit-1"]) {
        let found = lustre_mounts(flow, node)?;
        ensure!(found == [wanted.clone()], "{node} has {found:?}, not {wanted:?}");
    }
    Ok(())
}

/// Returns the file system name (fsname) that a management target gave to this storage.
fn fs_name_of(flow: &Flow, mgt: &str, storage: &str) -> anyhow::Result<String> {
    let mgt = flow.object("nnflustremgt", mgt, "rabbit-1")?;
    let holders = mgt["status"]["claimList"].as_array().context("claimList")?;
    let holder = holders.iter().find(|holder| holder["reference"]["name"] == storage);
    let name = holder.and_then(|holder| holder["fsname"].as_str());
    name.map(str::to_owned).with_context(|| format!("no fsname for {storage} in {mgt:#}"))
}

/// Checks that the log has these command lines in this order; other command lines may lie between them. An entry of
/// `wanted` has some words of a command line, in their order in the line.
fn ensure_order(log: &[String], wanted: &[&[&str]]) -> anyhow::Result<()> {
    let mut rest = log.iter();
    for words in wanted {
        let matches = |line: &&String| {
            let mut left = line.as_str();
            words.iter().all(|word| match left.split_once(word) {
                Some((_, after)) => {
                    left = after;
                    true
                }
                None => false,
            })
        };
        rest.find(matches).with_context(|| format!("no {words:?} in its place in {log:#?}"))?;
    }
    Ok(())
}

fn nothing_of_lustre_is_left(flow: &Flow) -> anyhow::Result<()> {
    flow.nothing_is_left()?;
    for node in COMPUTES.into_iter().chain(["rabbit-1"]) {
        let left = lustre_mounts(flow, node)?;
        ensure!(left.is_empty(), "{node} has {left:?}");
    }
    let log = flow.fixture.lustre_log()?;
    let count = |start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    ensure!(count("zpool create") == count("zpool destroy"), "a pool is left: {log:#?}");
    Ok(())
}

#[test]
fn a_lustre_workflow_runs_from_proposal_to_teardown_and_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = start("life")?;
    flow.create(&[JOB])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    let mut name = String::new();
    for state in AFTER_PROPOSAL {
        let workflow = flow.reach(state)?;
        if state == "PreRun" {
            let env = &workflow["status"]["env"];
            ensure!(env["DW_JOB_lus"] == env["DW_JOB_LUSTRE"], "{env:#}");
            name = fs_name_of(&flow, "life-0", "life-0")?;
            ensure_mounted_everywhere(&flow, &name, &env["DW_JOB_lus"])?;
            // Checks that the agent on the rabbit has made the job's user the owner of the root directory exactly once.
            // (The stand-in's mounts share no data, so the owner cannot be checked on a compute.)
            let log = flow.fixture.lustre_log()?;
            let owner = log.iter().filter(|line| line.ends_with("-owner")).count();
            ensure!(owner == 1, "the owner was set {owner} times: {log:#?}");
        }
    }
    flow.delete()?;
    nothing_of_lustre_is_left(&flow)?;
    let client = format!("mount -t lustre {NID}:/{name}");
    let made_as = format!("--fsname={name} --index=0");
    ensure_order(
        &flow.fixture.lustre_log()?,
        &[
            &["zpool create", "-mgtmdt-0"],
            &["mkfs.lustre --mgs --mdt", "--param=mdt.identity_upcall=NONE", &made_as],
            &["mount -t lustre", "-mgtmdt-0/mgtmdt "],
            &["zpool create", "-ost-0"],
            &["mkfs.lustre --ost", "--mgsnode=10.0.0.1@tcp", &made_as],
            &["mount -t lustre", "-ost-0/ost "],
            &[&client, "-owner"],
            &[&client],
            &["zpool destroy", "-ost-0"],
            &[&format!("lctl erase_lcfg {name}")],
            &["zpool destroy", "-mgtmdt-0"],
        ],
    )?;
    flow.end()
}

#[test]
fn a_lustre_workflow_succeeds_if_the_coordinator_is_killed_in_each_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = start("killed")?;
    flow.live_with_kills(&[JOB])?;
    nothing_of_lustre_is_left(&flow)?;
    let log = flow.fixture.lustre_log()?;
    let formatted = log.iter().filter(|line| line.starts_with("mkfs.lustre")).count();
    ensure!(formatted == 2, "{formatted} targets were formatted, expected 2: {log:#?}");
    flow.end()
}

/// Adds a storage profile: a copy of the default one with these `mgtOptions` and a small metadata target.
fn profile(flow: &mut Flow, name: &str, mgt: &Value) -> anyhow::Result<()> {
    let mut profile = flow.object("nnfstorageprofile", "default", "nnf-system")?;
    profile["metadata"] = json!({"name": name, "namespace": "nnf-system"});
    profile["data"]["default"] = json!(false);
    let lustre = &mut profile["data"]["lustreStorage"];
    lustre["combinedMgtMdt"] = json!(false);
    // The metadata target must fit on the disk of a small machine.
    lustre["mdtOptions"]["capacity"] = json!("1GiB");
    let options = lustre["mgtOptions"].as_object_mut().context("mgtOptions")?;
    options.extend(mgt.as_object().context("options")?.clone());
    flow.fixture.run.apply(name, &[profile])
}

/// Runs a job with this directive, checks that both computes have mounted the same file system at this path, and
/// returns the file system's fsname.
fn fsname_seen_by_job(flow: &Flow, line: &str, path: &str) -> anyhow::Result<String> {
    let cluster = &flow.fixture.run.cluster;
    let mut run = cluster.warren()?;
    run.args(["run", line, "--nodes", "compute-[1-2]", "--launcher", &cluster.launcher()?]);
    run.args(["--user", "1050", "--group", "1050"]);
    let script = format!("sed -n \"s,^\\([^ ]*\\) {path} .*,\\1,p\" /proc/self/mounts");
    run.args(["--", "sh", "-ec", &script]);
    let output = run.output().context("warren run")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let start = format!("{NID}:/");
    let names: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    ensure!(matches!(names[..], [first, second] if first == second), "{stdout}");
    Ok(names[0].to_owned())
}

/// Creates a management target and a persistent file system on it, runs a job that uses the persistent file system and
/// a job with its own file system on the same target, and then destroys both persistent storages.
#[test]
fn a_persistent_lustre_file_system_on_a_pool_target_outlives_jobs() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = start("unused")?;
    let line = json!(["lctl conf_param $FS_NAME.sys.timeout=200"]);
    profile(&mut flow, "target", &json!({"standaloneMgtPoolName": "pool", "capacity": "1GiB"}))?;
    profile(&mut flow, "pooled", &json!({"externalMgs": "pool:pool", "preMountCommands": line}))?;
    let user = ["--user", "1050", "--group", "1050"];
    let persistent = |flow: &Flow, words: &[&str]| {
        flow.fixture.run.prints(&[&["persistent"], words, &user].concat())
    };
    persistent(&flow, &["create", "mgt1", "--type", "lustre", "--profile", "target"])?;
    let lustre = ["--type", "lustre", "--capacity", "1GB", "--profile", "pooled"];
    persistent(&flow, &[&["create", "kept"][..], &lustre].concat())?;
    let listed = flow.fixture.run.prints(&["persistent", "list"])?;
    ensure!(listed.contains("kept") && listed.matches("Active").count() == 2, "{listed}");
    let refused = persistent(&flow, &["destroy", "mgt1"]).expect_err("a file system uses mgt1");
    ensure!(format!("{refused:#}").contains("mgt1 is used by kept"), "{refused:#}");
    // Runs the two jobs one after the other: two file systems at the same time would need 16 GB of disk.
    let kept = fs_name_of(&flow, "mgt1", "kept")?;
    let line = "#DW persistentdw name=kept";
    ensure!(
        fsname_seen_by_job(&flow, line, "$DW_PERSISTENT_kept")? == kept,
        "the job mounted another file system than {kept}"
    );
    persistent(&flow, &["destroy", "kept"])?;
    let own = "#DW jobdw type=lustre capacity=1GB name=lus profile=pooled";
    let job = fsname_seen_by_job(&flow, own, "$DW_JOB_lus")?;
    ensure!(job != kept, "the fsname {job} was given again at once");
    persistent(&flow, &["destroy", "mgt1"])?;
    nothing_of_lustre_is_left(&flow)?;
    ensure_order(
        &flow.fixture.lustre_log()?,
        &[
            &["mkfs.lustre --mgs --backfstype"],
            &["mkfs.lustre --mdt", &format!("--fsname={kept}")],
            &["mkfs.lustre --ost", &format!("--fsname={kept}")],
            &[&format!("lctl erase_lcfg {kept}")],
            &["mkfs.lustre --ost", &format!("--fsname={job}")],
            &[&format!("lctl erase_lcfg {job}")],
            &["zpool destroy", "-mgt-0"],
        ],
    )?;
    flow.end()
}
