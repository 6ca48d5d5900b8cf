//! A cluster with one job, and with a directory that is removed when the fixture is dropped.

use std::path::Path;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::{
    centre::{Chassis, Job},
    cluster::{Centre, Cluster, DRIVES, Environment, Link, on_nvme},
    lustre_tools,
    program::binary,
    run::{Run, Silent},
    server::Server,
};

/// Directory of the stand-ins for ZFS's and Lustre's programs.
const LUSTRE: &str = "lustre";

/// Creates a directory on a disk, as at a site: loop devices over a tmpfs take another code path in the kernel.
fn test_directory() -> anyhow::Result<TempDir> {
    TempDir::with_prefix_in("warren-test-", "/var/tmp").context("make a directory")
}

/// All parts of one test. When this value is dropped, the programs end first, then their files are removed.
#[derive(Debug)]
pub struct Fixture {
    /// The job on its cluster.
    pub run: Run<Silent>,
    directory: TempDir,
}

impl Fixture {
    /// Starts a chassis with `computes` computes, every node connected, and a job that has not begun.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn new(computes: u8, file_system: &'static str) -> anyhow::Result<Self> {
        Self::on(Server::of_this_run(), Link::of_this_run(), computes, file_system)
    }

    /// Starts a fixture in which the test itself, in place of controllers, writes the states of Workflows.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn without_engine(computes: u8, file_system: &'static str) -> anyhow::Result<Self> {
        let (server, link) = (Server::of_this_run(), Link::of_this_run());
        let mut fixture = Self::started_under(server, link, computes, file_system, Centre::Test)?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture like [`Fixture::without_engine`], with the drives' files in the directory `pool`.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn without_engine_in_pool(
        pool: &std::path::Path,
        computes: u8,
        file_system: &'static str,
    ) -> anyhow::Result<Self> {
        let directory = test_directory()?;
        std::os::unix::fs::symlink(pool, directory.path().join("pool")).context("link the pool")?;
        let around = (Server::of_this_run(), Link::of_this_run(), Centre::Test);
        let mut fixture = Self::started_in(directory, computes, file_system, &DRIVES, around, &[])?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture in which the coordinator's engine drives Workflows, also if the server is a real one.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_engine(computes: u8) -> anyhow::Result<Self> {
        Self::with_engine_on(Server::of_this_run(), computes)
    }

    /// Starts a fixture like [`Fixture::with_engine`] on this server.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_engine_on(server: Server, computes: u8) -> anyhow::Result<Self> {
        let link = Link::of_this_run();
        let mut fixture = Self::started_under(server, link, computes, "xfs", Centre::Engine)?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture like [`Fixture::with_engine`], with these environment variables for every node's agent.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_environment(computes: u8, environment: Environment<'_>) -> anyhow::Result<Self> {
        let around = (Server::of_this_run(), Link::of_this_run(), Centre::Engine);
        let directory = test_directory()?;
        let mut fixture =
            Self::started_in(directory, computes, "xfs", &DRIVES, around, environment)?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture with stand-ins for the programs of ZFS and Lustre on every node, and with drives that are large
    /// enough for Lustre's targets.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_lustre(computes: u8) -> anyhow::Result<Self> {
        Self::with_lustre_on(Server::of_this_run(), computes, &[])
    }

    /// Starts a fixture like [`Fixture::with_lustre`] on the embedded API, with a rabbit that runs containers with this
    /// podman.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_lustre_and_podman(computes: u8, podman: &Path) -> anyhow::Result<Self> {
        let podman = podman.display().to_string();
        Self::with_lustre_on(Server::Embedded, computes, &["--podman", &podman])
    }

    fn with_lustre_on(server: Server, computes: u8, options: &[&str]) -> anyhow::Result<Self> {
        let directory = test_directory()?;
        let tools = directory.path().join(LUSTRE);
        lustre_tools::install(&tools, &binary("lustre-tools")?)?;
        let path = std::env::var("PATH").context("PATH")?;
        let path = format!("{}:{path}:/usr/sbin:/sbin", tools.display());
        let around = (server, Link::of_this_run(), Centre::Engine);
        let drives = [&["--file-drives", "4", "--file-drive-capacity", "16GiB"], options].concat();
        let environment = [("PATH", path.as_str())];
        let mut fixture =
            Self::started_in(directory, computes, "lustre", &drives, around, &environment)?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture on the embedded API, with a rabbit that runs containers with this podman.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn with_podman(computes: u8, podman: &Path) -> anyhow::Result<Self> {
        let podman = podman.display().to_string();
        let mut rabbit = DRIVES.to_vec();
        rabbit.extend(["--podman", &podman]);
        let around = (Server::Embedded, Link::of_this_run(), Centre::Engine);
        let mut fixture =
            Self::started_in(test_directory()?, computes, "raw", &rabbit, around, &[])?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Returns all command lines that have changed the stand-ins' state so far, in order.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn lustre_log(&self) -> anyhow::Result<Vec<String>> {
        lustre_tools::log(&self.directory.path().join(LUSTRE))
    }

    /// Starts a fixture on this server.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn on(
        server: Server,
        link: Link,
        computes: u8,
        file_system: &'static str,
    ) -> anyhow::Result<Self> {
        let mut fixture = Self::started_on(server, link, computes, file_system)?;
        fixture.run.describe_system()?;
        Ok(fixture)
    }

    /// Starts a fixture without a SystemConfiguration, and does not wait until the nodes are connected.
    ///
    /// # Errors
    /// When a program does not start.
    pub fn started_on(
        server: Server,
        link: Link,
        computes: u8,
        file_system: &'static str,
    ) -> anyhow::Result<Self> {
        Self::started_under(server, link, computes, file_system, Centre::Default)
    }

    fn started_under(
        server: Server,
        link: Link,
        computes: u8,
        file_system: &'static str,
        centre: Centre,
    ) -> anyhow::Result<Self> {
        let around = (server, link, centre);
        Self::started_in(test_directory()?, computes, file_system, &DRIVES, around, &[])
    }

    fn started_in(
        directory: TempDir,
        computes: u8,
        file_system: &'static str,
        drives: &[&str],
        around: (Server, Link, Centre),
        environment: Environment<'_>,
    ) -> anyhow::Result<Self> {
        let chassis = Chassis::new(computes);
        let cluster = Cluster::start_among(directory.path(), chassis, drives, around, environment)?;
        let job = Job::new(1, file_system, &cluster.mount_root());
        let run = Run { cluster, job, narrator: Silent, patient: false };
        Ok(Self { run, directory })
    }

    /// Stops the programs, and checks that only their files are left.
    ///
    /// # Errors
    /// When a program does not stop cleanly, or when a mount, loop device or process is left.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.run.cluster.stop()?;
        let left = self.run.cluster.leftovers()?;
        ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    }

    /// Keeps the directory, so that a person can inspect it after a failure.
    #[must_use]
    pub fn keep(mut self) -> std::path::PathBuf {
        self.directory.disable_cleanup(true);
        self.directory.path().to_owned()
    }

    /// Returns a name for each namespace on the drives. For NVMe drives, the list comes from the ledgers, the drives'
    /// records of their namespaces.
    ///
    /// # Errors
    /// When the namespaces cannot be listed.
    pub fn namespaces(&self) -> anyhow::Result<Vec<String>> {
        if on_nvme() { self.recorded_namespaces() } else { self.namespaces_in_files() }
    }

    fn recorded_namespaces(&self) -> anyhow::Result<Vec<String>> {
        let rabbit = &self.run.cluster.chassis().rabbit;
        let ledgers = self.directory.path().join("state").join(rabbit).join("drives");
        let mut found = Vec::new();
        for ledger in std::fs::read_dir(ledgers).context("list the ledgers")? {
            let path = ledger.context("list the ledgers")?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read(&path).context("read a ledger")?;
            let ledger: serde_json::Value =
                serde_json::from_slice(&text).context("decode a ledger")?;
            let entries = ["intents", "namespaces"].map(|list| ledger[list].as_array().cloned());
            let named = entries.into_iter().flatten().flatten();
            found.extend(named.map(|entry| format!("{}: {entry}", path.display())));
        }
        Ok(found)
    }

    /// Returns the directory of the simulated drives.
    #[must_use]
    pub fn pool(&self) -> std::path::PathBuf {
        self.directory.path().join("pool")
    }

    fn namespaces_in_files(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for drive in std::fs::read_dir(self.pool()).context("list the pool")? {
            let drive = drive.context("list the pool")?;
            if !drive.path().is_dir() {
                continue;
            }
            for namespace in std::fs::read_dir(drive.path()).context("list a drive")? {
                let namespace = namespace.context("list a drive")?;
                if namespace.path().is_dir() {
                    found.push(format!(
                        "{}/{}",
                        drive.file_name().display(),
                        namespace.file_name().display()
                    ));
                }
            }
        }
        Ok(found)
    }
}
