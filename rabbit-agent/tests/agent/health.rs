use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, mpsc::sync_channel},
    thread,
    time::Duration,
};

use agent::volumes::Volumes;
use api::{
    NnfNode, NnfNodeBlockStorage,
    names::NNF_NODE,
    nnf_node::{NnfResourceHealth, NnfResourceStatus},
};
use proto::v1::health::State;
use rabbit_agent::health::HealthState;
use storage::{
    Desired, Host as _,
    health::{Facts, Link, Memory, Probe},
};

use crate::bench::{Bench, NAME, PATIENCE, RABBIT, block_ready, block_storage, node_reported};

const UP: Link = Link::Up { current: None, most: None };

/// A node with the links and memory that a test sets.
#[derive(Debug, Default)]
struct FakeProbe {
    links: Mutex<BTreeMap<u8, Link>>,
    facts: Mutex<Facts>,
}

impl Probe for FakeProbe {
    fn links(&self) -> BTreeMap<u8, Link> {
        self.links.lock().unwrap().clone()
    }

    fn facts(&self) -> Facts {
        self.facts.lock().unwrap().clone()
    }
}

async fn bench_with_probe() -> (Bench, Arc<FakeProbe>, HealthState) {
    configured_bench(|_| ()).await
}

async fn configured_bench(set: impl FnOnce(&mut Bench)) -> (Bench, Arc<FakeProbe>, HealthState) {
    let probe = Arc::new(FakeProbe::default());
    probe.links.lock().unwrap().insert(6, UP);
    let mut bench = Bench::bare().await;
    let state = HealthState::new(probe.clone(), None, 0);
    bench.status = rabbit_agent::core::status::AgentStatus::new(state.clone());
    set(&mut bench);
    bench.site().await;
    bench.start();
    (bench, probe, state)
}

/// Returns status and health of `Compute 6`.
fn sixth(node: &NnfNode) -> Option<(NnfResourceStatus, NnfResourceHealth)> {
    let server = &node.status.as_ref()?.servers.get(7)?;
    server.status.clone().zip(server.health.clone())
}

const OFFLINE: Option<(NnfResourceStatus, NnfResourceHealth)> =
    Some((NnfResourceStatus::Offline, NnfResourceHealth::Critical));
const READY: Option<(NnfResourceStatus, NnfResourceHealth)> =
    Some((NnfResourceStatus::Ready, NnfResourceHealth::Ok));

#[tokio::test]
async fn a_compute_whose_link_is_lost_is_offline_and_comes_back_by_itself() {
    let (bench, probe, state) = bench_with_probe().await;
    let mut health = state.listen();
    bench
        .until(NNF_NODE, "ready", |node: &NnfNode| node_reported(node) && sixth(node) == READY)
        .await;
    probe.links.lock().unwrap().insert(6, Link::Down);
    state.request_check();
    let node = bench.until(NNF_NODE, "offline", |node: &NnfNode| sixth(node) == OFFLINE).await;
    assert_eq!(
        node.status.unwrap().status,
        Some(NnfResourceStatus::Ready),
        "the rabbit still serves the other computes"
    );
    let reported = health
        .wait_for(|newest| newest.message.contains("compute-03 (index 6)"))
        .await
        .unwrap()
        .clone();
    assert_eq!(reported.state(), State::Warning);
    assert_eq!(reported.capacity_total, 2 << 30);

    probe.links.lock().unwrap().insert(6, UP);
    state.request_check();
    // The status changes once the link has been up for a while, without another request of the test.
    bench.until(NNF_NODE, "ready again", |node: &NnfNode| sixth(node) == READY).await;
    health.wait_for(|newest| newest.state() == State::Ok).await.unwrap();
}

#[tokio::test]
async fn a_podman_that_fails_is_reported_in_the_health() {
    let place = tempfile::tempdir().unwrap();
    let (program, broken) = (place.path().join("podman"), place.path().join("broken"));
    // The output of a podman without containers, and the error of a podman whose database is of another version.
    let text = format!(
        "#!/bin/sh\n[ -e {} ] || {{ echo '[]'; exit 0; }}\necho database graph driver mismatch >&2; exit 125\n",
        broken.display()
    );
    tests::program::plant(&program, &text).unwrap();
    let (bench, _, state) = configured_bench(|bench| bench.podman = Some(program)).await;
    let mut health = state.listen();
    bench.until(NNF_NODE, "ready", node_reported).await;
    health.wait_for(|newest| newest.state() == State::Ok).await.unwrap();
    std::fs::write(&broken, "").unwrap();
    state.request_check();
    let warning = health.wait_for(|newest| newest.state() == State::Warning).await.unwrap().clone();
    for part in ["database graph driver mismatch", "no container starts here"] {
        assert!(warning.message.contains(part), "{}", warning.message);
    }
    std::fs::remove_file(&broken).unwrap();
    state.request_check();
    health.wait_for(|newest| newest.state() == State::Ok).await.unwrap();
}

/// A drive that hangs blocks the check of the drives, but the NnfNode still shows changes of links.
#[tokio::test]
async fn links_are_reported_while_a_drive_hangs() {
    let (bench, probe, state) = bench_with_probe().await;
    bench
        .until(NNF_NODE, "ready", |node: &NnfNode| node_reported(node) && sixth(node) == READY)
        .await;
    // The agent reports links separately from drives only if its copy of the NnfNode has a status. Once the agent has
    // written a second status, its copy has the first.
    bench.trouble.lock().unwrap().fault = true;
    state.request_check();
    bench
        .until(NNF_NODE, "reported", |node: &NnfNode| first_drive_ready(node) == Some(false))
        .await;
    let observations = Arc::clone(&bench.observations);
    let (held, holds) = sync_channel(0);
    let (release, released) = sync_channel::<()>(0);
    let drives = thread::spawn(move || {
        // Every observation of the drives takes this lock first, so it hangs. The check of the links does not take it.
        let _hung = observations.lock().unwrap();
        held.send(()).unwrap();
        released.recv().unwrap();
    });
    holds.recv().unwrap();
    probe.links.lock().unwrap().insert(6, Link::Down);
    state.request_check();
    bench.until(NNF_NODE, "offline", |node: &NnfNode| sixth(node) == OFFLINE).await;
    probe.links.lock().unwrap().insert(6, UP);
    state.request_check();
    release.send(()).unwrap();
    drives.join().unwrap();
    bench.until(NNF_NODE, "ready again", |node: &NnfNode| sixth(node) == READY).await;
}

/// When a drive disappears or appears, the agent checks everything that was made on drives: a RAID may need repair.
#[tokio::test]
async fn file_systems_are_checked_when_a_drive_disappears_or_appears() {
    let (bench, _, state) = bench_with_probe().await;
    bench.file_systems(1).await;
    let drive = |ready: bool| move |node: &NnfNode| first_drive_ready(node) == Some(ready);
    bench.until(NNF_NODE, "well", drive(true)).await;
    for fault in [true, false] {
        bench.observations.lock().unwrap().clear();
        bench.trouble.lock().unwrap().fault = fault;
        state.request_check();
        bench.until(NNF_NODE, "reported", drive(!fault)).await;
        until_file_systems_are_checked(&bench).await;
    }
}

/// A drive may fail after the check of its file system and before the agent's first inventory. The agent then sees no
/// change of the set of drives. So the first device event or requested check counts as a change of the set.
#[tokio::test]
async fn file_systems_are_checked_after_the_first_requested_check() {
    let (bench, _, state) = bench_with_probe().await;
    bench.file_systems(1).await;
    bench.until(NNF_NODE, "reported", node_reported).await;
    bench.observations.lock().unwrap().clear();
    state.request_check();
    until_file_systems_are_checked(&bench).await;
}

fn first_drive_ready(node: &NnfNode) -> Option<bool> {
    let drive = node.status.as_ref()?.drives.first()?;
    Some(drive.status == Some(NnfResourceStatus::Ready))
}

async fn until_file_systems_are_checked(bench: &Bench) {
    let has_checked = || {
        let observations = bench.observations.lock().unwrap();
        observations.iter().any(|desired| matches!(desired, Desired::FileSystemReady(_)))
    };
    let checking = async {
        while !has_checked() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, checking).await.expect("a check of a file system");
}

/// An administrator deleted the object's namespaces by hand; no event announces the deletion.
#[tokio::test]
async fn a_lost_namespace_is_reported_by_the_node_and_its_object() {
    let (bench, _, state) = bench_with_probe().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    bench.host.erase_drives();
    let mut health = state.listen();
    let warned = health.wait_for(|newest| newest.message.contains("1 namespaces are on no drive"));
    let looking = async {
        loop {
            // The namespace counts as lost only after two checks have missed it.
            state.request_check();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let warned = async {
        tokio::select! { reported = warned => reported.unwrap().clone(), () = looking => unreachable!() }
    };
    let reported = tokio::time::timeout(PATIENCE, warned).await.expect("a warning");
    assert!(reported.message.contains(&format!("of NnfNodeBlockStorage {NAME}")), "{reported:?}");
    let failed = |block: &NnfNodeBlockStorage| {
        block.status.as_ref().is_some_and(|status| status.error.is_some())
    };
    bench.until(NAME, "reported", failed).await;
}

#[tokio::test]
async fn a_rabbit_short_of_memory_warns_and_still_serves() {
    let (bench, probe, state) = bench_with_probe().await;
    bench.until(NNF_NODE, "reported", node_reported).await;
    probe.facts.lock().unwrap().memory = Some(Memory { total: 1 << 34, available: 1 << 24 });
    state.request_check();
    let node = bench
        .until(NNF_NODE, "warning", |node: &NnfNode| {
            node.status
                .as_ref()
                .is_some_and(|status| status.health == Some(NnfResourceHealth::Warning))
        })
        .await;
    let status = node.status.unwrap();
    assert_eq!(status.servers[0].health, Some(NnfResourceHealth::Warning));
    assert_eq!(
        (status.status, status.servers[0].status.clone()),
        (Some(NnfResourceStatus::Ready), Some(NnfResourceStatus::Ready))
    );
}

/// The agent removes lock spaces of deleted volume groups. Lock spaces of existing objects stay, and so do
/// those with other names.
#[tokio::test]
async fn a_start_removes_the_lock_spaces_of_deleted_groups() {
    let probe = Arc::new(FakeProbe::default());
    let mut bench = Bench::bare().await;
    bench.status = rabbit_agent::core::status::AgentStatus::new(HealthState::new(probe, None, 0));
    let gone = "00000000-5d7f-4c1b-9f6e-0c0e7d0f8a11_0";
    bench.volumes = Volumes::Lvm;
    bench.host.plant_lock_space(gone);
    bench.host.plant_lock_space("global");
    bench.site().await;
    bench.start();
    bench.until(NNF_NODE, "reported", node_reported).await;
    let left = bench.host.observe(&Desired::OnlyVolumes(BTreeSet::new())).unwrap().lock_spaces;
    assert_eq!(left, ["global"]);
}

/// If LNet reports no address for a while, the node keeps the address that it reported before.
#[tokio::test]
async fn the_first_lnet_address_is_reported() {
    let (bench, probe, state) = bench_with_probe().await;
    probe.facts.lock().unwrap().nids = vec!["172.31.241.10@kfi".into(), "10.0.0.1@tcp".into()];
    state.request_check();
    let is = |nid: &'static str| {
        move |node: &NnfNode| node.status.as_ref().is_some_and(|status| status.lnet_nid == nid)
    };
    bench.until(NNF_NODE, "reported", is("172.31.241.10@kfi")).await;
    {
        let mut facts = probe.facts.lock().unwrap();
        (facts.nids, facts.memory) =
            (Vec::new(), Some(Memory { total: 1 << 34, available: 1 << 24 }));
    }
    state.request_check();
    let node = bench
        .until(NNF_NODE, "warning", |node: &NnfNode| {
            node.status
                .as_ref()
                .is_some_and(|status| status.health == Some(NnfResourceHealth::Warning))
        })
        .await;
    assert!(is("172.31.241.10@kfi")(&node), "{node:?}");
}
