//! Test of a workload manager without a plugin for Warren. Its hooks call `packaging/wlm/storage`
//! and the agents' verbs.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use tests::{
    cluster::output,
    gate,
    program::{binary, command},
    workflow::Flow,
};

use super::XFS;

const USER: u32 = 1050;

/// The hooks of one job.
struct Hooks<'a> {
    flow: &'a Flow,
    job: &'a str,
}

impl Hooks<'_> {
    fn storage(&self, words: &[&str]) -> anyhow::Result<Command> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/wlm/storage");
        let warren = self.flow.fixture.run.cluster.warren()?;
        let programs = binary("warren")?.with_file_name("").display().to_string();
        let mut argv = command(script);
        argv.envs(warren.get_envs().filter_map(|(name, value)| Some((name, value?))));
        argv.env("PATH", format!("{programs}:{}", std::env::var("PATH")?));
        argv.args(words);
        Ok(argv)
    }

    /// Runs the hook that a workload manager's server runs before the job starts. Returns
    /// the job's environment variables.
    fn begin(&self, script: &Path) -> anyhow::Result<String> {
        let (user, script) = (USER.to_string(), script.display().to_string());
        output(self.storage(&["begin", self.job, &script, "compute-[1-2]", &user, &user])?)
    }

    /// Runs a verb of the agent as root on each node.
    fn on_nodes(&self, verb: &str) -> anyhow::Result<()> {
        let cluster = &self.flow.fixture.run.cluster;
        let agent = binary("clientmount-agent")?.display().to_string();
        for (node, _) in &cluster.chassis().computes {
            let socket = cluster.coordinator_socket().with_file_name(format!("{node}.sock"));
            let listen = socket.display();
            let line = format!("{agent} {verb} --job pbs-{} --listen {listen}", self.job);
            cluster.run_on(node, 0, &line)?;
        }
        Ok(())
    }
}

#[test]
fn hooks_of_any_workload_manager_can_drive_a_job() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let flow = Flow::new(2, "unused")?;
    let hooks = Hooks { flow: &flow, job: "7" };
    let script = flow.fixture.run.cluster.logs().join("job.sh");
    let write = |line: &str| {
        fs::write(&script, format!("#!/bin/sh\n#PBS -l select=2\n{line}\n"))
            .context("write the job script")
    };
    write("#DW jobdw type=ext4 capacity=320MiB name=scratch")?;
    let refused = hooks.begin(&script).err().context("the job was accepted")?;
    ensure!(format!("{refused:#}").contains("type=ext4"), "{refused:#}");
    write(XFS)?;
    let variables = hooks.begin(&script)?;
    ensure!(hooks.begin(&script)? == variables, "a second call gives other variables");
    hooks.on_nodes("mount")?;
    let job = format!(
        "set -a; {}\necho hello > $DW_JOB_scratch/greeting",
        variables.trim().replace('\n', "; ")
    );
    for node in ["compute-1", "compute-2"] {
        flow.run_on(node, &job)?;
    }
    // `end` and the epilogs run at the same time: `end` waits for the unmounts of the epilogs.
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| output(hooks.storage(&["end", "7"])?));
        hooks.on_nodes("unmount")?;
        ending.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
    })?;
    flow.nothing_is_left()?;
    hooks.begin(&script)?;
    output(hooks.storage(&["cancel", "7"])?)?;
    output(hooks.storage(&["cancel", "7"])?)?;
    flow.nothing_is_left()?;
    flow.end()
}
