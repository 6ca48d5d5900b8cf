//! The command line and environment, turned once into a configuration that is known to be good.

use std::path::{Path, PathBuf};

use apiclient::Address;
use bytesize::ByteSize;
use clap::{CommandFactory, FromArgMatches, Parser};
use clientmount_agent::{
    coordinator::{AddressError, CertificateArgs, CoordinatorAddress},
    node::{DeadlineArgs, NodeArgs, NodeNameError},
    site::{IndexRoot, Side, Site},
    volumes::Volumes,
};
use daemon::{LogArgs, ZapArgs};
use storage::{
    desired::{AllowedRoots, MountPointError, NodeName, Spread, SpreadError},
    linux::{DriveConfig, LinuxConfig},
};
use thiserror::Error;

use crate::{
    bind::BindAddress,
    block_storage::desired::AllocationPolicy,
    fence::{FenceArgs, FenceConfig, FenceConfigError},
    health::args::{HealthArgs, HealthConfig},
    lustre_mgt::args::{Mgs, MgsArgs, MgsArgsError},
    node_manager::{NodeManagerArgs, NodeManagerError, flags, in_its_environment},
    node_storage::desired::TemporaryRoot,
};

/// Carves volumes out of this rabbit's drives, makes file systems on them and mounts them, as the objects in its namespace
/// ask.
///
/// Stopping the agent leaves everything as it is. Exit codes: 0 stopped by a signal, 1 failed, 2 bad usage, 3 a
/// newer agent speaks for this rabbit.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Directory beneath which set-up hooks see a file system
    #[arg(
        long,
        env = "WARREN_TEMP_ROOT",
        value_name = "DIR",
        default_value = "/mnt/temp",
        help_heading = "Node"
    )]
    pub temp_root: PathBuf,
    /// Directory that shows every index tree once more as node-<k> bind mounts with a link per compute
    #[arg(long, env = "WARREN_INDEX_ROOT", value_name = "DIR", help_heading = "Node")]
    pub index_root: Option<PathBuf>,
    /// Directory in which it is recorded whose the drives' namespaces are, and which of the site's hooks ran; keep it over
    /// reboots, for without it nothing on the drives counts as this agent's
    #[arg(
        long,
        env = "WARREN_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/warren/rabbit-agent",
        help_heading = "Node"
    )]
    pub state_dir: PathBuf,

    /// The Kubernetes API: unix:///PATH, kubeconfig, kubeconfig:/PATH, or in-cluster, which is the default in a pod
    #[arg(
        long,
        env = "WARREN_API",
        value_name = "ADDRESS",
        default_value = "unix:///run/warren/api.sock",
        help_heading = "API"
    )]
    pub api: Address,
    /// Name of the pod the agent runs in, if it runs in one; shown in the NnfNode
    #[arg(
        long,
        env = "NNF_POD_NAME",
        value_name = "NAME",
        default_value = "",
        help_heading = "API"
    )]
    pub pod: String,

    /// The coordinator that is told of this rabbit's health: unix:///PATH, or https://HOST:PORT with --ca, --certificate and --key
    #[arg(long, env = "WARREN_COORDINATOR", value_name = "URL", help_heading = "Coordinator")]
    pub coordinator: Option<String>,
    #[command(flatten)]
    pub certificates: CertificateArgs,

    /// Use only NVMe drives whose model number contains this; may be given several times. Without it every drive is used that
    /// manages namespaces and has nothing on it that this node uses
    #[arg(
        long = "drive-model",
        env = "WARREN_DRIVE_MODELS",
        value_name = "TEXT",
        value_delimiter = ',',
        conflicts_with = "file_pool",
        help_heading = "Storage"
    )]
    pub drive_models: Vec<String>,
    /// Append everything that is said to the PCIe switches, and what they answer, to this file; serial numbers are in it, and
    /// nothing of what is on the drives
    #[arg(
        long,
        env = "WARREN_SWITCHTEC_RECORD",
        value_name = "FILE",
        conflicts_with = "file_pool",
        help_heading = "Storage"
    )]
    pub switchtec_record: Option<PathBuf>,
    /// Over how many drives an allocation is spread when there are so many: the freest, the same share on each [default: 16 NVMe
    /// drives, 1 with --file-pool or --volumes plain]
    #[arg(long, env = "WARREN_ALLOCATION_DRIVES", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "Storage")]
    pub allocation_drives: Option<u8>,
    /// With how few drives an allocation is still made [default: 14 NVMe drives, 1 with --file-pool or --volumes plain, never more than
    /// --allocation-drives]
    #[arg(long, env = "WARREN_ALLOCATION_MINIMUM", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "Storage")]
    pub allocation_minimum: Option<u8>,
    /// Whether an allocation gets a new namespace on another drive when the slot of one of its drives holds another drive: what
    /// a RAID profile is repaired with. A drive that is merely absent or faulty is waited for
    #[arg(long, env = "WARREN_REPLACE_DRIVES", value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set, help_heading = "Storage")]
    pub replace_drives: bool,
    /// Use drives made of files in this directory instead of NVMe drives
    #[arg(long, env = "WARREN_FILE_POOL", value_name = "DIR", help_heading = "Storage")]
    pub file_pool: Option<PathBuf>,
    /// How many drives a pool gets that does not exist yet
    #[arg(long, env = "WARREN_FILE_DRIVES", value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u16).range(1..=1024), requires = "file_pool", help_heading = "Storage")]
    pub file_drives: u16,
    /// Size of each of them, e.g. 4GiB; they take up only what is written
    #[arg(
        long,
        env = "WARREN_FILE_DRIVE_CAPACITY",
        value_name = "SIZE",
        default_value = "4GiB",
        requires = "file_pool",
        help_heading = "Storage"
    )]
    pub file_drive_capacity: ByteSize,
    /// What lies between namespaces and file systems, the same as on the computes [default: lvm; plain with --file-pool]
    #[arg(long, env = "WARREN_VOLUMES", value_name = "LAYER", help_heading = "Storage")]
    pub volumes: Option<Volumes>,
    #[command(flatten)]
    pub deadlines: DeadlineArgs,
    #[command(flatten)]
    pub health: HealthArgs,

    #[command(flatten)]
    pub fence: FenceArgs,

    #[command(flatten)]
    pub mgs: MgsArgs,

    #[command(flatten)]
    pub node_manager: NodeManagerArgs,

    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    zap: ZapArgs,
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not a node.
    #[error(transparent)]
    Node(#[from] NodeNameError),
    /// Not a directory to mount beneath.
    #[error("{flag}")]
    Root {
        /// Which flag.
        flag: &'static str,
        /// Why.
        #[source]
        source: MountPointError,
    },
    /// One within another: what is mounted beneath both could not be told apart.
    #[error("{first} {} and {second} {} overlap: use directories of which none is within another", .first_path.display(), .second_path.display())]
    Overlap {
        /// A flag.
        first: &'static str,
        /// Its directory.
        first_path: PathBuf,
        /// Another flag.
        second: &'static str,
        /// Its directory.
        second_path: PathBuf,
    },
    /// Every model contains nothing.
    #[error("--drive-model is empty: give a part of a model number, or leave it out to use all")]
    EmptyModel,
    /// Fewer drives are taken than an allocation needs.
    #[error("--allocation-drives, --allocation-minimum")]
    Spread(#[from] SpreadError),
    /// A compute cannot be in two places.
    #[error("--compute-link names two places for index {0}: give it the one that is meant")]
    TwoLinks(u8),
    /// Drives of no size.
    #[error("--file-drive-capacity is 0: use at least 1MiB")]
    NoCapacity,
    /// Not a way to a coordinator.
    #[error(transparent)]
    Coordinator(#[from] AddressError),
    /// Not a way to hear of fences.
    #[error(transparent)]
    Fence(#[from] FenceConfigError),
    /// Not a way to a Lustre management target.
    #[error(transparent)]
    Mgs(#[from] MgsArgsError),
    /// A flag of nnf-node-manager that stops the start.
    #[error(transparent)]
    NodeManager(#[from] NodeManagerError),
}

/// A configuration that can.
#[derive(Debug, Clone)]
pub struct Config {
    /// The rabbit.
    pub rabbit: Rabbit,
    /// Where the API is.
    pub api: Address,
    /// Where the coordinator is, if there is one, with what it takes to be let in.
    pub coordinator: Option<CoordinatorAddress>,
    /// What of the rabbit is looked at, and how often.
    pub health: HealthConfig,
    /// The rabbit's storage.
    pub storage: LinuxConfig,
    /// Where the kubelet's probes are answered, if anywhere.
    pub probes: Option<BindAddress>,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<BindAddress>,
    /// What of the command line has no effect, in words.
    pub notes: Vec<String>,
}

/// The rabbit that the agent works on.
#[derive(Debug, Clone)]
pub struct Rabbit {
    /// Its name, and where ClientMounts may mount.
    pub site: Site,
    /// Where set-up hooks see a file system.
    pub temporary: TemporaryRoot,
    /// How capacity is allocated.
    pub policy: AllocationPolicy,
    /// The pod's name, or nothing.
    pub pod: String,
    /// How computes are fenced.
    pub fence: FenceConfig,
    /// How a Lustre management target is spoken to.
    pub mgs: Mgs,
}

impl Args {
    /// Reads the command line and the environment, also as nnf-node-manager takes them; ends the process if it cannot.
    #[must_use]
    pub fn read() -> Self {
        let command = in_its_environment(Self::command(), is_set);
        let mut line = daemon::translate(std::env::args_os(), &flags());
        // The word of the Go daemons.
        if line.len() == 2 && line[1] == "version" {
            line[1] = "--version".into();
        }
        Self::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
    }

    /// What is logged.
    #[must_use]
    pub fn logs(&self) -> LogArgs {
        LogArgs { log_level: self.zap.level().unwrap_or(self.logs.log_level) }
    }

    /// Checks everything that can be checked without changing the node.
    ///
    /// # Errors
    /// At the first value that cannot be used, naming it and the remedy.
    pub fn check(self) -> Result<Config, ConfigError> {
        let coordinator = self
            .coordinator
            .as_deref()
            .map(|url| self.certificates.coordinator(url))
            .transpose()?;
        let node = self.node.name()?;
        let every_root = self.roots()?;
        let roots = allowed("--mount-root", self.node.mount_roots.clone())?;
        let temporary = allowed("--temp-root", [self.temp_root.clone()])?;
        let index_root = self.index_root.clone().map(IndexRoot::new).transpose();
        let index_root =
            index_root.map_err(|source| ConfigError::Root { flag: "--index-root", source })?;
        let drives = self.drives(&node)?;
        let volumes = Volumes::or_by_drives(self.volumes, self.file_pool.is_some());
        let policy =
            AllocationPolicy { spread: self.spread(volumes)?, replace: self.replace_drives };
        self.node_manager.check(self.file_pool.is_some())?;
        Ok(Config {
            probes: self.node_manager.probes(),
            metrics: self.node_manager.metrics(),
            notes: self.node_manager.notes(&self.zap, is_set),
            rabbit: Rabbit {
                temporary: TemporaryRoot { path: temporary.to_string(), roots: temporary },
                site: Site { node, side: Side::Rabbit, roots, index_root, volumes },
                policy,
                pod: self.pod,
                fence: self.fence.check()?,
                mgs: self.mgs.check(self.deadlines.command())?,
            },
            api: self.api,
            coordinator,
            health: self.health.check().map_err(ConfigError::TwoLinks)?,
            storage: LinuxConfig {
                drives,
                roots: every_root,
                state: self.state_dir,
                command_deadline: self.deadlines.command(),
                mount_deadline: self.deadlines.mount(),
            },
        })
    }

    /// A volume without LVM is one device, and files are no faster for being many; unless more are asked for.
    fn spread(&self, volumes: Volumes) -> Result<Spread, SpreadError> {
        let usual = match volumes {
            Volumes::Lvm if self.file_pool.is_none() => Spread::RABBIT,
            Volumes::Lvm | Volumes::Plain => Spread::ONE,
        };
        let number = |drives: usize| u8::try_from(drives).unwrap_or(u8::MAX);
        let most = self.allocation_drives.unwrap_or(number(usual.most()));
        Spread::new(most, self.allocation_minimum.unwrap_or(most.min(number(usual.least()))))
    }

    fn drives(&self, node: &NodeName) -> Result<DriveConfig, ConfigError> {
        let Some(pool) = self.file_pool.clone() else {
            if self.drive_models.iter().any(|model| model.trim().is_empty()) {
                return Err(ConfigError::EmptyModel);
            }
            return Ok(DriveConfig::Nvme {
                node: node.clone(),
                models: self.drive_models.clone(),
                record: self.switchtec_record.clone(),
            });
        };
        let drive_capacity = self.file_drive_capacity.as_u64();
        if drive_capacity == 0 {
            return Err(ConfigError::NoCapacity);
        }
        Ok(DriveConfig::File { pool, node: node.clone(), drives: self.file_drives, drive_capacity })
    }

    /// Everything beneath which this agent mounts.
    fn roots(&self) -> Result<AllowedRoots, ConfigError> {
        let mut flagged: Vec<(&'static str, &Path)> = vec![("--temp-root", &self.temp_root)];
        flagged.extend(self.index_root.iter().map(|path| ("--index-root", path.as_path())));
        flagged.extend(self.node.mount_roots.iter().map(|path| ("--mount-root", path.as_path())));
        for (place, (first, first_path)) in flagged.iter().enumerate() {
            let overlapping = flagged
                .iter()
                .skip(place + 1)
                .find(|(_, path)| path.starts_with(first_path) || first_path.starts_with(path));
            if let Some((second, second_path)) = overlapping {
                return Err(ConfigError::Overlap {
                    first,
                    first_path: first_path.to_path_buf(),
                    second,
                    second_path: second_path.to_path_buf(),
                });
            }
        }
        allowed(
            "--mount-root, --temp-root, --index-root",
            flagged.into_iter().map(|(_, path)| path.to_owned()),
        )
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn allowed(
    flag: &'static str,
    paths: impl IntoIterator<Item = PathBuf>,
) -> Result<AllowedRoots, ConfigError> {
    AllowedRoots::new(paths).map_err(|source| ConfigError::Root { flag, source })
}

#[cfg(test)]
mod tests {
    use daemon::chain;

    use super::*;

    fn check(args: &[&str]) -> Result<Config, String> {
        let line = ["rabbit-agent", "--node", "rabbit-1"].iter().chain(args).map(Into::into);
        let args = Args::try_parse_from(daemon::translate(line, &flags()));
        args.map_err(|error| error.to_string())?.check().map_err(|error| chain(&error))
    }

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_are_good_and_every_root_may_be_mounted_beneath() {
        let config = check(&["--index-root", "/mnt/index"]).unwrap();
        assert_eq!(config.rabbit.site.roots.to_string(), "/mnt/nnf");
        assert_eq!(config.storage.roots.to_string(), "/mnt/temp or /mnt/index or /mnt/nnf");
        assert_eq!(
            config.rabbit.temporary.mount_point("x", 3).unwrap().to_string(),
            "/mnt/temp/x-3"
        );
        assert!(config.coordinator.is_none());
        let DriveConfig::Nvme { node, models, .. } = config.storage.drives else {
            panic!("NVMe drives")
        };
        assert_eq!((node.as_str(), models.len()), ("rabbit-1", 0));
    }

    #[test]
    fn drives_are_chosen_by_their_models() {
        let config = check(&["--drive-model", "KCM7", "--drive-model", "MZ3LO,KCD7"]).unwrap();
        let DriveConfig::Nvme { models, .. } = config.storage.drives else { panic!("NVMe drives") };
        assert_eq!(models, ["KCM7", "MZ3LO", "KCD7"]);
        assert!(
            check(&["--drive-model", "x", "--file-pool", "/p"])
                .unwrap_err()
                .contains("--file-pool")
        );
        assert!(check(&["--drive-model", ""]).unwrap_err().contains("--drive-model is empty"));
    }

    #[test]
    fn allocations_go_over_as_many_drives_as_a_rabbit_spares_unless_told_otherwise() {
        let policy = |args: &[&str]| check(args).map(|it| it.rabbit.policy);
        let spread = |args: &[&str]| policy(args).map(|it| (it.spread.most(), it.spread.least()));
        assert_eq!(spread(&[]), Ok((16, 14)));
        assert_eq!(spread(&["--file-pool", "/p"]), Ok((1, 1)));
        assert_eq!(spread(&["--volumes", "plain"]), Ok((1, 1)));
        assert_eq!(spread(&["--file-pool", "/p", "--allocation-drives", "4"]), Ok((4, 1)));
        assert_eq!(spread(&["--allocation-drives", "4"]), Ok((4, 4)));
        assert_eq!(spread(&["--allocation-drives=4", "--allocation-minimum=2"]), Ok((4, 2)));
        let error = spread(&["--file-pool", "/p", "--allocation-minimum", "2"]).unwrap_err();
        assert!(error.contains("--allocation-minimum") && error.contains("1 <= least"), "{error}");
        assert!(policy(&[]).unwrap().replace);
        assert!(!policy(&["--replace-drives=false"]).unwrap().replace);
    }

    #[test]
    fn file_drives_have_a_size_for_people() {
        let config =
            check(&["--file-pool", "/p", "--file-drives", "2", "--file-drive-capacity", "2GiB"])
                .unwrap();
        let DriveConfig::File { drives, drive_capacity, .. } = config.storage.drives else {
            panic!("file drives")
        };
        assert_eq!((drives, drive_capacity), (2, 2 << 30));
    }

    #[test]
    fn bad_values_are_named_with_their_remedy() {
        for (args, told) in [
            (&["--mount-root", "mnt"][..], "is not absolute"),
            (&["--mount-root", "/"], "overlap"),
            (
                &["--temp-root", "/mnt/nnf/temp"],
                "--temp-root /mnt/nnf/temp and --mount-root /mnt/nnf overlap",
            ),
            (
                &["--index-root", "/mnt/nnf"],
                "--index-root /mnt/nnf and --mount-root /mnt/nnf overlap",
            ),
            (&["--api", "http://x"], "use unix:///path/to/api.sock"),
            (&["--coordinator", "http://x:1"], "neither unix:///PATH nor https://HOST:PORT"),
            (&["--coordinator", "https://x:1"], "needs --ca, --certificate and --key"),
            (&["--file-pool", "/p", "--file-drive-capacity", "0"], "--file-drive-capacity is 0"),
            (&["--file-pool", "/p", "--file-drive-capacity", "many"], "many"),
            (&["--lustre-erase-command", " "], "--lustre-erase-command is empty"),
            (&["--lustre-erase-command", "lctl '"], "unbalanced quotes"),
            (&["-purge"], "leave it out, and delete the NnfNodeBlockStorages"),
            (&["-mock"], "--file-pool DIR"),
            (&["-metrics-bind-address", "x"], "use HOST:PORT, :PORT, or 0"),
        ] {
            let error = check(args).unwrap_err();
            assert!(error.contains(told), "{args:?}: {error}");
        }
    }
}
