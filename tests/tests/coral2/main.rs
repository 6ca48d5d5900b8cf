//! Tests that flux-coral2's service can drive jobs with Warren's engine. `service.py` makes exactly the service's API
//! calls, with the Kubernetes client for Python.
//!
//! `golden.py` compares those calls with recordings of the service (`golden/`). `life.py` then drives jobs on real loop
//! devices and XFS, on the embedded API and, in `make kube`, on a real API server. From the recordings, the tests use:
//!
//! | file | part that the tests compare |
//! |---|---|
//! | `workflow_events` | all writes on an event of a Workflow, except a case that ends in an exception before any write |
//! | `rpc_and_timers` | every create and patch; not the answers to Flux, nor timers and exceptions |
//! | `systemstatus` | every patch of SystemStatus |
//! | `mount_and_server_queries` | which nodes and rabbits the service finds in ClientMounts and Servers |
//! | `storage_events` | every message to Flux about a Storage |
//! | `build_allocation_sets` | all writes of Servers; in `crates/directive`, and here by `service.py` |
//! | `parse_dw_directives`, `jobid_f58` | the Workflow's directives and job ID; in `crates/directive` |
//! | `hostlist` | everything; in `crates/directive`, for command lines and files |
//! | `prolog_epilog_traces` | no API objects; in `tests/tests/flux` |
//! | `apply_breakdowns` | nothing: the service writes Flux's jobspecs from DirectiveBreakdowns |
//! | `rabbitmapping`, `mapping_fixture_digest`, `dws2jgf`, `getrabbit` | everything; in `crates/flux`, for `warren flux` |
//! | `idset` | everything; in `crates/directive` |
//! | `jobspec_plugins` | nothing: Flux's own |
//!
//! The recordings leave out the service's reads:
//!
//! | call of the service | in these tests |
//! |---|---|
//! | at its start, lists of Storages, SystemStatuses, SystemConfigurations and NnfDataMovements, by version | made by every run of `life.py`; without one of them the service ends |
//! | the NnfDataMovements of a workflow, before Teardown | made, as with `save_datamovements` |
//! | the Secret with a workflow's token, after PreRun | not made: `status.workflowToken` of a Workflow names the Secret; Warren never sets this field, since it refuses `requires=user-container-auth` and `copy-offload` |
//! | the Pods of a workflow's containers and the log of the first, before Teardown | made without a pod on a real server, by `calls.py`: no server here has a kubelet, which alone has logs |

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, ensure};
use serde_json::{Value, json};
use tests::{api_server::ApiServer, gate, program::command, workflow::Flow};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";
const COMPUTES: &str = "compute-1,compute-2,compute-3";

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/coral2").join(name)
}

/// Runs a script, and decodes its output as JSON. With `-B`, Python writes no byte code beside the script.
fn python(python: &Path, file: &str, arguments: &[&str]) -> anyhow::Result<Value> {
    let mut argv = command(python);
    argv.arg("-B").arg(script(file)).args(arguments);
    let output = argv.output().context("start python")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{file} {arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).context("decode the output of python")
}

/// A job of Flux, and the stand-in for the service; the stand-in drives the job.
struct Job {
    flow: Flow,
    python: PathBuf,
    id: &'static str,
}

impl Job {
    fn new(python: PathBuf, computes: u8, id: &'static str) -> anyhow::Result<Self> {
        let job = Self { flow: Flow::new(computes, &format!("fluxjob-{id}"))?, python, id };
        Ok(job)
    }

    fn call(&self, word: &str, rest: &[&str]) -> anyhow::Result<Value> {
        let mut arguments = vec![word, self.id];
        arguments.extend(rest);
        self.life(&arguments)
    }

    /// Runs `life.py`, the stand-in for the service, with these arguments until it ends.
    fn life(&self, words: &[&str]) -> anyhow::Result<Value> {
        let kubeconfig = self.flow.fixture.run.cluster.kubeconfig().display().to_string();
        let mut arguments = vec![kubeconfig.as_str()];
        arguments.extend(words);
        python(&self.python, "life.py", &arguments)
    }

    fn submit(&self) -> anyhow::Result<()> {
        let submitted = self.call("submit", &["1050", XFS])?;
        ensure!(submitted["ready"] == true, "{submitted}");
        Ok(())
    }

    fn end(self) -> anyhow::Result<()> {
        self.flow.nothing_is_left()?;
        self.flow.end()
    }
}

#[test]
fn the_stand_in_makes_the_calls_that_were_recorded() -> anyhow::Result<()> {
    let Some(found) = gate::python_kubernetes() else { return Ok(()) };
    let golden = script("golden").display().to_string();
    python(&found, "golden.py", &[&golden]).map(drop)
}

#[test]
fn a_job_of_flux_lives_through_all_states_and_leaves_nothing() -> anyhow::Result<()> {
    let (Some(found), true) = (gate::python_kubernetes(), gate::loop_devices()) else {
        return Ok(());
    };
    let job = Job::new(found, 3, "501360523054545920")?;
    let versions = job.call("versions", &[])?;
    ensure!(versions == json!({"dws": "v1alpha7", "nnf": "v1alpha11"}), "{versions}");
    job.submit()?;
    let workflow = job.flow.workflow()?;
    ensure!(workflow["spec"]["jobID"] == "f2AVx5nQsoRy", "{workflow}");
    let storages = job.call("storages", &[])?;
    let rabbit = &storages["rabbit-1"];
    let computes = rabbit["computes"].as_array().context("computes")?;
    let is_usable = rabbit["up"] == true && rabbit["lost"] == json!([]);
    ensure!(computes.len() == 3 && is_usable, "{storages}");
    // Flux marks no compute as bad, and raises the rabbit's storage.
    let messages = json!([
        ["sched-fluxion-resource.remove_property", {"key": "badrabbit",
            "resource_path": ["/c/chassis0/compute-1", "/c/chassis0/compute-2", "/c/chassis0/compute-3"]}],
        ["sched-fluxion-resource.set_status", {"resource_path": "/c/chassis0/ssd0", "status": "up"}],
    ]);
    ensure!(rabbit["messages"] == messages, "{storages}");
    let directory = tempfile::tempdir()?;
    let mapping = directory.path().join("rabbitmapping").display().to_string();
    let warren = |words: &[&str]| job.flow.fixture.run.cluster.warren_prints(words);
    warren(&["flux", "rabbitmapping", "--output", &mapping])?;
    let started = job.call("start", &[COMPUTES])?;
    let path = started["variables"]["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
    for (compute, _) in &job.flow.fixture.run.cluster.chassis().computes {
        let script = format!("echo {compute} > {path}/hello; cat {path}/hello");
        ensure!(job.flow.run_on(compute, &script)?.trim() == compute, "{compute}");
    }
    let queries = job.call("queries", &[])?;
    let all = ["compute-1", "compute-2", "compute-3"];
    ensure!(queries["notMounted"] == json!([]), "{queries}");
    ensure!(queries["notUnmounted"] == json!(all), "{queries}");
    ensure!(queries["allocated"] == json!(["rabbit-1"]), "{queries}");
    ensure!(queries["notReady"] == json!([]), "{queries}");
    // The job's bytes are taken, and the mapping is still current: its capacities are those of the drives.
    let checked = warren(&["flux", "rabbitmapping", "--check", &mapping])?;
    ensure!(checked.trim() == format!("{mapping} is current"), "{checked}");
    let mapped: Value = serde_json::from_str(&fs::read_to_string(&mapping)?)?;
    let storage = job.flow.object("storage", "rabbit-1", "default")?;
    let drives = storage["status"]["devices"].as_array().context("devices")?;
    let bytes: i64 = drives.iter().filter_map(|drive| drive["capacity"].as_i64()).sum();
    ensure!(bytes > storage["status"]["capacity"].as_i64().context("capacity")?, "{storage}");
    let expected = json!({"rabbit-1": {"capacity": bytes, "hostlist": "compute-[1-3]"}});
    ensure!(mapped["rabbits"] == expected, "{mapped}");
    for (words, answer) in [
        (["-j", job.id], "rabbit-1"),
        (["-j", "f2AVx5nQsoRy"], "rabbit-1"),
        (["-c", "compute-2"], "rabbit-1"),
    ] {
        let found = warren(&["flux", "getrabbit", words[0], words[1]])?;
        ensure!(found.trim() == answer, "{words:?}: {found}");
    }
    let token = job.flow.workflow()?["status"]["workflowToken"].clone();
    ensure!(token.is_null(), "the service would read a Secret: {token}");
    let finished = job.call("finish", &[COMPUTES])?;
    ensure!(finished["movements"] == json!([]), "{finished}");
    job.end()
}

/// Runs `calls.py` with the oldest and the newest version of the Kubernetes client with which the service works, each on a
/// server of its own. `tests/tests/privilege/flux.rs` runs it on a real server, with the packaged rights.
#[test]
fn every_call_of_the_service_works_with_its_oldest_and_newest_client() -> anyhow::Result<()> {
    let Some(pythons) = gate::python_kubernetes_of_coral2() else { return Ok(()) };
    let run = |found: &Path| {
        let directory = tempfile::tempdir()?;
        let server = ApiServer::start(directory.path())?;
        server.install_crds(|_| {})?;
        let kubeconfig = server.kubeconfig().display().to_string();
        let answer = python(found, "calls.py", &[&kubeconfig, &kubeconfig])?;
        ensure!(answer["movements"] == json!([]), "{}: {answer}", found.display());
        answer["client"].as_str().map(str::to_owned).context("the client's version")
    };
    let versions = std::thread::scope(|scope| {
        let runs: Vec<_> = pythons.iter().map(|found| scope.spawn(|| run(found))).collect();
        let ends = runs.into_iter().map(|run| run.join().map_err(|_| anyhow!("a panic"))?);
        ends.collect::<anyhow::Result<Vec<String>>>()
    })?;
    let begins = |place: usize, text: &str| versions[place].starts_with(text);
    ensure!(begins(0, "26.") && begins(1, "32."), "{versions:?}");
    Ok(())
}

/// Two files of the site reach every compute, and the computes' results return, each in a directory of its own.
#[test]
fn a_job_of_flux_copies_its_data_in_and_its_results_out() -> anyhow::Result<()> {
    let (Some(found), true) = (gate::python_kubernetes(), gate::loop_devices()) else {
        return Ok(());
    };
    let job = Job::new(found, 3, "501360523054545920")?;
    let site = job.flow.fixture.run.cluster.global();
    fs::create_dir_all(site.join("input/deep"))?;
    fs::write(site.join("input/a"), "first")?;
    fs::write(site.join("input/deep/b"), "second")?;
    fs::create_dir(site.join("results"))?;
    chown(site.join("results"), Some(1050), Some(1050))?;
    let copy_in =
        format!("#DW copy_in source={}/input/ destination=$DW_JOB_scratch/", site.display());
    let copy_out =
        format!("#DW copy_out source=$DW_JOB_scratch/out/ destination={}/results/", site.display());
    let submitted = job.call("submit", &["1050", &format!("{XFS} {copy_in} {copy_out}")])?;
    ensure!(submitted["ready"] == true, "{submitted}");
    let started = job.call("start", &[COMPUTES])?;
    let path = started["variables"]["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
    let script = format!(
        "cat {path}/a {path}/deep/b && mkdir {path}/out && hostname > {path}/out/name && cp {path}/a {path}/out/"
    );
    for (compute, _) in &job.flow.fixture.run.cluster.chassis().computes {
        ensure!(job.flow.run_on(compute, &script)? == "firstsecond", "{compute}");
    }
    let finished = job.call("finish", &[COMPUTES])?;
    let movements = finished["movements"].as_array().context("movements")?;
    ensure!(movements.len() == 6, "{finished}");
    for movement in movements {
        ensure!(movement["status"]["status"] == "Success", "{movement}");
        let files = &movement["status"]["commandStatus"]["files"];
        ensure!(*files == 2, "{movement}");
    }
    for index in 0..3 {
        let result = site.join(format!("results/rabbit-1-{index}"));
        ensure!(fs::read(result.join("a"))? == b"first", "{}", result.display());
        ensure!(fs::metadata(result.join("name"))?.uid() == 1050, "{}", result.display());
    }
    job.end()
}

#[test]
fn jobs_that_are_cancelled_leave_nothing() -> anyhow::Result<()> {
    let (Some(found), true) = (gate::python_kubernetes(), gate::loop_devices()) else {
        return Ok(());
    };
    let job = Job::new(found, 3, "77")?;
    for state in ["Proposal", "Setup", "PreRun"] {
        job.submit()?;
        match state {
            "Setup" => drop(job.call("setup", &[COMPUTES])?),
            "PreRun" => drop(job.call("start", &[COMPUTES])?),
            _ => {}
        }
        job.call("cancel", &[COMPUTES]).context(state)?;
        job.flow.nothing_is_left().context(state)?;
    }
    job.end()
}

#[test]
fn the_user_gets_the_reason_why_a_directive_is_refused() -> anyhow::Result<()> {
    let (Some(found), true) = (gate::python_kubernetes(), gate::loop_devices()) else {
        return Ok(());
    };
    let job = Job::new(found, 1, "77")?;
    let refused =
        job.call("submit", &["1050", "#DW jobdw type=ext4 capacity=1GiB name=scratch"])?;
    ensure!(refused.to_string().contains("type=ext4"), "{refused}");
    // The embedded API itself refuses the Workflow; a real server refuses it because the webhook does.
    ensure!(refused["status"] == 403, "{refused}");
    job.end()
}

/// A compute is dead while the job starts. The job tolerates that. Later the same compute never unmounts.
#[test]
fn a_job_that_tolerates_a_dead_compute_is_forced_ready_and_aborted() -> anyhow::Result<()> {
    let (Some(found), true) = (gate::python_kubernetes(), gate::loop_devices()) else {
        return Ok(());
    };
    let mut job = Job::new(found, 3, "77")?;
    job.submit()?;
    job.flow.fixture.run.cluster.stop_one("compute-2")?;
    job.call("setup", &[COMPUTES])?;
    let state = job.call("advance", &[COMPUTES, "PreRun"])?;
    ensure!(state["ready"] == false, "{state}");
    let forced = job.call("force", &[COMPUTES])?;
    ensure!(forced["failed"] == json!(["compute-2"]), "{forced}");
    ensure!(forced["variables"]["DW_JOB_scratch"].is_string(), "{forced}");
    // The service asks immediately which computes have not unmounted. Live computes may still be unmounting. The
    // ClientMount of the dead compute is already gone, since no agent ever added its finalizer.
    let aborted = job.call("abort", &[COMPUTES])?;
    let still = aborted["nodes"].as_array().context("nodes")?;
    let is_a_compute = |node: &serde_json::Value| {
        node.as_str().is_some_and(|name| COMPUTES.split(',').any(|compute| compute == name))
    };
    ensure!(still.iter().all(is_a_compute), "{aborted}");
    let storage = job.flow.object("storage", "rabbit-1", "default")?;
    ensure!(storage["spec"]["state"] == "Disabled", "{storage}");
    ensure!(storage["metadata"]["annotations"]["disable_reason"].is_string(), "{storage}");
    // Creates an empty SystemStatus. In it the service then disables compute-2, so that teardown no longer waits for
    // that node.
    let empty = json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemStatus",
        "metadata": {"name": "default", "namespace": "default"}, "data": {"nodes": {}},
    });
    job.flow.fixture.run.apply("status", &[empty])?;
    let status = job.call("status", &[COMPUTES, "compute-1,compute-3"])?;
    ensure!(status["compute-2"] == "Disabled" && status["compute-1"] == "Enabled", "{status}");
    job.call("end", &[COMPUTES])?;
    job.flow.fixture.run.cluster.start_node("compute-2")?;
    job.end()
}
