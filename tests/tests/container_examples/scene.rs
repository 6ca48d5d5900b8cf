//! Two rabbits, each with its own network namespace and podman, and each with one compute.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use tests::{
    fixture::Fixture,
    podman::Podman,
    program::{binary, plant},
    workflow::{Flow, RABBITS},
};

/// IP addresses of the two rabbits, with their prefix lengths.
const ADDRESSES: [&str; 2] = ["10.77.0.1/24", "10.77.0.2/24"];
const HOSTS: &str = "127.0.0.1\tlocalhost\n10.77.0.1\trabbit-1\n10.77.0.2\trabbit-2\n";

pub(crate) struct Scene {
    flow: Flow,
    podmans: [Podman; 2],
    directory: tempfile::TempDir,
}

impl Scene {
    /// Starts the cluster and a workflow of this name.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        Self::on(name, |podman| Fixture::with_podman(2, podman))
    }

    /// Starts the cluster, with stand-ins for Lustre's programs, and a workflow of this name.
    pub(crate) fn with_lustre(name: &str) -> anyhow::Result<Self> {
        Self::on(name, |podman| Fixture::with_lustre_and_podman(2, podman))
    }

    fn on(
        name: &str,
        fixture: impl FnOnce(&Path) -> anyhow::Result<Fixture>,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::TempDir::with_prefix_in("warren-example-", "/var/tmp")?;
        let podmans = [Podman::new(), Podman::new()];
        podmans[0].connect(&podmans[1], ADDRESSES);
        fs::create_dir_all(directory.path().join("srv/images"))?;
        fs::create_dir_all(directory.path().join("bin"))?;
        // Writes an empty file. Each rabbit bind-mounts its own podman over it.
        let podman = directory.path().join("bin/podman");
        fs::write(&podman, "")?;
        // Copies podhelper's libraries into the image too: the podhelper of a test build, unlike the packaged one, is
        // not static.
        let podhelper = binary("podhelper")?;
        let ldd = format!("#!/bin/sh\n/usr/bin/ldd \"$@\"\n/usr/bin/ldd {}\n", podhelper.display());
        plant(&directory.path().join("bin/ldd"), &ldd)?;
        let flow = Flow::on(fixture(&podman)?, name)?;
        let mut scene = Self { flow, podmans, directory };
        fs::write(scene.at("hosts"), HOSTS)?;
        scene.move_rabbits_into_networks()?;
        Ok(scene)
    }

    /// Starts the rabbits' agents in their network namespaces.
    fn move_rabbits_into_networks(&mut self) -> anyhow::Result<()> {
        for (index, (rabbit, _)) in RABBITS.iter().enumerate() {
            let starter = self.at(&format!("start-{rabbit}"));
            plant(&starter, &self.starter(index)?)?;
            self.flow.fixture.run.cluster.start_by(rabbit, &starter);
        }
        let cluster = &mut self.flow.fixture.run.cluster;
        cluster.stop_one("rabbit-1")?;
        cluster.start_node("rabbit-1")?;
        self.flow.add_second_rabbit()
    }

    /// Returns a script that starts an agent in its rabbit's network namespace, with its podman and the
    /// names of both rabbits.
    fn starter(&self, index: usize) -> anyhow::Result<String> {
        let (at, podman) = (self.directory.path().display(), &self.podmans[index]);
        let (program, network) = (podman.program_on_a_node(), podman.network());
        Ok(format!(
            "#!/bin/sh\nset -e\n\
             mount --bind {at}/hosts /etc/hosts\n\
             mount --bind {at}/srv /srv\n\
             mount --bind {} {at}/bin/podman\n\
             export WARREN_PODHELPER={}\n\
             exec nsenter --net={network} \"$@\"\n",
            program.display(),
            binary("podhelper")?.display(),
        ))
    }

    /// Returns the workflow of this scene.
    pub(crate) fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Writes a file whose text is on the page.
    pub(crate) fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.at(path);
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(fs::write(path, text)?)
    }

    /// Lets all users run a file.
    pub(crate) fn make_executable(&self, path: &str) -> anyhow::Result<()> {
        Ok(fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755))?)
    }

    /// Runs commands on the first rabbit as root, and returns their output.
    pub(crate) fn administrator(&self, text: &str) -> anyhow::Result<String> {
        let cluster = &self.flow.fixture.run.cluster;
        let (at, warren) = (self.directory.path().display(), binary("warren")?);
        let programs = warren.parent().context("a directory")?.display();
        let script = format!(
            "export PATH={at}/bin:{programs}:$PATH WARREN_API=unix://{} WARREN_COORDINATOR=unix://{}\ncd {at}\n{text}",
            cluster.api_socket().display(),
            cluster.coordinator_socket().display(),
        );
        cluster.run_on("rabbit-1", 0, &script)
    }

    /// Runs a job's commands on a compute.
    pub(crate) fn job(&self, compute: &str, text: &str) -> anyhow::Result<()> {
        let env = &self.flow.workflow()?["status"]["env"];
        let path = env["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
        self.flow.run_on(compute, &format!("DW_JOB_scratch={path}\n{text}")).map(drop)
    }

    /// Counts the key files on each rabbit, and checks that only the job's user can read them.
    pub(crate) fn keys(&self) -> anyhow::Result<[usize; 2]> {
        let mut counts = [0; 2];
        for (count, (rabbit, _)) in counts.iter_mut().zip(RABBITS) {
            let containers = self.flow.fixture.run.cluster.state_of(rabbit).join("containers");
            for directory in entries(&containers)? {
                for file in entries(&directory.join("keys"))? {
                    let file = fs::metadata(file)?;
                    ensure!(file.mode() & 0o777 == 0o400 && file.uid() == 1050, "{file:?}");
                    *count += 1;
                }
            }
        }
        Ok(counts)
    }

    /// Reads `/etc/hosts` in the worker's container on the second rabbit.
    pub(crate) fn hosts_of_a_worker(&self) -> anyhow::Result<String> {
        let name = self.podmans[1].run(&["ps", "--format", "{{.Names}}"]);
        let name = name.lines().find(|name| name.ends_with("-mpi")).context("a container")?;
        Ok(self.podmans[1].run(&["exec", name, "grep", "", "/etc/hosts"]))
    }

    /// Stops everything, and checks that nothing is left.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.flow.nothing_is_left()?;
        for podman in &self.podmans {
            ensure!(podman.pods().is_empty(), "pods are left: {:?}", podman.pods());
        }
        for (rabbit, _) in RABBITS {
            let files =
                entries(&self.flow.fixture.run.cluster.state_of(rabbit).join("containers"))?;
            ensure!(files.is_empty(), "files of containers are left: {files:?}");
        }
        self.flow.end()
    }
}

/// Lists a directory; one that does not exist is empty.
fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}
