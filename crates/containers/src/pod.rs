//! The pod of a run on one rabbit.

use api::nnf_container_profile::{NnfContainer, NnfPodSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, HostPathVolumeSource,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, SecurityContext, Toleration,
    Volume, VolumeDevice, VolumeMount,
};

use crate::{
    environment,
    nodes::{DIRECTORY, GROUP, PASSWD},
    outcome::HOSTNAME,
    package,
    run::{Rabbit, Run, StoragePath, StorageSource},
};

/// The volume with the files of the run.
pub(crate) const CONFIG: &str = "nnf-config";
/// The volume with `podhelper`.
pub(crate) const TOOLS: &str = "nnf-bin";
/// The volume with the keys of an attempt.
pub(crate) const KEYS: &str = "nnf-keys";
/// The volume with the hostfile.
pub(crate) const MPI: &str = "nnf-mpi";
/// What the names of the storages' volumes begin with.
const STORAGE: &str = "storage-";
/// Prefix of the names of volumes with devices of raw storage.
const DEVICE: &str = "storage-device-";
/// What the names of the packages' volumes begin with.
const PACKAGE: &str = "nnf-package-";
/// Directory in a container where its runtime makes device nodes of raw storage.
pub(crate) const DEVICES: &str = "/dev/nnf";
/// What keeps other pods away from rabbits.
const TAINT: &str = "cray.nnf.node";

/// Whether a volume's name is one of ours.
#[must_use]
pub(crate) fn is_kept_name(name: &str) -> bool {
    [CONFIG, TOOLS, KEYS, MPI].contains(&name)
        || name.starts_with(STORAGE)
        || name.starts_with(PACKAGE)
}

/// The pod on the rabbit at this place of the run whose containers have the run's ports there.
#[must_use]
pub(crate) fn with_ports(
    run: &Run<'_>,
    index: usize,
    rabbit: &Rabbit,
    spec: &NnfPodSpec,
) -> PodSpec {
    let mut pod = on(run, index, rabbit, spec);
    for (place, container) in pod.containers.iter_mut().enumerate() {
        container.ports = some(ports(environment::of_place(run, place)));
    }
    pod
}

/// The pod on the rabbit at this place of the run, without ports of its own there.
#[must_use]
pub(crate) fn on(run: &Run<'_>, index: usize, rabbit: &Rabbit, spec: &NnfPodSpec) -> PodSpec {
    let make = |one: &NnfContainer| container(run, index, rabbit, one);
    let first: Vec<Container> = spec.init_containers.iter().map(make).collect();
    PodSpec {
        // Names resolve only beneath the Service's.
        hostname: Some(rabbit.name.clone()),
        subdomain: Some(run.workflow.to_owned()),
        node_selector: Some([(HOSTNAME.to_owned(), rabbit.name.clone())].into()),
        tolerations: Some(vec![Toleration {
            key: Some(TAINT.to_owned()),
            operator: Some("Equal".to_owned()),
            value: Some("true".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        }]),
        // A container that failed stays, and its log with it: the Job makes another pod.
        restart_policy: Some("Never".to_owned()),
        security_context: Some(PodSecurityContext {
            fs_group: Some(run.group),
            ..PodSecurityContext::default()
        }),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        priority_class_name: spec.priority_class_name.clone(),
        share_process_namespace: spec.share_process_namespace,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        image_pull_secrets: some(spec.image_pull_secrets.clone()),
        volumes: Some(volumes(run, rabbit, spec)),
        init_containers: some(first),
        containers: spec.containers.iter().map(make).collect(),
        ..PodSpec::default()
    }
}

fn container(run: &Run<'_>, index: usize, rabbit: &Rabbit, of: &NnfContainer) -> Container {
    let mounts = of.volume_mounts.iter().cloned().chain(mounts(run));
    // The last lines of a log come with the pod's status, and so into the error of the workflow.
    let policy = of.termination_message_policy.clone();
    let policy = policy.unwrap_or_else(|| "FallbackToLogsOnError".to_owned());
    Container {
        name: of.name.clone(),
        image: Some(of.image.clone()),
        image_pull_policy: of.image_pull_policy.clone(),
        command: some(of.command.clone()),
        args: some(of.args.clone()),
        working_dir: Some(of.working_dir.clone()).filter(|path| !path.is_empty()),
        env: Some(environment::of_container(run, index, of)),
        env_from: some(of.env_from.clone()),
        volume_mounts: Some(mounts.collect()),
        volume_devices: some(devices(run, rabbit)),
        restart_policy: of.restart_policy.clone(),
        liveness_probe: of.liveness_probe.clone(),
        readiness_probe: of.readiness_probe.clone(),
        startup_probe: of.startup_probe.clone(),
        termination_message_path: Some(of.termination_message_path.clone())
            .filter(|path| !path.is_empty()),
        termination_message_policy: Some(policy),
        resources: of.resources.clone(),
        security_context: Some(SecurityContext {
            run_as_user: Some(run.user),
            run_as_group: Some(run.group),
            run_as_non_root: Some(true),
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// A container listens on the number that its rabbit has open for it.
fn ports(of: &[u16]) -> Vec<ContainerPort> {
    let port = |port: &u16| ContainerPort {
        container_port: i32::from(*port),
        host_port: Some(i32::from(*port)),
        ..ContainerPort::default()
    };
    of.iter().map(port).collect()
}

fn volumes(run: &Run<'_>, rabbit: &Rabbit, spec: &NnfPodSpec) -> Vec<Volume> {
    let config = Volume {
        name: CONFIG.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: run.name.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let storages = run.mounts().enumerate().map(|(place, storage)| volume(place, storage));
    let storages = storages.chain(device_volumes(run, rabbit));
    let packages = packages(run, rabbit);
    spec.volumes.iter().cloned().chain([config]).chain(storages).chain(packages).collect()
}

/// Returns the volumes of raw storage's devices on this rabbit, by their claims.
fn device_volumes(run: &Run<'_>, rabbit: &Rabbit) -> impl Iterator<Item = Volume> {
    let devices = run.devices_on(&rabbit.name).iter().enumerate();
    devices.map(|(place, device)| claimed(format!("{DEVICE}{place}"), device.name.clone()))
}

/// Lets a container open the devices of raw storage: the kubelet enters them in its control group. The container opens them beneath
/// the path of their storage, where the rabbit's agent gave them to the job's user. The owner of the nodes that the runtime makes
/// depends on its configuration.
fn devices(run: &Run<'_>, rabbit: &Rabbit) -> Vec<VolumeDevice> {
    let devices = 0..run.devices_on(&rabbit.name).len();
    let device = |place| VolumeDevice {
        name: format!("{DEVICE}{place}"),
        device_path: format!("{DEVICES}/{place}"),
    };
    devices.map(device).collect()
}

fn claimed(name: String, claim_name: String) -> Volume {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name,
        ..PersistentVolumeClaimVolumeSource::default()
    };
    Volume { name, persistent_volume_claim: Some(claim), ..Volume::default() }
}

fn volume(place: usize, storage: &StoragePath) -> Volume {
    let name = format!("{STORAGE}{place}");
    match &storage.source {
        StorageSource::Rabbit => {
            let type_ = Some("Directory".to_owned());
            let path = HostPathVolumeSource { path: storage.path.clone(), type_ };
            Volume { name, host_path: Some(path), ..Volume::default() }
        }
        StorageSource::Global { claim } => claimed(name, claim.clone()),
    }
}

/// The packages of the run where its rabbit has them.
fn packages(run: &Run<'_>, rabbit: &Rabbit) -> impl Iterator<Item = Volume> {
    let places = run.packages.get(&rabbit.name).into_iter().flatten();
    run.profile.packages.iter().enumerate().filter_map(move |(place, package)| {
        let path = places.clone().find(|one| one.name == package.name)?.path.clone();
        // Never made by the kubelet: an empty directory is no package.
        let type_ = Some(if package.unpack { "Directory" } else { "File" }.to_owned());
        Some(Volume {
            name: format!("{PACKAGE}{place}"),
            host_path: Some(HostPathVolumeSource { path, type_ }),
            ..Volume::default()
        })
    })
}

fn mounts(run: &Run<'_>) -> impl Iterator<Item = VolumeMount> {
    let file = |name: &str| VolumeMount {
        name: CONFIG.to_owned(),
        mount_path: format!("/etc/{name}"),
        sub_path: Some(name.to_owned()),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let config = VolumeMount {
        name: CONFIG.to_owned(),
        mount_path: DIRECTORY.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let storages = run.mounts().enumerate().map(|(place, storage)| VolumeMount {
        name: format!("{STORAGE}{place}"),
        mount_path: storage.path.clone(),
        // An allocation that is mounted anew appears in a container that runs.
        mount_propagation: (storage.source == StorageSource::Rabbit)
            .then(|| "HostToContainer".to_owned()),
        ..VolumeMount::default()
    });
    let packages = run.profile.packages.iter().enumerate().map(|(place, package)| VolumeMount {
        name: format!("{PACKAGE}{place}"),
        mount_path: format!("{}/{}", package::DIRECTORY, package.name),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    [config, file(PASSWD), file(GROUP)].into_iter().chain(storages).chain(packages)
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
