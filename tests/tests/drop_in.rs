//! clientmount-agent as a drop-in replacement of the sites' Go daemon clientmountd: its flags and files, its rights,
//! its contract with the DWS and NNF controllers, and a switch to Warren and back with file systems mounted. The tests
//! run on the embedded API and, in `make kube`, on a real API server.

use std::{collections::BTreeSet, io::Write};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{cluster::PATIENCE, direct::Direct, gate, program::until};

const FINALIZER: &str = "nnf.cray.hpe.com/nnf_clientmount";

fn unchanged_crd(_: &mut Value) {}

fn has_finalizer(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER))
}

fn error_of(object: &Value) -> &str {
    object["status"]["error"]["userMessage"].as_str().unwrap_or_default()
}

fn desire(fixture: &Direct, mount: &Value, state: &str) -> anyhow::Result<()> {
    fixture.server.patch(mount, &json!({"spec": {"desiredState": state}}), false)
}

/// Adds fields to the CRD of ClientMount that Warren does not know, as a newer release of DWS would.
fn newer_crd(crd: &mut Value) {
    if crd["spec"]["names"]["kind"] != "ClientMount" {
        return;
    }
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            properties[part]["properties"]["later"] = json!({"type": "string"});
        }
        let mount = &mut properties["spec"]["properties"]["mounts"]["items"]["properties"];
        mount["later"] = json!({"type": "string"});
        let entry = &mut properties["status"]["properties"]["mounts"]["items"]["properties"];
        entry["later"] = json!({"type": "string"});
    }
}

#[test]
fn a_mount_needs_no_coordinator_and_keeps_fields_of_newer_releases() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(newer_crd)?;
    let mut mount = fixture.carve()?;
    mount["spec"]["later"] = json!("spec");
    mount["spec"]["mounts"][0]["later"] = json!("mount");
    mount["metadata"]["annotations"] = json!({"example.org/later": "annotation"});
    mount["metadata"]["finalizers"] = json!(["example.org/another"]);
    fixture.server.create(&mount)?;
    fixture.server.patch(
        &mount,
        &json!({"status": {
            "later": "status", "allReady": false,
            "mounts": [{"state": "unmounted", "ready": false, "later": "entry"}],
        }}),
        true,
    )?;
    fixture.start_agent()?;
    let mounted = fixture.until_state(&mount, "mounted")?;
    ensure!(has_finalizer(&mounted), "{mounted}");
    let path = fixture.job.mount_path();
    writeln!(fixture.open_on_node(&format!("{path}/hello"))?, "written")?;
    let there = fixture.mount_at(&path)?.context("the storage is not mounted")?;

    // Patches the status to a wrong value, so that a correct status proves that the restarted agent wrote it.
    let start_again = |fixture: &Direct| {
        fixture.agent()?.kill()?;
        fixture.server.patch(&mount, &json!({"status": {"allReady": false}}), true)?;
        fixture.until_state(&mount, "mounted")
    };
    start_again(&fixture)?;
    ensure!(
        fixture.mount_at(&path)?.as_ref() == Some(&there),
        "the restarted agent replaced the mount"
    );
    fixture.agent()?.kill()?;
    desire(&fixture, &mount, "unmounted")?;
    fixture.until_state(&mount, "unmounted")?;
    ensure!(fixture.mount_at(&path)?.is_none());
    desire(&fixture, &mount, "mounted")?;
    fixture.until_state(&mount, "mounted")?;
    let again = fixture.mount_at(&path)?.context("the storage is not mounted again")?;
    let hello = fixture.read_on_node(&format!("{path}/hello"))?;
    ensure!(hello == "written\n", "another file system is mounted: hello holds {hello:?}");

    let kept = start_again(&fixture)?;
    ensure!(
        fixture.mount_at(&path)?.as_ref() == Some(&again),
        "the restarted agent replaced the mount"
    );
    ensure!(kept["spec"] == mounted["spec"], "spec changed: {kept}");
    for (pointer, value) in [
        ("/spec/later", "spec"),
        ("/spec/mounts/0/later", "mount"),
        ("/status/later", "status"),
        ("/status/mounts/0/later", "entry"),
        ("/metadata/annotations/example.org~1later", "annotation"),
        ("/metadata/finalizers/0", "example.org/another"),
    ] {
        ensure!(kept.pointer(pointer) == Some(&json!(value)), "{pointer} of {kept}");
    }
    desire(&fixture, &mount, "unmounted")?;
    fixture.until_state(&mount, "unmounted")?;
    fixture.server.delete(&mount)?;
    fixture.until_object(&mount, "without our finalizer", |object| {
        object["metadata"]["finalizers"] == json!(["example.org/another"])
    })?;
    fixture.server.patch(&mount, &json!({"metadata": {"finalizers": null}}), false)?;
    fixture.until_gone(&mount)?;
    fixture.tear_down()?;
    fixture.end()
}

/// The server's audit log shows that a mount waits for the API twice: first for the finalizer and the profile, which
/// the agent requests at the same time, and then for the status of the ClientMount.
#[test]
fn a_mount_sends_three_requests_to_the_api() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::real_server() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    fixture.start_agent()?;
    let mount = fixture.carve()?;
    let before = until("the compute's watch", PATIENCE, || {
        let requests = fixture.server.requests_of_computes()?;
        ensure!(requests.iter().any(|event| event.verb == "watch" && event.code == 200));
        Ok(requests.len())
    })?;
    fixture.server.create(&mount)?;
    fixture.until_state(&mount, "mounted")?;
    let requests = until("the status in the audit log", PATIENCE, || {
        let requests = fixture.server.requests_of_computes()?.split_off(before);
        let requests: Vec<_> =
            requests.iter().map(|event| format!("{} {}", event.verb, event.resource)).collect();
        ensure!(
            requests.iter().any(|request| request == "patch clientmounts/status"),
            "so far {requests:?}"
        );
        Ok(requests)
    })?;
    let (last, first) = requests.split_last().context("nothing")?;
    let first: BTreeSet<_> = first.iter().map(String::as_str).collect();
    let beside = BTreeSet::from(["get nnfstorageprofiles", "patch clientmounts"]);
    ensure!(last == "patch clientmounts/status" && first == beside, "{requests:?}");
    ensure!(requests.len() == 3, "{requests:?}");
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    fixture.tear_down()?;
    fixture.end()
}

/// DWS fails the workflow if a ClientMount has no finalizer 300 s after its creation, so the agent adds the finalizer
/// even to a faulty ClientMount.
#[test]
fn a_faulty_mount_gets_the_finalizer_and_a_mount_of_another_node_does_not() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    fixture.start_agent()?;
    let carved = json!({"status": {"allocations": [{"devices": [{"NQN": "nqn.2026-01.org.example:none", "namespaceId": "1"}]}]}});
    let object = |name: &str| {
        let mut object = fixture.job.compute_mount(&fixture.chassis, 0, &carved);
        object["metadata"]["name"] = json!(name);
        object
    };
    let mut elsewhere = object("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("compute-2");
    let mut foreign = object("foreign");
    foreign["spec"]["node"] = json!("compute-2");
    let mut nonsense = object("nonsense");
    nonsense["metadata"]["labels"] = json!({});
    nonsense["spec"]["mounts"][0]["mountPath"] = json!("not/absolute");
    let early = object("early");
    for object in [&elsewhere, &foreign, &nonsense, &early] {
        fixture.server.create(object)?;
    }
    let reported =
        fixture.until_object(&nonsense, "refused", |object| !error_of(object).is_empty())?;
    ensure!(
        has_finalizer(&reported) && error_of(&reported).contains("pinned_storage_profile"),
        "{reported}"
    );
    let reported =
        fixture.until_object(&early, "waiting", |object| !error_of(object).is_empty())?;
    ensure!(
        has_finalizer(&reported) && error_of(&reported).contains("NnfStorageProfile"),
        "{reported}"
    );
    let reported =
        fixture.until_object(&foreign, "refused", |object| !error_of(object).is_empty())?;
    ensure!(
        !has_finalizer(&reported) && error_of(&reported).contains("spec.node is \"compute-2\""),
        "{reported}"
    );
    ensure!(
        reported["status"]["mounts"] == json!([{"state": "mounted", "ready": false}]),
        "{reported}"
    );

    fixture.server.create(&fixture.job.profile())?;
    let found = fixture.until_object(&early, "taken up", |object| {
        !error_of(object).is_empty() && !error_of(object).contains("NnfStorageProfile")
    })?;
    ensure!(
        error_of(&found).contains("no device") || error_of(&found).contains("not visible"),
        "{found}"
    );

    let untouched =
        fixture.server.get(&elsewhere)?.context("the ClientMount of another node is gone")?;
    ensure!(!has_finalizer(&untouched) && untouched["metadata"]["generation"] == 1, "{untouched}");
    ensure!(untouched["status"].get("mounts").is_none(), "{untouched}");
    for object in [&early, &nonsense, &foreign] {
        fixture.server.delete(object)?;
        fixture.until_gone(object)?;
    }
    fixture.end()
}

#[test]
fn a_wrong_status_of_another_daemon_is_corrected() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    let mount = fixture.carve()?;
    fixture.server.create(&mount)?;
    for stale in [
        json!({"mounts": [{"state": "unmounted", "ready": true}], "allReady": true, "error": null}),
        json!({"mounts": [{"state": "mounted", "ready": true}, {"state": "mounted", "ready": true}], "allReady": true}),
        json!({
            "mounts": [{"state": "mounted", "ready": false}], "allReady": false,
            "error": {"debugMessage": "of yesterday", "type": "Internal", "severity": "Fatal"},
        }),
    ] {
        fixture.server.patch(&mount, &json!({"status": stale}), true)?;
        fixture.start_agent()?;
        fixture.until_state(&mount, "mounted")?;
        ensure!(fixture.mount_at(&fixture.job.mount_path())?.is_some());
        fixture.stop_agent()?;
    }
    // Does what a site's controllers do when a node does not answer for a long time: they remove the finalizer, and the
    // API deletes the ClientMount.
    let path = fixture.job.mount_path();
    fixture.server.patch(&mount, &json!({"metadata": {"finalizers": null}}), false)?;
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    ensure!(fixture.mount_at(&path)?.is_some(), "the storage was unmounted while no agent ran");
    fixture.start_agent()?;
    until("the mount without an object to be unmounted", PATIENCE, || {
        ensure!(fixture.mount_at(&path)?.is_none());
        Ok(())
    })?;
    // Now removes the finalizer while the agent runs. The agent must add it again.
    fixture.server.create(&mount)?;
    fixture.until_state(&mount, "mounted")?;
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    fixture.server.create(&mount)?;
    fixture.until_state(&mount, "mounted")?;
    fixture.server.patch(&mount, &json!({"metadata": {"finalizers": null}}), false)?;
    fixture.until_object(&mount, "with the finalizer again", has_finalizer)?;
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    ensure!(fixture.mount_at(&path)?.is_none());
    fixture.tear_down()?;
    fixture.end()
}

#[test]
fn an_absent_api_and_a_revoked_token_leave_mounts_as_they_are() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    let mount = fixture.carve()?;
    fixture.server.create(&mount)?;
    fixture.start_agent()?;
    fixture.until_state(&mount, "mounted")?;
    let path = fixture.job.mount_path();
    let there = fixture.mount_at(&path)?;

    fixture.server.stop()?;
    fixture.until_logged("the API does not answer")?;
    ensure!(fixture.mount_at(&path)? == there);
    fixture.server.resume()?;
    // The agent logs one of these messages. A server that has just started may first not know the kind or the
    // credentials; the agent then logs the end of that fault, not of the outage.
    until("the watch to be open again", PATIENCE, || {
        let log = fixture.agent_log()?;
        let words = ["the API answers", "ClientMount is watched", "this program's credentials"];
        let is_over = |line: &str| words.iter().any(|word| line.contains(&format!("{word} again")));
        ensure!(log.lines().any(is_over), "so far:\n{log}");
        Ok(())
    })?;

    let pid = fixture.agent()?.pid()?;
    fixture.server.revoke()?;
    desire(&fixture, &mount, "unmounted")?;
    if !fixture.server.is_real() {
        // A real server keeps a watch open after the revocation of the watch's token, so the agent sees and logs no
        // refusal.
        fixture.until_logged("is not signed by")?;
    }
    ensure!(fixture.server.is_real() || fixture.mount_at(&path)? == there);
    fixture.renew_credentials()?;
    fixture.until_state(&mount, "unmounted")?;
    desire(&fixture, &mount, "mounted")?;
    fixture.until_state(&mount, "mounted")?;
    ensure!(fixture.agent()?.pid()? == pid, "the agent was started again");
    let log = fixture.agent_log()?;
    let repeated = log.lines().filter(|line| line.contains("is not signed by")).count();
    ensure!(
        repeated <= 2,
        "the refusal may be logged once for the watch and once for writes, but:\n{log}"
    );
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    // Restarts the rabbit's agent: the server may now refuse its token, and an agent reads the new token when it
    // starts.
    fixture.rabbit()?.kill()?;
    fixture.tear_down()?;
    fixture.end()
}

#[test]
fn the_agent_names_a_missing_crd_and_waits_for_the_crd() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::without_crds()?;
    fixture.start_agent()?;
    fixture.until_logged("install the CRD clientmounts.dataworkflowservices.github.io")?;
    let pid = fixture.agent()?.pid()?;
    fixture.server.install_crds(unchanged_crd)?;
    let mount = fixture.job.compute_mount(&fixture.chassis, 0, &json!({}));
    fixture.server.create(&mount)?;
    fixture.until_object(&mount, "taken up", has_finalizer)?;
    ensure!(fixture.agent()?.pid()? == pid, "the agent was started again");
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    fixture.end()
}

/// This test runs only on a real server: the embedded API has no roles, and its token has all rights.
#[test]
fn the_agent_names_a_missing_right_and_waits_for_the_right() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::real_server() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    let rules = |rules: Value| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "nnf-clientmount-role"},
        });
        (role, json!({"rules": rules}))
    };
    let group = "dataworkflowservices.github.io";
    let mounts = json!({"apiGroups": [group], "resources": ["clientmounts"], "verbs": ["get", "list", "watch", "update", "patch"]});
    let status = json!({"apiGroups": [group], "resources": ["clientmounts/status"], "verbs": ["get", "update", "patch"]});
    let profiles = json!({"apiGroups": ["nnf.cray.hpe.com"], "resources": ["nnfstorageprofiles"], "verbs": ["get"]});
    let grant = |fixture: &Direct, granted: Value| {
        let (role, change) = rules(granted);
        fixture.server.patch(&role, &change, false)
    };
    grant(&fixture, json!([]))?;
    let mount = fixture.job.compute_mount(&fixture.chassis, 0, &json!({}));
    fixture.server.create(&mount)?;
    fixture.start_agent()?;
    fixture.until_logged(
        "grant get, list and watch on clientmounts.dataworkflowservices.github.io to it",
    )?;
    grant(&fixture, json!([mounts, status]))?;
    let reported =
        fixture.until_object(&mount, "with an error", |object| !error_of(object).is_empty())?;
    ensure!(
        has_finalizer(&reported)
            && error_of(&reported).contains("grant this agent get on nnfstorageprofiles"),
        "{reported}"
    );
    fixture.server.create(&fixture.job.profile())?;
    grant(&fixture, json!([mounts, status, profiles]))?;
    fixture.until_object(&mount, "the profile to be read", |object| {
        !error_of(object).is_empty() && !error_of(object).contains("NnfStorageProfile")
    })?;
    fixture.server.delete(&mount)?;
    fixture.until_gone(&mount)?;
    fixture.end()
}

/// The daemon that runs on the compute.
#[derive(Clone, Copy)]
enum Daemon {
    Ours,
    Theirs,
}

impl Daemon {
    fn start(self, fixture: &mut Direct) -> anyhow::Result<()> {
        match self {
            Self::Ours => fixture.start_agent(),
            Self::Theirs => fixture.start_stand_in(),
        }
    }

    fn stop(self, fixture: &mut Direct) -> anyhow::Result<()> {
        match self {
            Self::Ours => fixture.stop_agent(),
            Self::Theirs => fixture.stop_stand_in(),
        }
    }
}

/// Switches from the Go daemon to Warren and back, and from Warren to the Go daemon and back, with a file
/// open on the mount.
#[test]
fn a_node_is_switched_and_switched_back_with_its_file_system_mounted() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(unchanged_crd)?;
    let mount = fixture.carve()?;
    for (first, second) in [(Daemon::Theirs, Daemon::Ours), (Daemon::Ours, Daemon::Theirs)] {
        switch_and_switch_back(&mut fixture, &mount, first, second)?;
    }
    fixture.tear_down()?;
    fixture.end()
}

fn switch_and_switch_back(
    fixture: &mut Direct,
    mount: &Value,
    first: Daemon,
    second: Daemon,
) -> anyhow::Result<()> {
    let path = fixture.job.mount_path();
    fixture.server.create(mount)?;
    first.start(fixture)?;
    fixture.until_state(mount, "mounted")?;
    let there = fixture.mount_at(&path)?.context("the storage is not mounted")?;
    let mut open = fixture.open_on_node(&format!("{path}/open"))?;
    for (leaving, coming) in [(first, second), (second, first)] {
        leaving.stop(fixture)?;
        ensure!(
            fixture.mount_at(&path)?.as_ref() == Some(&there),
            "the daemon that stopped unmounted the file system"
        );
        // Patches the status to a wrong value while no daemon runs, so that a correct status proves that the new daemon
        // has checked the mount.
        fixture.server.patch(mount, &json!({"status": {"allReady": false}}), true)?;
        coming.start(fixture)?;
        fixture.until_state(mount, "mounted")?;
        ensure!(
            fixture.mount_at(&path)?.as_ref() == Some(&there),
            "the new daemon mounted the file system again"
        );
        writeln!(open, "still open")?;
    }
    drop(open);
    desire(fixture, mount, "unmounted")?;
    fixture.until_state(mount, "unmounted")?;
    ensure!(fixture.mount_at(&path)?.is_none());
    fixture.server.delete(mount)?;
    fixture.until_gone(mount)?;
    first.stop(fixture)
}
