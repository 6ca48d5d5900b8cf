//! The pods of MPI: those of any run, and what starts ranks in them.

use api::nnf_container_profile::NnfMpiSpec;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, ExecAction, KeyToPath,
    PodDNSConfig, PodSpec, Probe, SecretVolumeSource, Volume, VolumeMount,
};

use super::{Attempt, LAUNCHER, WORKER, beneath, environment};
use crate::{
    names,
    nodes::{DIRECTORY, DISCOVER_HOSTS, HOSTFILE as HOSTFILE_NAME, WORKERS},
    objects::{TIMEOUT, start_deadline},
    pod::{self, KEYS as KEYS_VOLUME, MPI, TOOLS},
    run::{Rabbit, Run},
};

/// Where mpirun finds the hosts.
pub const HOSTFILE: &str = "/etc/mpi/hostfile";
/// What mpirun calls for each worker.
pub const AGENT: &str = "/nnf/bin/rsh";
/// Where the keys of the attempt are.
pub const KEYS: &str = "/nnf/keys";

/// The same program, under its own name.
pub const PODHELPER: &str = "/nnf/bin/podhelper";
/// Directory of both.
const BIN: &str = "/nnf/bin";
/// The containers of ours.
pub(crate) const OWN: [&str; 2] = ["nnf-install", "nnf-wait"];

/// The pod of the worker on this rabbit. The run's ports there are the launcher's: of two pods that want the same port of one
/// rabbit, the second is never scheduled.
#[must_use]
pub fn worker(
    run: &Run<'_>,
    attempt: &Attempt,
    mpi: &NnfMpiSpec,
    index: usize,
    rabbit: &Rabbit,
) -> PodSpec {
    let mut pod = pod::on(run, index, rabbit, &mpi.worker);
    let variables = environment::of_role(WORKER);
    prepared(run, &mut pod, attempt, names::worker(run.workflow, index), &variables);
    if let Some(first) = pod.containers.first_mut() {
        let wait = [PODHELPER, "wait", "--worker=localhost", "--seconds=5"];
        first.command = Some([PODHELPER, "worker"].map(str::to_owned).into());
        // Ready is who answers with the keys of this attempt.
        first.readiness_probe = Some(Probe {
            exec: Some(ExecAction { command: Some(wait.map(str::to_owned).into()) }),
            period_seconds: Some(5),
            timeout_seconds: Some(6),
            ..Probe::default()
        });
    }
    pod
}

/// The pod of the launcher, beside the worker of this rabbit.
#[must_use]
pub fn launcher(run: &Run<'_>, attempt: &Attempt, mpi: &NnfMpiSpec, rabbit: &Rabbit) -> PodSpec {
    let mut pod = pod::with_ports(run, 0, rabbit, &mpi.launcher);
    let variables = environment::of_role(LAUNCHER).into_iter();
    let variables: Vec<EnvVar> = variables.chain(environment::of_launcher(run, mpi)).collect();
    prepared(run, &mut pod, attempt, names::launcher(run.workflow), &variables);
    // In each pod that the Job makes: a worker may have been replaced before the launcher is tried again.
    let wait = Container {
        name: OWN[1].to_owned(),
        command: Some(waiting(run)),
        ..like_first(&pod, attempt)
    };
    pod.init_containers.get_or_insert_default().push(wait);
    pod
}

/// The command that waits for the workers.
pub(crate) fn waiting(run: &Run<'_>) -> Vec<String> {
    let workers = format!("--workers={DIRECTORY}/{WORKERS}");
    let seconds = format!("--seconds={}", patience(run));
    vec![PODHELPER.to_owned(), "wait".to_owned(), workers, seconds]
}

/// Seconds in which every worker must answer: the other half of the start's deadline is for images, so that the pod tells which
/// do not before the Job ends it.
fn patience(run: &Run<'_>) -> i64 {
    (start_deadline(run).unwrap_or(TIMEOUT) / 2).max(1)
}

/// Adds what all pods of MPI have.
fn prepared(
    run: &Run<'_>,
    pod: &mut PodSpec,
    attempt: &Attempt,
    hostname: String,
    variables: &[EnvVar],
) {
    pod.hostname = Some(hostname);
    // Hydra has ranks call its host back by the name that `hostname` says, which is short.
    pod.dns_config =
        Some(PodDNSConfig { searches: Some(vec![beneath(run)]), ..PodDNSConfig::default() });
    let config = pod.volumes.iter().flatten().find_map(|volume| volume.config_map.clone());
    let config = config.map(|config| config.name).unwrap_or_default();
    pod.volumes.get_or_insert_default().extend(volumes(attempt, config));
    let first = pod.init_containers.get_or_insert_default();
    for container in pod.containers.iter_mut().chain(first.iter_mut()) {
        // Before the profile's own, which may say otherwise.
        let own = container.env.take().unwrap_or_default();
        container.env = Some(variables.iter().cloned().chain(own).collect());
        container.volume_mounts.get_or_insert_default().extend(mounts());
    }
    let install = Container {
        name: OWN[0].to_owned(),
        command: Some(["/podhelper", "install", BIN].map(str::to_owned).into()),
        ..like_first(pod, attempt)
    };
    let mut install = install;
    for mount in install.volume_mounts.iter_mut().flatten().filter(|one| one.name == TOOLS) {
        mount.read_only = None;
    }
    pod.init_containers.get_or_insert_default().insert(0, install);
}

/// A container of ours: `podhelper`, as the user that the pod's own containers run as, and without their storage.
fn like_first(pod: &PodSpec, attempt: &Attempt) -> Container {
    let first = pod.containers.first();
    let kept = [TOOLS, KEYS_VOLUME, pod::CONFIG];
    let mounts = first.and_then(|one| one.volume_mounts.clone()).unwrap_or_default();
    let is_config_file = |mount: &VolumeMount| mount.sub_path.is_some();
    let mounts = mounts
        .into_iter()
        .filter(|mount| kept.contains(&mount.name.as_str()) && !is_config_file(mount));
    let environment = environment::of_role("wait");
    Container {
        image: attempt.image.clone(),
        env: Some(environment.into_iter().filter(|one| one.name == "NNF_MPI_KEYS").collect()),
        security_context: first.and_then(|one| one.security_context.clone()),
        volume_mounts: Some(mounts.collect()),
        // Which workers do not answer comes with the pod's status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn volumes(attempt: &Attempt, config: String) -> [Volume; 3] {
    let item = |name: &str, mode: i32| KeyToPath {
        key: name.to_owned(),
        path: name.to_owned(),
        mode: Some(mode),
    };
    [
        Volume {
            name: TOOLS.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        Volume {
            name: KEYS_VOLUME.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(attempt.keys.clone()),
                // The pod's group reads them, which is the job's.
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: MPI.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: config,
                items: Some(vec![item(HOSTFILE_NAME, 0o444), item(DISCOVER_HOSTS, 0o555)]),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

fn mounts() -> [VolumeMount; 3] {
    [(TOOLS, BIN), (KEYS_VOLUME, KEYS), (MPI, "/etc/mpi")].map(|(name, path)| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}
