//! The pods of MPI: each is like a pod of any run, with additional parts that start the ranks.

use api::nnf_container_profile::NnfMpiSpec;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, ExecAction, KeyToPath,
    PodDNSConfig, PodSpec, Probe, SecretVolumeSource, Volume, VolumeMount,
};

use super::{Attempt, LAUNCHER, WORKER, environment, host_suffix};
use crate::{
    names,
    nodes::{DIRECTORY, DISCOVER_HOSTS, HOSTFILE as HOSTFILE_NAME, WORKERS},
    objects::{TIMEOUT, start_deadline},
    pod::{self, KEYS as KEYS_VOLUME, MPI, TOOLS},
    run::{Rabbit, Run},
};

/// Path of the hostfile that mpirun reads.
pub const HOSTFILE: &str = "/etc/mpi/hostfile";
/// The remote shell that mpirun starts for each worker.
pub const AGENT: &str = "/nnf/bin/rsh";
/// Directory of the attempt's keys.
pub const KEYS: &str = "/nnf/keys";

/// Path of `podhelper`. `AGENT` is another name of the same program.
pub const PODHELPER: &str = "/nnf/bin/podhelper";
/// Directory of `AGENT` and `PODHELPER`.
const BIN: &str = "/nnf/bin";
/// Names of the init containers that Warren adds.
pub(crate) const OWN: [&str; 2] = ["nnf-install", "nnf-wait"];

/// Returns the pod of the worker on this rabbit. The pod does not have the run's ports: the launcher needs these ports
/// on the first rabbit, and Kubernetes would never schedule the second of two pods that want the same port of a node.
#[must_use]
pub fn worker(
    run: &Run<'_>,
    attempt: &Attempt,
    mpi: &NnfMpiSpec,
    index: usize,
    rabbit: &Rabbit,
) -> PodSpec {
    let mut pod = pod::without_ports(run, index, rabbit, &mpi.worker);
    let variables = environment::role_variables(WORKER);
    add_common(run, &mut pod, attempt, names::worker(run.service, index), &variables);
    if let Some(first) = pod.containers.first_mut() {
        let wait = [PODHELPER, "wait", "--worker=localhost", "--seconds=5"];
        first.command = Some([PODHELPER, "worker"].map(str::to_owned).into());
        // The pod is ready once the worker completes the TLS handshake with this attempt's keys.
        first.readiness_probe = Some(Probe {
            exec: Some(ExecAction { command: Some(wait.map(str::to_owned).into()) }),
            period_seconds: Some(5),
            timeout_seconds: Some(6),
            ..Probe::default()
        });
    }
    pod
}

/// Returns the pod of the launcher, which runs on this rabbit beside the rabbit's worker.
#[must_use]
pub fn launcher(run: &Run<'_>, attempt: &Attempt, mpi: &NnfMpiSpec, rabbit: &Rabbit) -> PodSpec {
    let mut pod = pod::with_ports(run, 0, rabbit, &mpi.launcher);
    let variables = environment::role_variables(LAUNCHER).into_iter();
    let variables: Vec<EnvVar> =
        variables.chain(environment::launcher_variables(run, mpi)).collect();
    add_common(run, &mut pod, attempt, names::launcher(run.service), &variables);
    // This container waits in each pod that the Job creates: before the launcher is tried again, a worker may have been
    // replaced.
    let wait = Container {
        name: OWN[1].to_owned(),
        command: Some(wait_command(run)),
        ..like_first(&pod, attempt)
    };
    pod.init_containers.get_or_insert_default().push(wait);
    pod
}

/// Returns the command that waits until the workers answer.
pub(crate) fn wait_command(run: &Run<'_>) -> Vec<String> {
    let workers = format!("--workers={DIRECTORY}/{WORKERS}");
    let seconds = format!("--seconds={}", answer_seconds(run));
    vec![PODHELPER.to_owned(), "wait".to_owned(), workers, seconds]
}

/// Returns the seconds within which every worker must answer: half of the start deadline. The other half is for pulling
/// images: so the pod can name the silent workers before the Job ends it.
fn answer_seconds(run: &Run<'_>) -> i64 {
    (start_deadline(run).unwrap_or(TIMEOUT) / 2).max(1)
}

/// Adds the parts that all MPI pods have.
fn add_common(
    run: &Run<'_>,
    pod: &mut PodSpec,
    attempt: &Attempt,
    hostname: String,
    variables: &[EnvVar],
) {
    pod.hostname = Some(hostname);
    // Ranks started by Hydra (MPICH's mpirun) call its host back by the name that `hostname` prints, which is short.
    pod.dns_config =
        Some(PodDNSConfig { searches: Some(vec![host_suffix(run)]), ..PodDNSConfig::default() });
    let config = pod.volumes.iter().flatten().find_map(|volume| volume.config_map.clone());
    let config = config.map(|config| config.name).unwrap_or_default();
    pod.volumes.get_or_insert_default().extend(volumes(attempt, config));
    let first = pod.init_containers.get_or_insert_default();
    for container in pod.containers.iter_mut().chain(first.iter_mut()) {
        // These variables come before the profile's own variables, so that the profile can override them.
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
    for mount in install.volume_mounts.iter_mut().flatten().filter(|mount| mount.name == TOOLS) {
        mount.read_only = None;
    }
    pod.init_containers.get_or_insert_default().insert(0, install);
}

/// Returns a container that runs `podhelper` as the same user as the pod's own containers, but without their storage.
fn like_first(pod: &PodSpec, attempt: &Attempt) -> Container {
    let first = pod.containers.first();
    let kept = [TOOLS, KEYS_VOLUME, pod::CONFIG];
    let mounts = first.and_then(|container| container.volume_mounts.clone()).unwrap_or_default();
    let is_config_file = |mount: &VolumeMount| mount.sub_path.is_some();
    let mounts = mounts
        .into_iter()
        .filter(|mount| kept.contains(&mount.name.as_str()) && !is_config_file(mount));
    let environment = environment::role_variables("wait");
    Container {
        image: attempt.image.clone(),
        env: Some(
            environment.into_iter().filter(|variable| variable.name == "NNF_MPI_KEYS").collect(),
        ),
        security_context: first.and_then(|container| container.security_context.clone()),
        volume_mounts: Some(mounts.collect()),
        // The end of the log becomes a part of the pod's status: the log names the workers that do not answer.
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
                // The pod's group, which is the job's group, can read the files.
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
