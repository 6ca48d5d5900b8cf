//! Flags of the workflow engine.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use containers::claim::Holder;
use workflow::{Containers, Settings};

use super::limits::{self, LimitsFileError};

/// Time after which a node's agent counts as silent where one coordinator serves all nodes.
const SILENT_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
#[command(next_help_heading = "Workflows")]
pub(super) struct WorkflowArgs {
    /// Drive Workflows from Proposal to Teardown, and validate changes of them; with `--workflows=false` another engine does
    /// [default: true when the coordinator serves the API itself, else false]
    #[arg(long, value_name = "BOOL", env = "WARREN_WORKFLOWS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    workflows: Option<bool>,
    /// Directory under which nodes mount jobs' storage; the agents must allow it (their --mount-root)
    #[arg(long, value_name = "DIR", env = "WARREN_MOUNT_ROOT", default_value = "/mnt/nnf")]
    mount_root: String,
    /// How a rabbit names its computes' allocations
    #[arg(long, value_name = "NAMES", env = "WARREN_INDEX_NAMES", default_value = "node")]
    index_names: IndexNames,
    /// A directory that jobs may copy from and to beside the global Lustre file systems, such as home=/home. It must be mounted at
    /// this path on all rabbits, and away from --mount-root; once for each directory (in the variable with commas)
    #[arg(long, value_name = "NAME=PATH", env = "WARREN_GLOBAL", value_delimiter = ',', value_parser = parse_global)]
    global: Vec<(String, String)>,
    /// Run workflows' containers as Jobs in this Kubernetes namespace, which must be that of the workflows. Without it the rabbits
    /// run containers if the coordinator serves the API itself; on a cluster the coordinator then refuses containers
    #[arg(long, value_name = "NAMESPACE", env = "WARREN_CONTAINER_NAMESPACE")]
    container_namespace: Option<String>,
    /// DNS domain of the Kubernetes cluster, in which containers resolve each other's names
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "WARREN_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        requires = "container_namespace",
        value_parser = parse_domain
    )]
    cluster_domain: String,
    /// Image of podhelper, which starts MPI ranks; without it the coordinator refuses profiles with mpiSpec
    #[arg(
        long,
        value_name = "IMAGE",
        env = "WARREN_PODHELPER_IMAGE",
        requires = "container_namespace",
        value_parser = parse_image
    )]
    podhelper_image: Option<String>,
    /// Uid of this coordinator's pod (with the embedded API: name of its user). The coordinator claims each container
    /// run under this uid before it makes the run's containers, so that no other coordinator works on that run. Needed
    /// where several coordinators drive the workflows of one API
    #[arg(long, value_name = "UID", env = "WARREN_CLAIM_CONTAINERS_AS", value_parser = parse_holder)]
    claim_containers_as: Option<Holder>,
    /// Let the rabbits' agents, which need --package-dir, fetch the job packages of profiles; without it the coordinator
    /// refuses profiles with packages
    #[arg(long, env = "WARREN_CONTAINER_PACKAGES", requires = "container_namespace")]
    container_packages: bool,
    /// Time after which the agent of a node counts as silent: a rabbit is then Offline, and a job that waits for the node
    /// says so. On a cluster, give it only if one coordinator drives the workflows and serves all nodes
    /// [default: 60s when the coordinator serves the API itself, else never]
    #[arg(long, value_name = "TIME", env = "WARREN_SILENT_AFTER", value_parser = humantime::parse_duration, conflicts_with = "claim_containers_as")]
    silent_after: Option<Duration>,
    /// Who may create persistent storage, how much storage jobs, users and projects may have, and presets, in YAML; read at
    /// the start [default: no limits]
    #[arg(long, value_name = "FILE", env = "WARREN_LIMITS")]
    limits: Option<PathBuf>,
}

/// How a rabbit names its computes' allocations.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IndexNames {
    /// node-0, node-1 and so on in the job's order, with a symbolic link named after each compute
    Node,
    /// RABBIT-0, RABBIT-1 and so on, as NNF's data movers expect it
    Rabbit,
}

/// Parses the name and the absolute path of a directory of the site.
fn parse_global(text: &str) -> Result<(String, String), String> {
    let remedy = "write NAME=PATH, such as home=/home";
    let Some((name, path)) = text.split_once('=') else { return Err(remedy.to_owned()) };
    if !containers::names::is_label(name) {
        return Err(format!("{name:?} is no name of lower-case letters, digits and -: {remedy}"));
    }
    let mut parts = Path::new(path).components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    if !is_absolute
        || parts.clone().count() == 0
        || !parts.all(|part| matches!(part, Component::Normal(_)))
    {
        return Err(format!("{path:?} is no absolute path without .. beneath /: {remedy}"));
    }
    Ok((name.to_owned(), path.trim_end_matches('/').to_owned()))
}

/// Parses the DNS domain of a cluster.
fn parse_domain(text: &str) -> Result<String, String> {
    let domain = text.trim_end_matches('.');
    let is_domain = domain.split('.').all(containers::names::is_label);
    if is_domain {
        Ok(domain.to_owned())
    } else {
        Err("not a DNS domain: write the cluster's, such as cluster.local".to_owned())
    }
}

/// Parses an image reference, as `spec.containers[].image` of a pod has it.
fn parse_image(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.contains(char::is_whitespace) {
        return Err(
            "not an image: write podhelper's, such as registry.example/podhelper:1, or leave the option out, and mpiSpec is refused"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Builds the name of this process for its claims on container runs: the uid of the coordinator's pod and a nonce. A
/// restarted coordinator has a new nonce, and so counts as another coordinator.
fn parse_holder(pod: &str) -> Result<Holder, String> {
    if !containers::names::is_label(pod) {
        return Err("not a pod's uid: write metadata.uid of the coordinator's pod".to_owned());
    }
    const UUID: &str = "/proc/sys/kernel/random/uuid";
    let nonce = std::fs::read_to_string(UUID).map_err(|error| format!("read {UUID}: {error}"))?;
    Ok(Holder::new(pod, nonce.trim()))
}

impl WorkflowArgs {
    /// Returns the settings of the workflow engine; `None` where the engine does not run.
    ///
    /// # Errors
    /// When the limits file cannot be read.
    pub(super) fn settings(self, is_standalone: bool) -> Result<Option<Settings>, LimitsFileError> {
        if !self.workflows.unwrap_or(is_standalone) {
            return Ok(None);
        }
        let limits = self.limits.as_deref().map(limits::read).transpose()?;
        let index_names = match self.index_names {
            IndexNames::Node => workflow::IndexNames::Node,
            IndexNames::Rabbit => workflow::IndexNames::Rabbit,
        };
        let mount_root = self.mount_root.trim_end_matches('/').to_owned();
        let (cluster_domain, podhelper_image) = (self.cluster_domain, self.podhelper_image);
        let namespace = self.container_namespace;
        // With the embedded API the rabbits run containers, because no kubelet exists.
        let containers = (namespace.is_some() || is_standalone).then_some(Containers {
            namespace,
            cluster_domain,
            podhelper_image,
            packages: self.container_packages,
        });
        let claims_as = self.claim_containers_as;
        let has_nodes = !is_standalone;
        let settings = Settings {
            mount_root,
            index_names,
            containers,
            has_nodes,
            claims_as,
            silent_after: self.silent_after.or(is_standalone.then_some(SILENT_AFTER)),
            directories: self.global.into_iter().map(|(name, path)| (path, name)).collect(),
            limits: Arc::new(limits.unwrap_or_default()),
        };
        Ok(Some(settings))
    }
}
