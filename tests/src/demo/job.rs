//! Starts `warren run` for the demo. The job's command waits until the demo creates a file, the gate.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Stdio},
};

use anyhow::{Context, ensure};

use super::Screen;
use crate::{
    cluster::PATIENCE,
    program::until,
    run::{Narrator, Run},
};

/// The job's command on each compute: writes a file with the input that was copied in, waits for the gate, and reads the
/// file. `results` is copied out.
const SCRIPT: &str = "mkdir $DW_JOB_scratch/results
echo \"hello from $WARREN_NODE, with $(cat $DW_JOB_scratch/input)\" > $DW_JOB_scratch/results/hello
echo \"hello from $WARREN_NODE\" | dd of=$DW_JOB_blocks conv=notrunc,fsync status=none
touch $0/$WARREN_NODE
while [ ! -e $0/open ]; do sleep 0.05; done
echo \"$WARREN_NODE reads: $(cat $DW_JOB_scratch/results/hello)\"";

const STORAGE: [&str; 2] = [
    "#DW jobdw type=xfs capacity=320MiB name=scratch",
    "#DW jobdw type=raw capacity=64MiB name=blocks",
];

/// Returns the directives of the job, whose data is in `site`.
fn directives(site: &Path) -> [String; 4] {
    let (site, [scratch, blocks]) = (site.display(), STORAGE.map(str::to_owned));
    [
        scratch,
        blocks,
        format!("#DW copy_in source={site}/input destination=$DW_JOB_scratch/"),
        format!("#DW copy_out source=$DW_JOB_scratch/results/ destination={site}/results/"),
    ]
}

/// Creates what the job copies in, and the directory for its results, which belongs to its user.
fn prepare(site: &Path, user: u32) -> io::Result<()> {
    fs::write(site.join("input"), "the site's data\n")?;
    fs::create_dir_all(site.join("results"))?;
    chown(site.join("results"), Some(user), Some(user))
}

/// A job whose command waits for the gate.
#[derive(Debug)]
pub struct RunningJob {
    warren: Child,
    stderr: BufReader<ChildStderr>,
    gate: Gate,
}

/// The directory in which the job's command on each compute waits for the file `open`.
#[derive(Debug)]
struct Gate(PathBuf);

impl Gate {
    fn open(&self) -> io::Result<()> {
        fs::write(self.0.join("open"), "")
    }
}

impl Drop for Gate {
    /// Lets the commands end, also after a chapter that failed: they would keep the storage in use, and the next demo could
    /// not clear it away.
    fn drop(&mut self) {
        drop(self.open());
    }
}

impl RunningJob {
    /// Starts the job on all computes.
    ///
    /// # Errors
    /// When `warren run` does not start.
    pub fn start(run: &Run<Screen>) -> anyhow::Result<Self> {
        let cluster = &run.cluster;
        let gate = cluster.logs().with_file_name("gate");
        fs::create_dir_all(&gate).context("make the gate")?;
        fs::set_permissions(&gate, fs::Permissions::from_mode(0o777))
            .context("open the gate's directory to the job")?;
        let computes: Vec<&str> =
            cluster.chassis().computes.iter().map(|(name, _)| name.as_str()).collect();
        let hosts = format!("compute-[1-{}]", computes.len());
        let user = run.job.user.to_string();
        let mut argv = cluster.warren()?;
        let site = cluster.global();
        prepare(&site, run.job.user).context("prepare the site's data")?;
        let directives = directives(&site);
        argv.arg("run")
            .args(&directives)
            .args(["--nodes", &hosts, "--user", &user, "--group", &user, "--name", "demo"]);
        argv.args(["--timeline", "--launcher", &cluster.launcher()?]);
        argv.args(["--", "sh", "-ec", SCRIPT]).arg(&gate);
        let typed = format!(
            "warren run '{}' \\\n    --nodes {hosts} --timeline -- sh -c 'write, wait, read'",
            directives.join("' \\\n    '")
        );
        run.narrator.typed(&typed);
        argv.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut warren = argv.spawn().context("start warren run")?;
        let stderr =
            BufReader::new(warren.stderr.take().context("warren run has no standard error")?);
        Ok(Self { warren, stderr, gate: Gate(gate) })
    }

    /// Prints the job's messages until the job's storage is mounted and every compute has written its file.
    ///
    /// # Errors
    /// When the job ends before that.
    pub fn until_written(&mut self, run: &Run<Screen>) -> anyhow::Result<()> {
        let mut line = String::new();
        while !line.contains("PreRun") {
            line.clear();
            let length =
                self.stderr.read_line(&mut line).context("read the output of warren run")?;
            ensure!(length > 0, "warren run ended early: {:?}", self.warren.wait());
            run.narrator.note(&line);
        }
        let computes = run.cluster.chassis().computes.clone();
        until("every compute to have written", PATIENCE, || {
            let missing = computes.iter().find(|(name, _)| !self.written_mark(name).exists());
            ensure!(missing.is_none(), "{missing:?} has not");
            Ok(())
        })
    }

    fn written_mark(&self, compute: &str) -> PathBuf {
        self.gate.0.join(compute)
    }

    /// Creates the gate, and prints the rest of the job's messages.
    ///
    /// # Errors
    /// When the job fails.
    pub fn finish(self, run: &Run<Screen>) -> anyhow::Result<()> {
        self.gate.open().context("open the gate")?;
        for line in self.stderr.lines() {
            run.narrator.note(&line.context("read the output of warren run")?);
        }
        let output = self.warren.wait_with_output().context("wait for warren run")?;
        run.narrator.note(&String::from_utf8_lossy(&output.stdout));
        ensure!(output.status.success(), "warren run ended with {}", output.status);
        Ok(())
    }
}
