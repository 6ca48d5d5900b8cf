//! Flags of the workflow engine.

use clap::{Args, ValueEnum};
use containers::claim::Holder;
use workflow::{Containers, Settings};

#[derive(Debug, Args)]
#[command(next_help_heading = "Workflows")]
pub(super) struct WorkflowArgs {
    /// Drive Workflows from Proposal to Teardown, and judge changes of them: `--workflows=false` leaves them to others
    /// [default: only when we serve the API ourselves]
    #[arg(long, value_name = "BOOL", env = "WARREN_WORKFLOWS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    workflows: Option<bool>,
    /// Directory beneath which jobs' storage is mounted on nodes; the agents must allow it (their --mount-root)
    #[arg(long, value_name = "DIR", env = "WARREN_MOUNT_ROOT", default_value = "/mnt/nnf")]
    mount_root: String,
    /// How a rabbit names its computes' allocations
    #[arg(long, value_name = "NAMES", env = "WARREN_INDEX_NAMES", default_value = "node")]
    index_names: IndexNames,
    /// Run workflows' containers as Jobs in this Kubernetes namespace, that of the workflows. Without it the rabbits run them where
    /// we serve the API ourselves, and on a cluster they are refused
    #[arg(long, value_name = "NAMESPACE", env = "WARREN_CONTAINER_NAMESPACE")]
    container_namespace: Option<String>,
    /// The domain of the Kubernetes cluster, beneath which containers find each other
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "WARREN_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        requires = "container_namespace",
        value_parser = domain
    )]
    cluster_domain: String,
    /// The image of podhelper, which starts the ranks of MPI; profiles with mpiSpec are refused without it
    #[arg(
        long,
        value_name = "IMAGE",
        env = "WARREN_PODHELPER_IMAGE",
        requires = "container_namespace",
        value_parser = image
    )]
    podhelper_image: Option<String>,
    /// Where several coordinators drive the workflows of one API: make containers only by a claim, as the pod with this uid, or,
    /// with the embedded API, as this user. Without it this is the only coordinator
    #[arg(long, value_name = "UID", env = "WARREN_CLAIM_CONTAINERS_AS", value_parser = holder)]
    claim_containers_as: Option<Holder>,
    /// Have the rabbits' agents, which need --package-dir, fetch the packages of profiles; profiles with packages are refused
    /// without it
    #[arg(long, env = "WARREN_CONTAINER_PACKAGES", requires = "container_namespace")]
    container_packages: bool,
}

/// How a rabbit names its computes' allocations.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IndexNames {
    /// node-0, node-1 and so on in the job's order, with a link called like each compute
    Node,
    /// RABBIT-0, RABBIT-1 and so on, as NNF's data movers expect it
    Rabbit,
}

/// The domain of a cluster: the names of hosts end in it.
fn domain(text: &str) -> Result<String, String> {
    let domain = text.trim_end_matches('.');
    let is_domain = domain.split('.').all(containers::names::is_label);
    if is_domain {
        Ok(domain.to_owned())
    } else {
        Err("it is no domain: write that of the cluster, such as cluster.local".to_owned())
    }
}

/// An image, as a pod names it.
fn image(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.contains(char::is_whitespace) {
        return Err(
            "it is no image: write that of podhelper, such as registry.example/podhelper:1, or leave the option out, and mpiSpec is refused"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// A process of this pod: each start is another.
fn holder(pod: &str) -> Result<Holder, String> {
    if !containers::names::is_label(pod) {
        return Err("it is no uid of a pod: write metadata.uid of the coordinator's".to_owned());
    }
    const UUID: &str = "/proc/sys/kernel/random/uuid";
    let nonce = std::fs::read_to_string(UUID).map_err(|error| format!("read {UUID}: {error}"))?;
    Ok(Holder::new(pod, nonce.trim()))
}

impl WorkflowArgs {
    /// The settings of the workflow engine; `None` where it does not run.
    pub(super) fn settings(self, is_standalone: bool) -> Option<Settings> {
        let index_names = match self.index_names {
            IndexNames::Node => workflow::IndexNames::Node,
            IndexNames::Rabbit => workflow::IndexNames::Rabbit,
        };
        let mount_root = self.mount_root.trim_end_matches('/').to_owned();
        let (cluster_domain, podhelper_image) = (self.cluster_domain, self.podhelper_image);
        let namespace = self.container_namespace;
        // On the embedded API no Kubernetes runs anything: the rabbits do.
        let containers = (namespace.is_some() || is_standalone).then_some(Containers {
            namespace,
            cluster_domain,
            podhelper_image,
            packages: self.container_packages,
        });
        let claims_as = self.claim_containers_as;
        let has_nodes = !is_standalone;
        let settings = Settings { mount_root, index_names, containers, has_nodes, claims_as };
        self.workflows.unwrap_or(is_standalone).then_some(settings)
    }
}
