mod foreign;
pub(super) mod targets;

use std::time::Duration;

use anyhow::ensure;

use crate::{
    centre::Job,
    lab::{
        Bench, Machine, checksum,
        system::{MOUNT_ROOT, STATE, STEP_TAKEN, System},
        zfs,
    },
    run::{Run, Silent},
};

use super::{
    Scenario,
    nvme::{Before, boot, mount_again},
};
use foreign::Foreign;
use targets::TARGETS;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "zpools",
    about: "our programs make Lustre targets on real zpools; the power fails, pools and data come back; foreign pools are untouched",
    run,
};

const STEP: Duration = Duration::from_secs(300);

/// Log of the rabbit's agent since the rabbit was switched on.
const LOG: &str = "/var/log/rabbit-agent.log";

/// Script that puts the programs' state directory on a disk, so that it survives a loss of power.
const KEEP: &str =
    "mkdir -p /var/tmp/state /var/lib/warren\nmount --bind /var/tmp/state /var/lib/warren\n";

/// Script that mounts a target's dataset without Lustre.
pub(super) const LOOK: &str = "mkdir -p /mnt/look\nmount -t zfs -o zfsutil";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { memory: 1536, ..Machine::with_drives("rabbit", 4) };
    let (mut rabbit, before) = boot(bench, machine)?;
    ensure!(STATE == "/var/lib/warren", "the programs keep their state in {STATE}");
    rabbit.run(KEEP, STEP)?;
    zfs::install(bench, &mut rabbit)?;
    let foreign = Foreign::plant(&mut rabbit)?;
    let cluster = System::of_rabbit(rabbit)?;
    let job = Job::new(1, "xfs", MOUNT_ROOT);
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    let outcome = story(bench, &mut run, &foreign, &before);
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(
    bench: &Bench,
    run: &mut Run<Silent, System>,
    foreign: &Foreign,
    before: &Before,
) -> anyhow::Result<()> {
    run.describe_system()?;
    run.apply("profile", &[run.job.lustre_profile()])?;
    targets::make(run, &targets::KINDS)?;
    targets::serve(run)?;
    targets::lie_on_their_namespaces(run)?;
    let written = write_data(run)?;
    restarted_agent_finds_nothing_to_do(run)?;
    foreign.is_imported(&mut run.cluster.guest("rabbit"))?;

    lose_power(bench, run)?;
    targets_serve_again(run)?;
    foreign.is_at_rest(&mut run.cluster.guest("rabbit"))?;
    let source = targets::dataset(run, "ost", 1);
    let read =
        format!("{LOOK} {source} /mnt/look\n{}umount /mnt/look", checksum::read("/mnt/look/data"));
    let back = run.cluster.run("rabbit", &read)?;
    ensure!(back == written, "wrote {written}, read {back}");
    unfinished_target_is_made_anew(run)?;

    targets::delete_file_system(run, &targets::KINDS)?;
    foreign.is_at_rest(&mut run.cluster.guest("rabbit"))?;
    let guest = &mut run.cluster.guest("rabbit");
    foreign.check_data_and_delete(guest)?;
    before.check_unchanged(guest)?;
    foreign::no_labels(guest)
}

/// Writes into a target's dataset, leaves it mounted, and returns the checksum.
fn write_data(run: &Run<Silent, System>) -> anyhow::Result<String> {
    let source = targets::dataset(run, "ost", 1);
    let write = checksum::write("/mnt/look/data", 48);
    run.cluster.run("rabbit", &format!("{LOOK} {source} /mnt/look\n{write}"))
}

/// Restarts the agent, and checks that it finds nothing to do.
fn restarted_agent_finds_nothing_to_do(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let before = steps_taken(run)?;
    run.cluster.run("rabbit", "pkill -KILL rabbit-agent")?;
    run.cluster.start_agent("rabbit")?;
    run.cluster.run("rabbit", "sleep 20")?;
    let (before, now) = (before.lines().count(), steps_taken(run)?);
    let more: Vec<_> = now.lines().skip(before).collect();
    ensure!(more.is_empty(), "an agent that was started again found to do: {more:#?}");
    Ok(())
}

/// Switches the rabbit off and on, and checks that no pool of ours is imported before our agent runs.
fn lose_power(bench: &Bench, run: &Run<Silent, System>) -> anyhow::Result<()> {
    let mut guest = run.cluster.guest("rabbit");
    guest.lose_power()?;
    mount_again(&mut guest)?;
    guest.run(KEEP, STEP)?;
    zfs::install(bench, &mut guest)?;
    let imported = guest.run("zpool list -H -o name", STEP)?;
    ensure!(imported.is_empty(), "imported after the power went: {imported}");
    drop(guest);
    run.cluster.start_programs()
}

/// Checks that every target serves again, and that no target was formatted again.
fn targets_serve_again(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    targets::serve(run)?;
    let steps = steps_taken(run)?;
    let count = |start: &str| steps.lines().filter(|line| line.contains(start)).count();
    let wanted: usize = TARGETS.len();
    for (start, times) in [("import zpool", wanted), ("make zpool", 0), ("make Lustre target", 0)] {
        ensure!(count(start) == times, "{start:?} not {times} times in: {steps}");
    }
    Ok(())
}

/// Checks that a target whose mkfs.lustre was interrupted is destroyed and made again, and that its pool stays.
fn unfinished_target_is_made_anew(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    let source = targets::dataset(run, "ost", 1);
    let cut = format!(
        "pkill -KILL rabbit-agent\numount {MOUNT_ROOT}/{}\nzfs inherit lustre:svname {source}",
        run.job.lustre_target("ost", 1)
    );
    run.cluster.run("rabbit", &cut)?;
    let before = steps_taken(run)?.lines().count();
    run.cluster.start_agent("rabbit")?;
    targets::serve(run)?;
    let steps = steps_taken(run)?;
    let steps: Vec<_> = steps.lines().skip(before).collect();
    let at = |word: &str| steps.iter().position(|line| line.contains(word));
    let order =
        [at("destroy unfinished Lustre target"), at("make Lustre target"), at("mount lustre")];
    ensure!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {steps:#?}");
    ensure!(at("zpool").is_none(), "{steps:#?}");
    let gone = format!("{LOOK} {source} /mnt/look\nls -A /mnt/look\numount /mnt/look");
    let left = run.cluster.run("rabbit", &gone)?;
    ensure!(left.is_empty(), "left of the dataset that was destroyed: {left}");
    Ok(())
}

/// Returns the steps that the agent has taken since the rabbit was switched on, a line for each.
fn steps_taken(run: &Run<Silent, System>) -> anyhow::Result<String> {
    run.cluster.run("rabbit", &format!("grep {STEP_TAKEN} {LOG} || true"))
}
