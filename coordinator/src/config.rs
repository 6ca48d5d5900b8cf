//! The command line, and the configuration made of it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use apiclient::Address;
use clap::{Args, Parser, Subcommand, ValueEnum};
use daemon::{LogArgs, Threads, short_help};
use nix::unistd::User;
use thiserror::Error;
use workflow::{Containers, Settings};

/// TLS and JSON for a whole machine keep no more threads busy.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");

/// The flags that `-h` shows.
const COMMON: [&str; 10] = [
    "kubeconfig",
    "in_cluster",
    "data_dir",
    "listen",
    "certificate",
    "key",
    "ca",
    "operator",
    "http_listen",
    "log_level",
];

/// The one place that talks for thousands of computes: serves the Kubernetes API of a box without a cluster, tells every
/// node what to mount, and writes back what became of it.
///
/// Exit status: 0 stopped by a signal, 1 failed, 2 bad usage.
#[derive(Debug, Parser)]
#[command(name = "coordinator", version, mut_args(|flag| short_help(flag, &COMMON)))]
pub struct CommandLine {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    standalone: Standalone,
    #[command(flatten)]
    nodes: NodeArgs,
    #[command(flatten)]
    workflows: WorkflowArgs,
    /// Threads that work on what nodes and the API say [default: one per processor, 8 at most]
    #[arg(long, value_name = "COUNT", env = "WARREN_THREADS")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub logs: LogArgs,
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// A task that the program does instead of serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Make a new store in --data-dir from a file that `warren backup` wrote. The coordinator must not run, and no store be
    /// there: move a damaged one away
    Restore {
        /// What `warren backup` wrote
        file: PathBuf,
    },
}

impl CommandLine {
    /// The directory of the embedded API's store.
    pub fn data_dir(&self) -> &Path {
        &self.standalone.data_dir
    }

    /// How many threads work on what nodes and the API send.
    #[must_use]
    pub fn threads(&self) -> Threads {
        let processors = || available_parallelism().unwrap_or(NonZeroUsize::MIN).min(MOST_THREADS);
        Threads::Many(self.threads.unwrap_or_else(processors))
    }
}

/// Which API to work on; without these options the coordinator serves one itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes (default: serve the API ourselves)")]
struct ApiArgs {
    /// Work on the cluster this kubeconfig names
    #[arg(long, value_name = "FILE", env = "WARREN_KUBECONFIG", conflicts_with = "in_cluster")]
    kubeconfig: Option<PathBuf>,
    /// Work on the cluster this pod runs in
    #[arg(long, env = "WARREN_IN_CLUSTER")]
    in_cluster: bool,
}

/// Directory and listeners of the embedded API.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Standalone")]
pub struct Standalone {
    /// Where objects, certificates and the kubeconfig are kept
    #[arg(
        long,
        value_name = "DIR",
        env = "WARREN_DATA_DIR",
        global = true,
        default_value = "/var/lib/warren/coordinator"
    )]
    pub data_dir: PathBuf,
    /// Unix socket of the API; root and our own user may use it
    #[arg(
        long,
        value_name = "PATH",
        env = "WARREN_API_SOCKET",
        default_value = "/run/warren/api.sock"
    )]
    pub api_socket: PathBuf,
    /// TCP address of the API for kubectl, a loopback one; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_API_LISTEN", default_value = "127.0.0.1:6443", value_parser = loopback)]
    pub api_listen: SocketAddr,
    /// Where to write the kubeconfig for kubectl, mode 0600 [default: DATA_DIR/kubeconfig]
    #[arg(long, value_name = "FILE", env = "WARREN_WRITE_KUBECONFIG")]
    pub write_kubeconfig: Option<PathBuf>,
}

impl Standalone {
    /// Where the kubeconfig is written.
    pub fn kubeconfig(&self) -> PathBuf {
        self.write_kubeconfig.clone().unwrap_or_else(|| self.data_dir.join("kubeconfig"))
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|error| format!("{error}: use 127.0.0.1:6443"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("this is not a loopback address: the embedded API is for this host; use 127.0.0.1 or [::1], or run on Kubernetes".to_owned())
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes and operators")]
struct NodeArgs {
    /// Unix socket for agents and operators on this host; root and our own user may use it
    #[arg(
        long,
        value_name = "PATH",
        env = "WARREN_COORDINATOR_SOCKET",
        default_value = "/run/warren/coordinator.sock"
    )]
    socket: PathBuf,
    /// TCP address for agents, with mutual TLS
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_COORDINATOR_LISTEN", requires_all = ["certificate", "key", "ca"])]
    listen: Option<SocketAddr>,
    /// Our certificate chain, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_CERTIFICATE", requires = "listen")]
    certificate: Option<PathBuf>,
    /// Key of our certificate, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_KEY", requires = "listen")]
    key: Option<PathBuf>,
    /// Authority that signs the nodes' certificates, PEM; a node's certificate carries its name
    #[arg(long, value_name = "FILE", env = "WARREN_CA", requires = "listen")]
    ca: Option<PathBuf>,
    /// Certificate name that may ask about the whole machine over TCP (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        env = "WARREN_OPERATOR",
        value_delimiter = ',',
        requires = "listen"
    )]
    operator: Vec<String>,
    /// Unix socket of the service Workloads for every user of this host, each for itself [default: none]
    #[arg(long, value_name = "PATH", env = "WARREN_WORKLOADS_SOCKET")]
    workloads_socket: Option<PathBuf>,
    /// User that may act for every user there, by name or number: a workload manager's (repeatable)
    #[arg(
        long,
        value_name = "USER",
        env = "WARREN_WLM_USER",
        value_delimiter = ',',
        requires = "workloads_socket",
        value_parser = user
    )]
    wlm_user: Vec<u32>,
    /// TCP address of /healthz, /readyz and /metrics, without TLS [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_HTTP_LISTEN")]
    http_listen: Option<SocketAddr>,
    /// TCP address of the validating webhook, POST /admit, with our certificate [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_WEBHOOK_LISTEN", requires_all = ["certificate", "key"])]
    webhook_listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Workflows")]
struct WorkflowArgs {
    /// Drive Workflows from Proposal to Teardown, and judge changes of them: `--workflows=false` leaves them to others
    /// [default: only when we serve the API ourselves]
    #[arg(long, value_name = "BOOL", env = "WARREN_WORKFLOWS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    workflows: Option<bool>,
    /// Beneath which jobs' storage appears on nodes; the agents must allow it (their --mount-root)
    #[arg(long, value_name = "DIR", env = "WARREN_MOUNT_ROOT", default_value = "/mnt/nnf")]
    mount_root: String,
    /// How a rabbit names its computes' allocations
    #[arg(long, value_name = "NAMES", env = "WARREN_INDEX_NAMES", default_value = "node")]
    index_names: IndexNames,
    /// Run workflows' containers as Jobs in this Kubernetes namespace, that of the workflows; their requests are refused without it
    #[arg(long, value_name = "NAMESPACE", env = "WARREN_CONTAINER_NAMESPACE")]
    container_namespace: Option<String>,
    /// The domain of the Kubernetes cluster, beneath which containers find each other
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "WARREN_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        requires = "container_namespace"
    )]
    cluster_domain: String,
}

/// How a rabbit names its computes' allocations.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IndexNames {
    /// node-0, node-1 and so on in the job's order, with a link called like each compute
    Node,
    /// RABBIT-0, RABBIT-1 and so on, as NNF's data movers expect it
    Rabbit,
}

impl WorkflowArgs {
    /// How the engine is set up, where it runs.
    fn settings(self, is_standalone: bool) -> Option<Settings> {
        let index_names = match self.index_names {
            IndexNames::Node => workflow::IndexNames::Node,
            IndexNames::Rabbit => workflow::IndexNames::Rabbit,
        };
        let mount_root = self.mount_root.trim_end_matches('/').to_owned();
        let cluster_domain = self.cluster_domain;
        let containers =
            self.container_namespace.map(|namespace| Containers { namespace, cluster_domain });
        let settings = Settings { mount_root, index_names, containers };
        self.workflows.unwrap_or(is_standalone).then_some(settings)
    }
}

/// A user's number.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("no such user on this host; create it, or give its number".to_owned()),
        Err(error) => Err(format!("look up the user: {error}; give its number")),
    }
}

/// Which Kubernetes API the coordinator works on.
#[derive(Clone, Debug)]
pub enum Backend {
    /// Our own, served by this process.
    Standalone(Standalone),
    /// That of a cluster.
    Cluster(Address),
}

/// Files of mutual TLS, all PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
    pub operators: Vec<String>,
}

/// A coordinator that can be started.
#[derive(Clone, Debug)]
pub struct Config {
    pub backend: Backend,
    pub socket: PathBuf,
    /// Unix socket of `Workloads` for every user.
    pub workloads: Option<PathBuf>,
    /// Users that may act for every user.
    pub managers: Vec<u32>,
    pub tls: Option<Tls>,
    /// Address of the listener for probes and metrics.
    pub http: Option<SocketAddr>,
    /// Address of the listener at which a cluster's API server asks before it stores an object.
    pub webhook: Option<Webhook>,
    /// How the workflow engine is set up; `None` where it does not run.
    pub workflows: Option<Settings>,
}

/// Address and PEM files of the validating webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Options that are well formed but not acceptable.
#[derive(Debug, Error)]
pub enum InvalidConfig {
    #[error(
        "this coordinator was built without the embedded API: name the cluster with --kubeconfig or --in-cluster, or install one that was built with the feature `standalone`"
    )]
    NotStandalone,
    #[error("--socket and another socket are both {0}: give them different paths")]
    SameSocket(PathBuf),
}

impl TryFrom<CommandLine> for Config {
    type Error = InvalidConfig;

    fn try_from(line: CommandLine) -> Result<Self, InvalidConfig> {
        let CommandLine { api, standalone, nodes, workflows, .. } = line;
        let backend = match api.kubeconfig {
            Some(kubeconfig) => Backend::Cluster(Address::Kubeconfig(Some(kubeconfig))),
            None if api.in_cluster => Backend::Cluster(Address::InCluster),
            None if cfg!(not(feature = "standalone")) => return Err(InvalidConfig::NotStandalone),
            None => Backend::Standalone(standalone),
        };
        let api_socket = match &backend {
            Backend::Standalone(standalone) => Some(&standalone.api_socket),
            Backend::Cluster(_) => None,
        };
        if [api_socket, nodes.workloads_socket.as_ref()].contains(&Some(&nodes.socket)) {
            return Err(InvalidConfig::SameSocket(nodes.socket));
        }
        let identity = nodes.certificate.zip(nodes.key);
        let webhook = nodes.webhook_listen.zip(identity.clone());
        let webhook =
            webhook.map(|(listen, (certificate, key))| Webhook { listen, certificate, key });
        let operators = nodes.operator;
        let tls = nodes.listen.zip(identity).zip(nodes.ca);
        let tls = tls.map(|((listen, (certificate, key)), authority)| Tls {
            listen,
            certificate,
            key,
            authority,
            operators,
        });
        let workflows = workflows.settings(matches!(backend, Backend::Standalone(_)));
        Ok(Self {
            backend,
            socket: nodes.socket,
            workloads: nodes.workloads_socket,
            managers: nodes.wlm_user,
            tls,
            http: nodes.http_listen,
            webhook,
            workflows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let line = CommandLine::try_parse_from(std::iter::once(&"coordinator").chain(arguments))
            .map_err(|error| error.to_string())?;
        Config::try_from(line).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[cfg(not(feature = "standalone"))]
    #[test]
    fn without_the_embedded_api_a_cluster_must_be_named() {
        let text = parse(&["--data-dir", "/d"]).unwrap_err();
        assert!(
            text.contains("without the embedded API") && text.contains("--in-cluster"),
            "{text}"
        );
        assert!(parse(&["--in-cluster"]).is_ok());
        let text = crate::restore(Path::new("/d"), Path::new("/f")).unwrap_err().to_string();
        assert!(text.contains("without the embedded API"), "{text}");
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn kubeconfig_stands_beside_the_data() {
        let config = parse(&["--data-dir", "/d"]).unwrap();
        let Backend::Standalone(standalone) = config.backend else {
            panic!("{:?}", config.backend)
        };
        assert_eq!(standalone.kubeconfig(), PathBuf::from("/d/kubeconfig"));
        assert!(config.tls.is_none());
    }

    #[test]
    fn a_store_is_restored_where_the_coordinator_looks_for_it() {
        for arguments in
            [["restore", "/f", "--data-dir", "/d"], ["--data-dir", "/d", "restore", "/f"]]
        {
            let line = std::iter::once(&"coordinator").chain(&arguments);
            let line = CommandLine::try_parse_from(line).unwrap();
            assert_eq!(line.data_dir(), Path::new("/d"));
            assert!(matches!(line.task, Some(Task::Restore { file }) if file == Path::new("/f")));
        }
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn unacceptable_options_name_the_remedy() {
        for (arguments, part) in [
            (&["--api-listen", "0.0.0.0:6443"][..], "127.0.0.1"),
            (&["--api-socket", "/s", "--socket", "/s"], "different paths"),
            (&["--workloads-socket", "/s", "--socket", "/s"], "different paths"),
            (&["--workloads-socket", "/w", "--wlm-user", "nobody-has-this-name"], "no such user"),
            (&["--wlm-user", "0"], "--workloads-socket"),
            (&["--listen", "0.0.0.0:7000"], "--certificate"),
            (&["--kubeconfig", "/k", "--in-cluster"], "cannot be used"),
        ] {
            let text = parse(arguments).unwrap_err();
            assert!(text.contains(part), "{text}");
        }
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn workflows_are_driven_where_the_api_is_ours_or_where_it_is_asked_for() {
        let driven = |arguments: &[&str]| parse(arguments).unwrap().workflows;
        assert_eq!(driven(&["--mount-root", "/m/"]).unwrap().mount_root, "/m");
        assert!(driven(&["--workflows=false"]).is_none());
        assert!(driven(&["--in-cluster"]).is_none());
        assert!(driven(&["--in-cluster", "--workflows"]).is_some());
    }

    #[test]
    fn threads_are_a_parameter() {
        let threads = |arguments: &[&str]| {
            let arguments = std::iter::once(&"coordinator").chain(arguments);
            CommandLine::try_parse_from(arguments).map(|line| line.threads())
        };
        let Threads::Many(by_default) = threads(&[]).unwrap() else { panic!("only one") };
        assert!(by_default <= MOST_THREADS);
        let three = NonZeroUsize::new(3).unwrap();
        assert_eq!(threads(&["--threads", "3"]).unwrap(), Threads::Many(three));
        assert!(threads(&["--threads", "0"]).is_err());
    }

    #[test]
    fn mutual_tls_takes_all_its_files() {
        let config = parse(&[
            "--in-cluster",
            "--listen",
            "0.0.0.0:7000",
            "--certificate",
            "/c",
            "--key",
            "/k",
            "--ca",
            "/a",
            "--operator",
            "ops,root",
        ])
        .unwrap();
        assert_eq!(config.tls.unwrap().operators, ["ops", "root"]);
        assert!(matches!(config.backend, Backend::Cluster(Address::InCluster)));
    }
}
