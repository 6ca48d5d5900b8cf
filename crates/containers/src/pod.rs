//! Makes the pod of a run on one rabbit.

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

/// The volume with the run's files.
pub(crate) const CONFIG: &str = "nnf-config";
/// The volume with `podhelper`.
pub(crate) const TOOLS: &str = "nnf-bin";
/// The volume with the keys of an attempt.
pub(crate) const KEYS: &str = "nnf-keys";
/// The volume with the hostfile.
pub(crate) const MPI: &str = "nnf-mpi";
/// Prefix of the names of volumes with storages.
const STORAGE: &str = "storage-";
/// Prefix of the names of volumes with devices of raw storage.
const DEVICE: &str = "storage-device-";
/// Prefix of the names of volumes with job packages.
const PACKAGE: &str = "nnf-package-";
/// Directory in a container in which the container runtime makes the device nodes of raw storage.
pub(crate) const DEVICES: &str = "/dev/nnf";
/// The taint that keeps other pods off the rabbits.
const TAINT: &str = "cray.nnf.node";

/// Returns whether this name is reserved for Warren's own volumes.
#[must_use]
pub(crate) fn is_kept_name(name: &str) -> bool {
    [CONFIG, TOOLS, KEYS, MPI].contains(&name)
        || name.starts_with(STORAGE)
        || name.starts_with(PACKAGE)
}

/// Returns the pod on the rabbit with this index in the run, with the run's ports.
#[must_use]
pub(crate) fn with_ports(
    run: &Run<'_>,
    index: usize,
    rabbit: &Rabbit,
    spec: &NnfPodSpec,
) -> PodSpec {
    let mut pod = without_ports(run, index, rabbit, spec);
    for (place, container) in pod.containers.iter_mut().enumerate() {
        container.ports = non_empty(ports(environment::container_ports(run, place)));
    }
    pod
}

/// Returns the pod on the rabbit with this index in the run, without the run's ports.
#[must_use]
pub(crate) fn without_ports(
    run: &Run<'_>,
    index: usize,
    rabbit: &Rabbit,
    spec: &NnfPodSpec,
) -> PodSpec {
    let make = |one_of_pod: &NnfContainer| container(run, index, rabbit, one_of_pod);
    let first: Vec<Container> = spec.init_containers.iter().map(make).collect();
    PodSpec {
        // Kubernetes resolves a pod's host name only as a name beneath the Service's name.
        hostname: Some(rabbit.name.clone()),
        subdomain: Some(run.service.to_owned()),
        node_selector: Some([(HOSTNAME.to_owned(), rabbit.name.clone())].into()),
        tolerations: Some(vec![Toleration {
            key: Some(TAINT.to_owned()),
            operator: Some("Equal".to_owned()),
            value: Some("true".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        }]),
        // A failed container and its log stay, because the Job creates another pod.
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
        image_pull_secrets: non_empty(spec.image_pull_secrets.clone()),
        volumes: Some(volumes(run, rabbit, spec)),
        init_containers: non_empty(first),
        containers: spec.containers.iter().map(make).collect(),
        ..PodSpec::default()
    }
}

fn container(run: &Run<'_>, index: usize, rabbit: &Rabbit, container: &NnfContainer) -> Container {
    let mounts = container.volume_mounts.iter().cloned().chain(mounts(run));
    // Both the pod's status and the workflow's error get the last lines of the container's log.
    let policy = container.termination_message_policy.clone();
    let policy = policy.unwrap_or_else(|| "FallbackToLogsOnError".to_owned());
    Container {
        name: container.name.clone(),
        image: Some(container.image.clone()),
        image_pull_policy: container.image_pull_policy.clone(),
        command: non_empty(container.command.clone()),
        args: non_empty(container.args.clone()),
        working_dir: Some(container.working_dir.clone()).filter(|path| !path.is_empty()),
        env: Some(environment::container_variables(run, index, container)),
        env_from: non_empty(container.env_from.clone()),
        volume_mounts: Some(mounts.collect()),
        volume_devices: non_empty(devices(run, rabbit)),
        restart_policy: container.restart_policy.clone(),
        liveness_probe: container.liveness_probe.clone(),
        readiness_probe: container.readiness_probe.clone(),
        startup_probe: container.startup_probe.clone(),
        termination_message_path: Some(container.termination_message_path.clone())
            .filter(|path| !path.is_empty()),
        termination_message_policy: Some(policy),
        resources: container.resources.clone(),
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

/// Returns the container's ports. Each port has the same number in the container and on the rabbit.
fn ports(numbers: &[u16]) -> Vec<ContainerPort> {
    let port = |port: &u16| ContainerPort {
        container_port: i32::from(*port),
        host_port: Some(i32::from(*port)),
        ..ContainerPort::default()
    };
    numbers.iter().map(port).collect()
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

/// Returns the volumes of raw storage's devices on this rabbit. Each volume refers to a PersistentVolumeClaim.
fn device_volumes(run: &Run<'_>, rabbit: &Rabbit) -> impl Iterator<Item = Volume> {
    let devices = run.devices_on(&rabbit.name).iter().enumerate();
    devices.map(|(place, device)| claim_volume(format!("{DEVICE}{place}"), device.name.clone()))
}

/// Makes the kubelet allow the container to open the devices of raw storage (the kubelet enters them in the container's
/// control group). The container opens the devices beneath the path of their storage, where the rabbit's agent has made
/// the job's user their owner. It does not use the device nodes that the container runtime makes: the owner of these
/// nodes depends on the runtime's configuration.
fn devices(run: &Run<'_>, rabbit: &Rabbit) -> Vec<VolumeDevice> {
    let devices = 0..run.devices_on(&rabbit.name).len();
    let device = |place| VolumeDevice {
        name: format!("{DEVICE}{place}"),
        device_path: format!("{DEVICES}/{place}"),
    };
    devices.map(device).collect()
}

fn claim_volume(name: String, claim_name: String) -> Volume {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name,
        ..PersistentVolumeClaimVolumeSource::default()
    };
    Volume { name, persistent_volume_claim: Some(claim), ..Volume::default() }
}

fn volume(place: usize, storage: &StoragePath) -> Volume {
    let name = format!("{STORAGE}{place}");
    match &storage.source {
        StorageSource::Rabbit | StorageSource::Directory => {
            let type_ = Some("Directory".to_owned());
            let path = HostPathVolumeSource { path: storage.path.clone(), type_ };
            Volume { name, host_path: Some(path), ..Volume::default() }
        }
        StorageSource::Global { claim } => claim_volume(name, claim.clone()),
    }
}

/// Returns the volumes of the job packages, each with the path at which this rabbit has the job package.
fn packages(run: &Run<'_>, rabbit: &Rabbit) -> impl Iterator<Item = Volume> {
    let places = run.packages.get(&rabbit.name).into_iter().flatten();
    run.profile.packages.iter().enumerate().filter_map(move |(place, package)| {
        let path = places.clone().find(|place| place.name == package.name)?.path.clone();
        // With these types the kubelet does not create a missing path: an empty directory would be no job package.
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
        // If the agent mounts an allocation again, the mount appears in a running container too.
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

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
