//! Plans over the rabbit's socket, compared with what the agent does.

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};

use agent::{records::MountRecords, volumes::Volumes};
use api::{ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile};
use http::Method;
use proto::v1::{ObjectName, ObjectPlan, PlanRequest, StatusRequest, node_client::NodeClient};
use rabbit_agent::preview::dry_run::plans_after_start;
use serde_json::{Value, json};
use storage::{Desired, Host, Observed, fake::FakeHost};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, block_ready, block_storage, client_mount, mount_ready,
    node_reported, node_storage, profile, storage_ready,
};

async fn client(bench: &Bench) -> NodeClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", bench.socket().display())).unwrap();
    NodeClient::new(endpoint.connect().await.unwrap())
}

async fn request(bench: &Bench, request: PlanRequest) -> Result<Vec<ObjectPlan>, Status> {
    client(bench).await.plan(request).await.map(|answer| answer.into_inner().plans)
}

async fn plan(bench: &Bench, objects: &[Value]) -> Vec<ObjectPlan> {
    let objects = objects.iter().map(|object| object.to_string().into_bytes()).collect();
    request(bench, PlanRequest { objects, ..PlanRequest::default() }).await.unwrap()
}

async fn plan_for_all(bench: &Bench, delete: bool) -> Vec<ObjectPlan> {
    request(bench, PlanRequest { delete, ..PlanRequest::default() }).await.unwrap()
}

fn names(plans: &[ObjectPlan]) -> Vec<&str> {
    plans.iter().map(|plan| plan.kind.as_str()).collect()
}

/// Returns the steps of a plan without what they destroy.
fn bare_steps(plan: &ObjectPlan) -> Vec<String> {
    let bare = |step: &String| step.split(" (erases").next().unwrap().to_owned();
    plan.steps.iter().map(bare).collect()
}

/// Returns the texts of the steps that the agent took since the first `skipped`.
fn taken(bench: &Bench, skipped: usize) -> Vec<String> {
    bench.host.applied().iter().skip(skipped).map(ToString::to_string).collect()
}

/// Returns everything that a plan must not change: the drives, the steps taken, and the number of writes to objects
/// that the agent plans for.
fn state(bench: &Bench) -> (Observed, usize, usize) {
    let is_planned = |path: &str| {
        ["blockstorages", "nodestorages", "clientmounts"].iter().any(|kind| path.contains(kind))
    };
    let requests = bench.requests().into_iter();
    let writes = requests.filter(|(method, path)| *method != Method::GET && is_planned(path));
    let seen = bench.host.observe(&Desired::Inventory).unwrap();
    (seen, bench.host.applied().len(), writes.count())
}

#[tokio::test]
async fn a_plan_for_new_storage_has_the_steps_that_the_agent_then_takes() {
    let bench = Bench::new().await;
    bench.until::<NnfNode>("nnf-nlc", "reported", node_reported).await;
    let before = state(&bench);
    let block = block_storage(NAME, &[(1 << 20, &[RABBIT, "compute-03"])]);
    let storage = node_storage(NAME, 1);

    let plans = plan(&bench, &[storage.clone(), block.clone()]).await;
    assert_eq!(names(&plans), ["NnfNodeBlockStorage", "NnfNodeStorage"]);
    assert!(plans[0].steps[0].starts_with("create namespace of 1048576 bytes on "), "{plans:#?}");
    let attachments = ["compute-03 (endpoint 7)", "rabbit-1 (endpoint 0)"];
    let mut attached = plans[0].steps[1..].to_vec();
    attached.sort();
    assert_eq!(attached, attachments.map(|host| format!("attach the new namespace to {host}")));
    assert_eq!(plans[1].waiting, format!("waits for the devices of NnfNodeBlockStorage {NAME}"));
    assert!(plans[1].steps.is_empty());
    assert_eq!(state(&bench), before);
    assert!(bench.api::<NnfNodeBlockStorage>(RABBIT).get_opt(NAME).await.unwrap().is_none());

    bench.make::<NnfNodeBlockStorage>(RABBIT, block).await;
    bench.until(NAME, "ready", block_ready).await;
    let verb = |step: &String| step.split_whitespace().next().unwrap().to_owned();
    let planned: Vec<_> = plans[0].steps.iter().map(verb).collect();
    assert_eq!(taken(&bench, 0).iter().map(verb).collect::<Vec<_>>(), planned);

    let before = state(&bench);
    let plans = plan(&bench, std::slice::from_ref(&storage)).await;
    assert!(plans[0].steps.iter().any(|step| step.starts_with("make xfs ")), "{plans:#?}");
    assert_eq!(state(&bench), before);
    let skipped = bench.host.applied().len();
    bench.make::<NnfNodeStorage>(RABBIT, storage).await;
    bench.until(NAME, "ready", storage_ready).await;
    assert_eq!(taken(&bench, skipped), plans[0].steps);
}

#[tokio::test]
async fn a_plan_for_a_deletion_leaves_the_data_and_has_the_steps_that_the_agent_then_takes() {
    let bench = Bench::new().await;
    bench.file_systems(2).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01", "compute-02"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    let at_rest = plan_for_all(&bench, false).await;
    assert_eq!(names(&at_rest), ["NnfNodeBlockStorage", "NnfNodeStorage", "ClientMount"]);
    let is_idle = |plan: &ObjectPlan| {
        plan.steps.is_empty() && plan.waiting.is_empty() && plan.rejection.is_empty()
    };
    assert!(at_rest.iter().all(is_idle), "{at_rest:#?}");

    let before = state(&bench);
    let plans = plan_for_all(&bench, true).await;
    assert_eq!(names(&plans), ["ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage"]);
    assert_eq!(plans[1].waiting, format!("waits until ClientMount {MOUNT} is unmounted"));
    assert_eq!(plans[2].waiting, format!("waits until NnfNodeStorage {NAME} is gone"));
    let erased = plans[2].steps.iter().filter(|step| step.contains("(erases ")).count();
    assert_eq!(erased, 2, "{plans:#?}");
    assert!(plans[2].steps.iter().any(|step| step.contains("of user 1050")), "{plans:#?}");
    assert_eq!(state(&bench), before);
    let still = plan_for_all(&bench, false).await;
    assert!(still.iter().all(is_idle), "the file systems are still mounted: {still:#?}");

    let skipped = bench.host.applied().len();
    bench.delete::<ClientMount>(MOUNT).await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    bench.delete::<NnfNodeStorage>(NAME).await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
    bench.delete::<NnfNodeBlockStorage>(NAME).await;
    bench.until_gone::<NnfNodeBlockStorage>(NAME).await;
    let mut planned: Vec<_> = plans.iter().flat_map(bare_steps).collect();
    let mut taken = taken(&bench, skipped);
    // The removal of the last mount point may remove the tree's root before the step that removes the root.
    for steps in [&mut planned, &mut taken] {
        steps.retain(|step| !step.starts_with("remove directory"));
    }
    // Units of an object run side by side.
    planned.sort();
    taken.sort();
    assert_eq!(taken, planned);
    assert!(bench.host.is_clean());
}

#[tokio::test]
async fn a_dry_run_has_the_steps_of_the_first_passes_after_a_start() {
    let mut bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    bench.stop().await;
    let dry_run = async |bench: &Bench| {
        let host = Arc::<FakeHost>::clone(&bench.host);
        let records = MountRecords::peek(bench.directory.path()).unwrap();
        let plans = plans_after_start(bench.config(), bench.client.clone(), host, records).await;
        plans.into_iter().filter(|plan| !plan.steps.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(dry_run(&bench).await, []);

    bench.delete::<ClientMount>(MOUNT).await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("new", &[(1 << 20, &[RABBIT])])).await;
    let before = state(&bench);
    let plans = dry_run(&bench).await;
    assert_eq!(names(&plans), ["NnfNodeBlockStorage", "ClientMount"]);
    assert!(plans[0].steps[0].starts_with("create namespace"), "{plans:#?}");
    assert!(plans[1].steps.iter().any(|step| step.starts_with("unmount /mnt/nnf")), "{plans:#?}");
    assert_eq!(state(&bench), before);
    let new = bench.api::<NnfNodeBlockStorage>(RABBIT).get("new").await.unwrap();
    assert_eq!((new.metadata.finalizers, new.status), (None, None));
}

/// The planner plans a volume up to the first step whose result it must observe.
#[tokio::test]
async fn a_plan_for_a_logical_volume_says_that_more_steps_follow() {
    let mut bench = Bench::bare().await;
    bench.volumes = Volumes::Lvm;
    let mut on_volumes = profile();
    on_volumes["data"]["xfsStorage"]["blockDeviceCommands"]["rabbitCommands"] = json!({
        "pvCreate": "$DEVICE", "pvRemove": "$DEVICE",
        "vgCreate": "$VG_NAME $DEVICE_LIST", "vgRemove": "$VG_NAME",
        "lvCreate": "--zero n --activate n --extents $PERCENT_VG --name $LV_NAME $VG_NAME",
        "lvRemove": "$VG_NAME/$LV_NAME",
        "lvChange": {"activate": "--activate y $VG_NAME/$LV_NAME", "deactivate": "--activate n $VG_NAME/$LV_NAME"}
    });
    bench.make::<NnfStorageProfile>("default", on_volumes).await;
    bench.start();
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(1 << 20, &[RABBIT])])).await;
    bench.until(NAME, "ready", block_ready).await;
    let storage = node_storage(NAME, 1);
    let plans = plan(&bench, std::slice::from_ref(&storage)).await;
    let (more, planned) = plans[0].steps.split_last().unwrap();
    assert!(more.starts_with("more steps follow"), "{plans:#?}");
    let skipped = bench.host.applied().len();
    bench.make::<NnfNodeStorage>(RABBIT, storage).await;
    bench.until(NAME, "ready", storage_ready).await;
    let made = taken(&bench, skipped);
    assert_eq!(made[..planned.len()], *planned);
    assert!(made.len() > planned.len());

    let plans = plan_for_all(&bench, true).await;
    assert_eq!(plans[0].kind, "NnfNodeStorage");
    // The hooks before the tear-down need the volume, so the plan ends with the activation.
    let last = plans[0].steps.last().unwrap();
    assert!(last.ends_with(" and destroy the data of user 1050"), "{plans:#?}");
}

#[tokio::test]
async fn a_plan_reports_a_lack_of_room_without_steps() {
    let bench = Bench::new().await;
    let large = 700 << 20;
    let fits = block_storage(NAME, &[(large, &[RABBIT]), (large, &[RABBIT])]);
    let plans = plan(&bench, &[fits]).await;
    let created = |plans: &[ObjectPlan]| {
        plans[0].steps.iter().filter(|step| step.starts_with("create namespace")).count()
    };
    assert_eq!((created(&plans), plans[0].rejection.as_str()), (2, ""), "one on each drive");
    let third = block_storage(NAME, &[(large, &[RABBIT][..]); 3]);
    let plans = plan(&bench, &[third]).await;
    assert!(plans[0].rejection.contains("allocation 2"), "{plans:#?}");
    assert!(plans[0].steps.is_empty());
}

#[tokio::test]
async fn a_plan_for_containers_reads_podman_and_starts_nothing() {
    let mut bench = Bench::bare().await;
    let podman = bench.directory.path().join("podman");
    fs::write(&podman, "#!/bin/sh\necho \"$@\" >> \"$0.log\"\necho '[]'\n").unwrap();
    fs::set_permissions(&podman, fs::Permissions::from_mode(0o755)).unwrap();
    bench.podman = Some(podman.clone());
    bench.site().await;
    bench.start();
    bench.until::<NnfNode>("nnf-nlc", "reported", node_reported).await;
    let containers = json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": "run"},
        "spec": {"userID": 1050, "groupID": 1051, "hostname": RABBIT, "retryLimit": 0,
            "containers": [{"name": "main", "image": "image:1", "imagePullPolicy": "IfNotPresent", "command": ["true"]}]}
    });
    let plans = plan(&bench, &[containers]).await;
    let [plan] = &plans[..] else { panic!("{plans:#?}") };
    let verbs: Vec<_> =
        plan.steps.iter().map(|step| step.split(" warren-").next().unwrap()).collect();
    assert_eq!(verbs[..2], ["make pod", "make container"], "{plan:#?}");
    assert!(verbs[2].starts_with("more steps follow"), "{plan:#?}");
    let log = fs::read_to_string(podman.with_extension("log")).unwrap();
    assert!(log.lines().all(|line| line.starts_with("pod ps ")), "{log}");
}

#[tokio::test]
async fn requests_that_a_rabbit_does_not_serve_are_refused_with_a_remedy() {
    let bench = Bench::new().await;
    bench.until::<NnfNode>("nnf-nlc", "reported", node_reported).await;
    let mut agent = client(&bench).await;
    let status = agent.status(StatusRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("clientmount-agent"), "{status}");
    let names = vec![ObjectName { kind: "nnfnodestorage".into(), name: "none".into() }];
    let unknown =
        request(&bench, PlanRequest { names, ..PlanRequest::default() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("rabbit-1/none does not exist"), "{unknown}");
}
