use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};

use super::{
    Bench,
    cluster::{Cluster, Fencing, joining},
    functions::unallocated,
    system::{MOUNT_ROOT, System, quote},
};
use crate::{
    centre::Job as Storage,
    cluster::patience,
    program::until,
    run::{Run, Silent},
    slurm::{Commands, EVERYWHERE, Job, PARTITION, USER},
    workflow,
};

const COMPUTES: u8 = 2;
const DRIVES: usize = 4;

/// Node on which slurmctld and the coordinator run.
const HEAD: &str = "rabbit";

/// Deadline of one of Slurm's commands, or of the start of its daemons.
const STEP: Duration = Duration::from_secs(180);

/// Directories of `packaging` whose files the packages for Slurm install. This harness copies them to the guests.
const PACKAGED: [&str; 2] = ["slurm", "perilog"];

/// Script that writes the names of the nodes and sets Slurm up on each node by the steps of docs/use/slurm.md. A node
/// loses all of it when it loses its power.
const INSTALL: &str = "
printf '192.168.77.1 rabbit\\n192.168.77.2 compute-0\\n192.168.77.3 compute-1\\n' >> /etc/hosts
mkdir -p /usr/share/warren /etc/slurm/prolog.d /etc/slurm/epilog.d
cp -r /lab/packaging/* /usr/share/warren/
ln -sf /programs/warren /programs/clientmount-agent /usr/bin/
ln -sf /usr/share/warren/slurm/burst_buffer.lua /usr/share/warren/slurm/job_submit.lua /etc/slurm/
cp /usr/share/warren/slurm/burst_buffer.conf /etc/slurm/
ln -sf /usr/share/warren/slurm/prolog /etc/slurm/prolog.d/zz-warren
ln -sf /usr/share/warren/slurm/epilog /etc/slurm/epilog.d/zz-warren
# The guests' first process mounts no control groups; this plugin does not look for them before they are used.
echo CgroupPlugin=cgroup/v1 > /etc/slurm/cgroup.conf
install -d -o munge -g munge /run/munge
setpriv --reuid munge --regid munge --clear-groups munged
";

/// Settings that make Slurm's time-outs ten times as long, for emulated guests on a host that has other work.
const SLOW: &str = "SlurmdTimeout=300\nMessageTimeout=60\nBatchStartTimeout=120\n";

/// Shell function `started DAEMON`: starts a daemon in the background; its output goes to /var/log/DAEMON.log.
const STARTED: &str = "started() { setsid \"$1\" -D >> \"/var/log/$1.log\" 2>&1 < /dev/null & }\n";

/// Slurm in the guests of a rabbit and its computes, with our programs and `packaging/slurm`, as a site has them.
#[derive(Debug)]
pub struct Slurm {
    /// The computers. The job in this value is not used.
    pub run: Run<Silent, System>,
    /// Unallocated bytes of each drive when there was no job.
    empty: Vec<u64>,
}

impl Slurm {
    /// Boots the guests and starts Slurm, and waits until Slurm takes jobs.
    ///
    /// # Errors
    /// When a guest, program or daemon does not start.
    pub fn boot(bench: &Bench) -> anyhow::Result<Self> {
        let mut cluster = Cluster::boot_bare(bench, COMPUTES, DRIVES, Fencing::Off)?;
        let empty = unallocated(&mut cluster.rabbit, 0..DRIVES)?;
        let unused = Storage::new(1, "gfs2", MOUNT_ROOT);
        let system = System::start(cluster)?;
        let run = Run { cluster: system, job: unused, narrator: Silent, patient: false };
        let mut slurm = Self { run, empty };
        slurm.begin().map_err(|error| slurm.explained(error))?;
        Ok(slurm)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.run.describe_system()?;
        workflow::wait_for_rabbit(&self.run)?;
        for node in self.run.cluster.nodes() {
            self.hand_over(&node)?;
            self.start_daemons(&node)?;
        }
        self.wait_for_nodes("idle")
    }

    /// Adds the last log lines of the nodes' daemons to an error.
    #[must_use]
    pub fn explained(&self, failure: anyhow::Error) -> anyhow::Error {
        self.run.cluster.explained(failure)
    }

    /// Copies `packaging` to where the node sees it.
    fn hand_over(&self, node: &str) -> anyhow::Result<()> {
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
        let exchange = self.run.cluster.guest(node).exchange().join("packaging");
        for part in PACKAGED {
            let to = exchange.join(part);
            fs::create_dir_all(&to).context("make a directory for scripts")?;
            for file in fs::read_dir(packaging.join(part)).context("list the scripts")? {
                let file = file.context("list the scripts")?;
                fs::copy(file.path(), to.join(file.file_name())).context("copy a script")?;
            }
        }
        Ok(())
    }

    fn start_daemons(&self, node: &str) -> anyhow::Result<()> {
        let daemon = if node == HEAD { "slurmctld" } else { "slurmd" };
        let configure = format!("cat > /etc/slurm/slurm.conf <<'END'\n{}END\n", configuration());
        let script = format!("{INSTALL}{configure}{STARTED}started {daemon}\n");
        self.run.cluster.run(node, &script).map(drop).with_context(|| format!("start {daemon}"))
    }

    /// Switches a compute off and on, and starts all programs as at its first boot.
    ///
    /// # Errors
    /// When the compute does not boot or its programs do not start.
    pub fn lose_power(&self, node: &str) -> anyhow::Result<()> {
        let system = &self.run.cluster;
        system.guest(node).lose_power()?;
        for step in joining(COMPUTES, Fencing::Off) {
            system.run(node, &step)?;
        }
        system.prepare(node)?;
        system.start_agent(node)?;
        self.start_daemons(node)
    }

    /// Waits until Slurm reports that a node has rebooted, and makes the node available again,
    /// as an administrator would.
    ///
    /// # Errors
    /// When the node is not idle in time.
    pub fn resume(&self, node: &str) -> anyhow::Result<()> {
        until(&format!("{node} to be down"), patience(), || {
            let shown = self.prints("scontrol", &["show", "node", "--oneliner", node])?;
            ensure!(shown.contains("Reason=Node unexpectedly rebooted"), "{shown}");
            Ok(())
        })?;
        self.prints("scontrol", &["update", &format!("NodeName={node}"), "State=RESUME"])?;
        self.wait_for_nodes("idle")
    }

    /// Submits a script whose directives and commands are `lines`, as the user.
    ///
    /// # Errors
    /// When sbatch refuses the script.
    pub fn submit(&self, words: &[&str], lines: &[&str]) -> anyhow::Result<Job> {
        let script = format!("#!/bin/bash\n{}\n", lines.join("\n"));
        let user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
        // The nodes share no directory, so a job's output is on the job's first node.
        let sbatch =
            ["sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/%j.out", "/tmp/script"];
        let words = [&user[..], &sbatch[..4], words, &sbatch[4..]].concat();
        let submit = format!("cat > /tmp/script <<'END'\n{script}END\n{}", quote(&words));
        let text = self.run.cluster.run(HEAD, &submit).context("sbatch")?;
        text.trim().parse().with_context(|| format!("the number of a job: {text}"))
    }

    /// Returns the output of a job, which is on the job's first node.
    ///
    /// # Errors
    /// When the job has printed nothing yet.
    pub fn output(&self, node: &str, job: Job) -> anyhow::Result<String> {
        self.run.cluster.run(node, &format!("sleep 1; cat /tmp/{job}.out"))
    }

    /// Checks that nothing of any job is left in Slurm, in the API, on the nodes and on the drives.
    ///
    /// # Errors
    /// When something of a job is left.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        self.wait_for_empty_queue()?;
        until("no object to be left", patience(), || {
            let left = workflow::remaining_objects(&self.run)?;
            ensure!(left.is_empty(), "left: {left:?}");
            Ok(())
        })?;
        self.run.cluster.until_empty()?;
        let left = unallocated(&mut self.run.cluster.guest(HEAD), 0..DRIVES)?;
        ensure!(left == self.empty, "drives had {:?} bytes left, and now {left:?}", self.empty);
        Ok(())
    }
}

impl Commands for Slurm {
    fn prints(&self, program: &str, words: &[&str]) -> anyhow::Result<String> {
        // Sleeps first: callers that wait repeat the command immediately, and would take the only processor from
        // Slurm's daemons.
        let line = format!("sleep 1; {program}{}", quote(words));
        self.run.cluster.guest(HEAD).run(&line, STEP)
    }
}

/// Returns the slurm.conf of all nodes.
fn configuration() -> String {
    let node = |compute| {
        format!("NodeName=compute-{compute} NodeAddr=192.168.77.{} CPUs=1\n", compute + 2)
    };
    let nodes: String = (0..COMPUTES).map(node).collect();
    format!(
        "{EVERYWHERE}ReturnToService=1\nClusterName=lab\nSlurmctldHost={HEAD}(192.168.77.1)\n{SLOW}\
         StateSaveLocation=/var/lib/slurm/slurmctld\nSlurmdSpoolDir=/var/lib/slurm/slurmd\n\
         Prolog=/etc/slurm/prolog.d/*\nEpilog=/etc/slurm/epilog.d/*\n{nodes}{PARTITION}"
    )
}
