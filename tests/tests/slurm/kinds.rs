//! Test of raw, XFS and persistent storage, and of every kind of Slurm job with storage.

use anyhow::{Context, ensure};
use tests::{
    cluster::output,
    cluster::patience,
    program::until,
    slurm::{Commands, Slurm},
};

use super::{XFS, slurm};

#[test]
fn jobs_of_every_kind_get_raw_xfs_or_persistent_storage() -> anyhow::Result<()> {
    let Some(slurm) = slurm("")? else { return Ok(()) };
    raw(&slurm)?;
    persistent(&slurm)?;
    interactive(&slurm)?;
    array(&slurm)?;
    requeued(&slurm)?;
    held(&slurm)?;
    slurm.end()
}

fn raw(slurm: &Slurm) -> anyhow::Result<()> {
    let write = "srun sh -c 'echo $SLURMD_NODENAME | dd of=$DW_JOB_disk conv=sync,notrunc bs=512 status=none; \
                 echo $(head -c 9 $DW_JOB_disk) $(blockdev --getsize64 $DW_JOB_disk)'";
    let raw = "#DW jobdw type=raw capacity=64MiB name=disk";
    let output = slurm
        .submit(&["--nodes=2"], &[raw, write])
        .and_then(|job| slurm.wait_until_complete(job))?;
    for node in ["compute-1", "compute-2"] {
        ensure!(output.contains(node), "no {node} in {output}");
    }
    slurm.nothing_is_left()
}

/// Submits four jobs at once: one creates persistent storage, two use it, and one destroys it.
fn persistent(slurm: &Slurm) -> anyhow::Result<()> {
    let mut before = None;
    let mut jobs = Vec::new();
    for lines in [
        ["#DW create_persistent type=xfs capacity=320MiB name=project", "true"],
        [
            "#DW persistentdw name=project",
            "srun sh -c 'echo of $SLURMD_NODENAME > $DW_PERSISTENT_project/name'",
        ],
        ["#DW persistentdw name=project", "srun sh -c 'cat $DW_PERSISTENT_project/name'"],
        ["#DW destroy_persistent name=project", "true"],
    ] {
        let after = before.map(|job: u32| format!("--dependency=afterok:{job}"));
        let words: Vec<&str> = ["--nodes=2"].into_iter().chain(after.as_deref()).collect();
        let job = slurm.submit(&words, &lines)?;
        before = Some(job);
        jobs.push(job);
    }
    let outputs: Vec<String> =
        jobs.iter().map(|job| slurm.wait_until_complete(*job)).collect::<anyhow::Result<_>>()?;
    for part in ["of compute-1", "of compute-2"] {
        ensure!(outputs[2].contains(part), "no {part:?} in {outputs:?}");
    }
    slurm.nothing_is_left()
}

fn interactive(slurm: &Slurm) -> anyhow::Result<()> {
    let mut salloc = slurm.user_command("salloc")?;
    // The first step writes and the second step reads, so the storage must stay mounted between the steps.
    let steps =
        "srun sh -c 'echo step > $DW_JOB_scratch/name' && srun sh -c 'cat $DW_JOB_scratch/name'";
    salloc.args(["--nodes=2", &format!("--bb={XFS}"), "sh", "-c", steps]);
    let printed = output(salloc).context("salloc")?;
    ensure!(printed == "step\nstep\n", "{printed}");
    let mut srun = slurm.user_command("srun")?;
    srun.args(["--nodes=2", &format!("--bb={XFS}"), "sh", "-c", "stat -f -c %T $DW_JOB_scratch"]);
    let printed = output(srun).context("srun")?;
    ensure!(printed == "xfs\nxfs\n", "{printed}");
    slurm.nothing_is_left()
}

fn array(slurm: &Slurm) -> anyhow::Result<()> {
    let write = "echo $SLURM_ARRAY_TASK_ID > $DW_JOB_scratch/name; cat $DW_JOB_scratch/name; ls $DW_JOB_scratch | wc -l";
    let words = ["--nodes=1", "--array=1-3", "--output=array-%a.out"];
    slurm.submit(&words, &[XFS, write])?;
    for task in 1..=3 {
        let file = slurm.jobs().join(format!("array-{task}.out"));
        until("a task's output", patience(), || {
            let text = std::fs::read_to_string(&file).context("read the output")?;
            ensure!(text == format!("{task}\n1\n"), "{text}");
            Ok(())
        })?;
    }
    slurm.nothing_is_left()
}

/// Checks that the second run of a requeued job has new storage, and variables with its path.
fn requeued(slurm: &Slurm) -> anyhow::Result<()> {
    let run = "echo run $SLURM_RESTART_COUNT $(ls $DW_JOB_scratch | wc -l) $DW_JOB_scratch; touch $DW_JOB_scratch/used; \
               [ -n \"$SLURM_RESTART_COUNT\" ] || exit 99";
    let job = slurm.submit(&["--nodes=2", "--requeue", "--open-mode=append"], &[XFS, run])?;
    // slurm.conf has RequeueExit=99. Slurm starts a requeued job only after two minutes; the test does not wait for
    // that.
    slurm.wait_for(job, &["Restarts=1", "JobState=PENDING"])?;
    slurm.begin_again(job)?;
    let output = slurm.wait_until_complete(job)?;
    let runs: Vec<&str> = output.lines().filter(|line| line.starts_with("run ")).collect();
    let [first, second] = runs[..] else { anyhow::bail!("{output}") };
    ensure!(first.starts_with("run 0 /") && second.starts_with("run 1 0 /"), "{output}");
    let path = |line: &str| line.rsplit(' ').next().map(str::to_owned);
    ensure!(path(first) != path(second), "{output}");
    slurm.nothing_is_left()
}

fn held(slurm: &Slurm) -> anyhow::Result<()> {
    let job = slurm.submit(&["--nodes=1", "--hold"], &[XFS, "stat -f -c %T $DW_JOB_scratch"])?;
    slurm.wait_for(job, &["Reason=JobHeldUser", "BurstBufferState=pending"])?;
    slurm.prints("scontrol", &["release", &job.to_string()])?;
    ensure!(slurm.wait_until_complete(job)?.trim() == "xfs", "{}", slurm.output(job)?);
    slurm.nothing_is_left()
}
