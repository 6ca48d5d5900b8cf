//! Checks the command line without touching the node, and turns it into a configuration.

use std::path::{Path, PathBuf};

use agent::{
    site::{IndexRoot, Side, Site},
    volumes::Volumes,
};
use apiclient::Address;
use storage::desired::{AllowedRoots, NodeName, Spread, SpreadError};
use storage_linux::{DriveConfig, LinuxConfig};

use super::{Args, Config, ConfigError, Rabbit, args::is_set};
use crate::kinds::{
    block_storage::desired::AllocationPolicy, node_storage::desired::TemporaryRoot,
};

impl Args {
    /// Checks everything that can be checked without the node.
    pub fn check(self) -> Result<Config, ConfigError> {
        let coordinator = self
            .coordinator
            .as_deref()
            .map(|url| self.certificates.coordinator(url))
            .transpose()?;
        let certificate = self.certificates.files();
        if let (Address::Server(server), None) = (&self.api, &certificate) {
            return Err(ConfigError::NoCertificate(server.to_string()));
        }
        let node = self.node.name()?;
        let every_root = self.roots()?;
        let roots = parse_roots("--mount-root", self.node.mount_roots.clone())?;
        let temporary = parse_roots("--temp-root", [self.temp_root.clone()])?;
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
                packages: self.containers.packages(&self.state_dir),
                containers: self.containers.config(self.deadlines.command(), &self.state_dir),
                movements: self.movements.config(&self.state_dir),
            },
            dry_run: self.dry_run,
            listen: self.listen,
            api: self.api,
            certificate,
            coordinator,
            health: self.health.check().map_err(ConfigError::TwoLinks)?,
            #[cfg(feature = "switchtec")]
            switchtec_record: self.switchtec_record,
            storage: LinuxConfig {
                drives,
                roots: every_root,
                state: self.state_dir,
                command_deadline: self.deadlines.command(),
                mount_deadline: self.deadlines.mount(),
                lustre_unmount: self.deadlines.lustre_unmount(),
            },
        })
    }

    /// Returns the number of drives over which an allocation is spread. The default is 1 without LVM, because a volume
    /// is then a single device, and for file drives, because several are no faster.
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
            let (node, models) = (node.clone(), self.drive_models.clone());
            return Ok(DriveConfig::Nvme { node, models });
        };
        let drive_capacity = self.file_drive_capacity.as_u64();
        if drive_capacity == 0 {
            return Err(ConfigError::NoCapacity);
        }
        Ok(DriveConfig::File { pool, node: node.clone(), drives: self.file_drives, drive_capacity })
    }

    fn roots(&self) -> Result<AllowedRoots, ConfigError> {
        let mut paths: Vec<(&'static str, &Path)> = vec![("--temp-root", &self.temp_root)];
        paths.extend(self.index_root.iter().map(|path| ("--index-root", path.as_path())));
        paths.extend(self.node.mount_roots.iter().map(|path| ("--mount-root", path.as_path())));
        for (place, (first, first_path)) in paths.iter().enumerate() {
            let overlapping = paths
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
        parse_roots(
            "--mount-root, --temp-root, --index-root",
            paths.into_iter().map(|(_, path)| path.to_owned()),
        )
    }
}

fn parse_roots(
    flag: &'static str,
    paths: impl IntoIterator<Item = PathBuf>,
) -> Result<AllowedRoots, ConfigError> {
    AllowedRoots::new(paths).map_err(|source| ConfigError::Root { flag, source })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use daemon::chain;

    use super::*;
    use crate::config::node_manager::flags;

    fn check(args: &[&str]) -> Result<Config, String> {
        let line = ["rabbit-agent", "--node", "rabbit-1"].iter().chain(args).map(Into::into);
        let args = Args::try_parse_from(daemon::translate(line, &flags()));
        args.map_err(|error| error.to_string())?.check().map_err(|error| chain(&error))
    }

    #[test]
    fn default_options_are_valid_and_mounts_are_allowed_beneath_every_root() {
        let config = check(&["--index-root", "/mnt/index"]).unwrap();
        // The agent mounts Lustre targets beneath the first directory.
        assert_eq!(config.rabbit.site.roots.to_string(), "/mnt/nnf or /mnt/tmp");
        let every = "/mnt/temp or /mnt/index or /mnt/nnf or /mnt/tmp";
        assert_eq!(config.storage.roots.to_string(), every);
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
    fn given_mount_roots_replace_the_defaults() {
        for args in [&["--mount-root", "/a", "--mount-root", "/b"][..], &["--mount-root=/a:/b"]] {
            assert_eq!(check(args).unwrap().rabbit.site.roots.to_string(), "/a or /b");
        }
    }

    #[test]
    fn drives_are_chosen_by_model() {
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
    fn the_default_spread_depends_on_drives_and_volumes() {
        let policy = |args: &[&str]| check(args).map(|config| config.rabbit.policy);
        let spread = |args: &[&str]| {
            policy(args).map(|policy| (policy.spread.most(), policy.spread.least()))
        };
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
    fn the_size_of_a_file_drive_may_have_a_unit() {
        let config =
            check(&["--file-pool", "/p", "--file-drives", "2", "--file-drive-capacity", "2GiB"])
                .unwrap();
        let DriveConfig::File { drives, drive_capacity, .. } = config.storage.drives else {
            panic!("file drives")
        };
        assert_eq!((drives, drive_capacity), (2, 2 << 30));
    }

    #[test]
    fn invalid_values_are_rejected_with_a_remedy() {
        for (args, expected) in [
            (&["--mount-root", "mnt"][..], "is not absolute"),
            (&["--mount-root", "/"], "overlap"),
            (
                &["--temp-root", "/mnt/nnf/temp"],
                "--temp-root /mnt/nnf/temp and --mount-root /mnt/nnf overlap",
            ),
            (
                &["--temp-root", "/mnt/tmp"],
                "--temp-root /mnt/tmp and --mount-root /mnt/tmp overlap",
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
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
