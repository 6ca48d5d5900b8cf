//! The flags and subcommands of the coordinator.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::{Args, Parser, Subcommand};
use cli::{help_on_a_screen, short_help};
use daemon::{LogArgs, Threads};
use nix::unistd::User;

use super::workflows::WorkflowArgs;

/// Largest default number of threads: TLS and JSON for the largest system do not use more.
pub(super) const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");

/// The flags that `--help` shows.
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

/// Watches and writes the Kubernetes API on behalf of all nodes: sends each node the list of its mounts, and writes their results
/// back. Without a cluster it serves the API itself.
///
/// Exit status: 0 stopped by a signal, 1 failed, 2 bad usage.
#[derive(Debug, Parser)]
#[command(name = "coordinator", version, mut_args(|flag| short_help(flag, &COMMON)), defer(help_on_a_screen))]
pub struct CommandLine {
    #[command(flatten)]
    pub(super) api: ApiArgs,
    #[command(flatten)]
    pub(super) standalone: Standalone,
    #[command(flatten)]
    pub(super) nodes: NodeArgs,
    #[command(flatten)]
    pub(super) workflows: WorkflowArgs,
    /// Number of threads that process messages of nodes and of the API [default: one per processor, 8 at most]
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
    /// Make a new store in --data-dir from a file that `warren backup` wrote. Stop the coordinator first, and move
    /// an existing store away
    Restore {
        /// The file that `warren backup` wrote
        file: PathBuf,
    },
}

impl CommandLine {
    /// Returns the directory of the embedded API's store.
    pub fn data_dir(&self) -> &Path {
        &self.standalone.data_dir
    }

    /// Returns the number of threads that process messages of nodes and of the API.
    #[must_use]
    pub fn threads(&self) -> Threads {
        let processors = || available_parallelism().unwrap_or(NonZeroUsize::MIN).min(MOST_THREADS);
        Threads::Many(self.threads.unwrap_or_else(processors))
    }
}

/// Flags that select a cluster; without them the coordinator serves the API itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes (default: the coordinator serves the API itself)")]
pub(super) struct ApiArgs {
    /// Use the API of the cluster that this kubeconfig names
    #[arg(long, value_name = "FILE", env = "WARREN_KUBECONFIG", conflicts_with = "in_cluster")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Use the API of the cluster in which this pod runs
    #[arg(long, env = "WARREN_IN_CLUSTER")]
    pub(super) in_cluster: bool,
}

/// Flags of the embedded API: directory and listeners.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Standalone")]
pub struct Standalone {
    /// Directory of objects, certificates and the kubeconfig
    #[arg(
        long,
        value_name = "DIR",
        env = "WARREN_DATA_DIR",
        global = true,
        default_value = "/var/lib/warren/coordinator"
    )]
    pub data_dir: PathBuf,
    /// Unix socket of the API, for root and the coordinator's own user
    #[arg(
        long,
        value_name = "PATH",
        env = "WARREN_API_SOCKET",
        default_value = "/run/warren/api.sock"
    )]
    pub api_socket: PathBuf,
    /// Loopback address and port of the API for kubectl; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_API_LISTEN", default_value = "127.0.0.1:6443", value_parser = parse_loopback)]
    pub api_listen: SocketAddr,
    /// TCP address of the API for rabbits on other hosts, with mutual TLS: a rabbit's certificate gives it the rights on the
    /// objects of its own name [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_API_LISTEN_RABBITS", requires_all = ["listen", "certificate", "key", "ca"])]
    pub api_listen_rabbits: Option<SocketAddr>,
    /// File to write the kubeconfig for kubectl to, mode 0600 [default: DATA_DIR/kubeconfig]
    #[arg(long, value_name = "FILE", env = "WARREN_WRITE_KUBECONFIG")]
    pub write_kubeconfig: Option<PathBuf>,
}

impl Standalone {
    /// Returns the path of the kubeconfig that the coordinator writes for kubectl.
    pub fn kubeconfig(&self) -> PathBuf {
        self.write_kubeconfig.clone().unwrap_or_else(|| self.data_dir.join("kubeconfig"))
    }
}

fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|error| format!("{error}: use 127.0.0.1:6443"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("this is not a loopback address: the token of the embedded API is for this host; use 127.0.0.1 or [::1]; rabbits use --api-listen-rabbits".to_owned())
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes and operators")]
pub(super) struct NodeArgs {
    /// Unix socket for agents and operators on this host, for root and the coordinator's own user
    #[arg(
        long,
        value_name = "PATH",
        env = "WARREN_COORDINATOR_SOCKET",
        default_value = "/run/warren/coordinator.sock"
    )]
    pub(super) socket: PathBuf,
    /// TCP address for agents, with mutual TLS
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_COORDINATOR_LISTEN", requires_all = ["certificate", "key", "ca"])]
    pub(super) listen: Option<SocketAddr>,
    /// The coordinator's certificate chain, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_CERTIFICATE", requires = "listen")]
    pub(super) certificate: Option<PathBuf>,
    /// Private key of --certificate, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_KEY", requires = "listen")]
    pub(super) key: Option<PathBuf>,
    /// Authority of the nodes' certificates, PEM; a node's certificate names the node
    #[arg(long, value_name = "FILE", env = "WARREN_CA", requires = "listen")]
    pub(super) ca: Option<PathBuf>,
    /// Certificate name that may list all nodes of the system over TCP (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        env = "WARREN_OPERATOR",
        value_delimiter = ',',
        requires = "listen"
    )]
    pub(super) operator: Vec<String>,
    /// Unix socket of the service Workloads: every user of this host may use it for jobs of their own [default: none]
    #[arg(long, value_name = "PATH", env = "WARREN_WORKLOADS_SOCKET")]
    pub(super) workloads_socket: Option<PathBuf>,
    /// User, by name or number, that runs workload manager MANAGER and may act for every user on that manager's jobs, through
    /// --workloads-socket; without MANAGER= the manager has the name of its user (repeatable)
    #[arg(
        long,
        value_name = "[MANAGER=]USER",
        env = "WARREN_WLM_USER",
        value_delimiter = ',',
        requires = "workloads_socket",
        value_parser = parse_manager
    )]
    pub(super) wlm_user: Vec<(u32, String)>,
    /// TCP address of /healthz, /readyz and /metrics, without TLS [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_HTTP_LISTEN")]
    pub(super) http_listen: Option<SocketAddr>,
    /// TCP address of the validating webhook, POST /admit, with --certificate [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "WARREN_WEBHOOK_LISTEN", requires_all = ["certificate", "key"])]
    pub(super) webhook_listen: Option<SocketAddr>,
}

/// Parses `[MANAGER=]USER` into a uid and the workload manager whose jobs that user owns. A manager's name has no
/// dash. Therefore two different pairs of manager and job never give the same Workflow name, and no manager's name
/// looks like `user-UID`, the manager of a user's own jobs.
fn parse_manager(text: &str) -> Result<(u32, String), String> {
    let (name, user) = match text.split_once('=') {
        Some((name, text)) => (name.to_owned(), parse_user(text)?),
        None => {
            let user = parse_user(text)?;
            let known = User::from_uid(user.into()).ok().flatten();
            (known.map(|user| user.name).unwrap_or_default(), user)
        }
    };
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || name == "user" || !name.bytes().all(is_good) {
        return Err(format!(
            "{name:?} is not a name of a workload manager: write MANAGER=USER, with lower-case letters and digits in MANAGER, as in slurm={text}"
        ));
    }
    Ok((user, name))
}

/// Returns the uid of a user that is given by name or number.
fn parse_user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("no such user on this host; create it, or give its number".to_owned()),
        Err(error) => Err(format!("look up the user: {error}; give its number")),
    }
}
