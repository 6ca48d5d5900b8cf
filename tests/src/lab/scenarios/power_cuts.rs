use std::time::Duration;

use anyhow::{Context, ensure};

use crate::{
    centre::Job,
    lab::{
        Bench, Machine,
        report::say,
        system::{MOUNT_ROOT, STATE, STEP_TAKEN, System},
    },
    program::until,
    run::{Run, Silent},
};

use super::{
    Scenario,
    nvme::{Before, boot, mount_again},
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "power-cuts",
    about: "the rabbit's power goes after each step of making an XFS and of taking it back: it converges, nothing foreign is touched",
    run,
};

const STEP: Duration = Duration::from_secs(300);

/// Fewer cuts than this, and steps are not told any more as this scenario knows them.
const FEWEST: usize = 16;

const LOG: &str = "/var/log/rabbit-agent.log";

/// What outlives the power beneath the directory of the programs' state.
const KEEP: &str =
    "mkdir -p /var/tmp/state /var/lib/warren\nmount --bind /var/tmp/state /var/lib/warren\n";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let (mut rabbit, before) = boot(bench, Machine::with_drives("rabbit", 4))?;
    ensure!(STATE == "/var/lib/warren", "the programs keep their state in {STATE}");
    rabbit.run(KEEP, STEP)?;
    let cluster = System::of_rabbit(rabbit)?;
    let job = Job::new(0, "xfs", MOUNT_ROOT);
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    let outcome = story(&mut run, &before);
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(run: &mut Run<Silent, System>, before: &Before) -> anyhow::Result<()> {
    run.describe_system()?;
    let mut cuts = 0;
    for step in 1.. {
        let cut = round(run, before, step).with_context(|| format!("cut at step {step}"))?;
        cuts += cut;
        if cut == 0 {
            break;
        }
    }
    say(&format!("   the power went {cuts} times"));
    ensure!(cuts >= FEWEST, "the power went only {cuts} times");
    Ok(())
}

/// One life, in which the power goes after `step` steps of making, and of taking back; how many times it did.
fn round(run: &mut Run<Silent, System>, before: &Before, step: u32) -> anyhow::Result<usize> {
    run.job = Job::new(step, "xfs", MOUNT_ROOT);
    let name = run.job.node_storage();
    let begun = taken(run)?;
    run.carve()?;
    let ready = format!("wait nnfnodestorage/{name} -n rabbit --for ready --timeout 300s");
    let mut cuts = power_goes(run, begun, step, &ready)?;
    run.wait_for_file_systems()?;
    let gone = format!(
        "delete nnfnodestorage/{name} nnfnodeblockstorage/{name} -n rabbit --ignore-not-found"
    );
    cuts += power_goes(run, taken(run)?, step, &gone)?;
    run.prints(&gone.split(' ').collect::<Vec<_>>())?;
    run.warren(&["delete", "nnfstorageprofile", &run.job.directive(), "-n", "default"])?;
    before.is_so_again(&mut run.cluster.guest("rabbit"))?;
    let left = run.cluster.run(
        "rabbit",
        "dmsetup ls | grep -v '^No devices' || true; findmnt --noheadings --types xfs || true",
    )?;
    ensure!(left.is_empty(), "left on the rabbit: {left}");
    Ok(cuts)
}

/// Cuts the power when the agent has taken `step` steps more than `begun`; 1, or 0 when `warren` was over before.
fn power_goes(
    run: &Run<Silent, System>,
    begun: u32,
    step: u32,
    warren: &str,
) -> anyhow::Result<usize> {
    let last = begun + step;
    // The agent is held where it is, so that it makes no difference how long the power takes to go.
    let script = format!(
        r#"export WARREN_API=unix:///run/warren/api.sock
tail -n +1 -f {LOG} | grep --line-buffered {STEP_TAKEN} | {{
    head -n {last} > /run/seen
    [ "$(wc -l < /run/seen)" -lt {last} ] || {{ pkill -STOP rabbit-agent; echo taken; }}
}} &
/programs/warren {warren} > /dev/null
pkill tail
echo over"#
    );
    let job = run.cluster.guest("rabbit").start(&script)?;
    let cut = until("a step to be taken, or the work to be over", STEP, || {
        let printed = run.cluster.guest("rabbit").printed(job)?;
        ensure!(!printed.is_empty(), "neither yet");
        Ok(printed.contains("taken"))
    })?;
    if cut {
        run.cluster.guest("rabbit").reset()?;
        begin_again(run)?;
    }
    Ok(cut.into())
}

/// What is done by hand, or by systemd, after a loss of power.
fn begin_again(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let mut guest = run.cluster.guest("rabbit");
    mount_again(&mut guest)?;
    guest.run(KEEP, STEP)?;
    drop(guest);
    run.cluster.start_programs()
}

/// Steps that the agent has taken since it was started.
fn taken(run: &Run<Silent, System>) -> anyhow::Result<u32> {
    let count = run.cluster.run("rabbit", &format!("grep -c {STEP_TAKEN} {LOG} || true"))?;
    count.trim().parse().with_context(|| format!("steps taken: {count:?}"))
}
