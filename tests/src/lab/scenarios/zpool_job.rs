use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::{
    lab::{Bench, Guest, Machine, checksum, system::System, zfs},
    run::{Run, Silent},
};

use super::{
    Scenario,
    raid_job::{LOST, SPARE, WRITE, run_with_a_spare_drive, wait_for_health},
    zpools::{LOOK, targets},
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "zpool-job",
    about: "a drive of our rabbit-agent's zpool is pulled while it is written to, another takes its slot: degraded, replaced",
    run,
};

const STEP: Duration = Duration::from_secs(300);

/// Kind of the job's only Lustre target: a management target can serve without other targets.
const KIND: &str = "mgtmdt";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { memory: 1536, ..Machine::with_drives("rabbit", SPARE + 1) };
    let mut rabbit = Guest::boot(bench, machine)?;
    zfs::install(bench, &mut rabbit)?;
    run_with_a_spare_drive(rabbit, 1 << 30, story)
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.apply("profile", &[make_redundant(run.job.lustre_profile())])?;
    targets::make(run, &[(KIND, 1)])?;
    let source = targets::dataset(run, KIND, 0);
    let write = checksum::write("/mnt/look/data", 8);
    let written = run.cluster.run("rabbit", &format!("{LOOK} {source} /mnt/look\n{write}"))?;

    let write = format!("FILE=/mnt/look/more\n{WRITE}");
    let writing = run.cluster.guest("rabbit").start(&write)?;
    run.cluster.guest("rabbit").wait_for_print(writing, "\n3\n", STEP)?;
    run.cluster.guest("rabbit").unplug(LOST)?;
    wait_for_health(run, &run.job.lustre_storage(KIND), "Degraded")?;
    let printed = run.cluster.guest("rabbit").printed(writing)?.lines().count();
    let more = format!("\n{}\n", printed + 3);
    run.cluster.guest("rabbit").wait_for_print(writing, &more, STEP)?;

    run.cluster.guest("rabbit").plug_into(SPARE, LOST)?;
    wait_for_health(run, &run.job.lustre_storage(KIND), "Healthy")?;
    run.cluster.run("rabbit", "touch /run/enough")?;
    run.cluster.guest("rabbit").finish(writing, STEP)?;
    check_by_scrub(run)?;
    let read = format!("{}umount /mnt/look", checksum::read("/mnt/look/data"));
    let back = run.cluster.run("rabbit", &read)?;
    ensure!(back == written, "wrote {written}, read {back}");

    targets::delete_file_system(run, &[(KIND, 1)])
}

/// Returns the profile, changed so that the ZFS pool survives the loss of one drive. The command that replaces the
/// drive is that of the sites.
fn make_redundant(mut profile: Value) -> Value {
    let lines = &mut profile["data"]["lustreStorage"]["mgtMdtOptions"]["commandlines"];
    lines["zpoolCreate"] = json!("-O canmount=off -o cachefile=none $POOL_NAME raidz $DEVICE_LIST");
    lines["zpoolReplace"] = json!("$POOL_NAME $OLD_DEVICE $NEW_DEVICE");
    profile
}

/// Checks, by a scrub, that every block of the pool has its correct content on all four drives.
fn check_by_scrub(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let pool = targets::pool(run, KIND, 0);
    let checked =
        run.cluster.run("rabbit", &format!("zpool scrub -w {pool}\nzpool status -P -L {pool}"))?;
    let is_whole = checked.contains("scrub repaired 0B") && checked.contains("with 0 errors");
    let drives = checked.lines().filter(|line| line.trim_start().starts_with("/dev/")).count();
    let online = checked.matches("ONLINE").count();
    ensure!(is_whole && drives == 4 && online == 7, "{checked}");
    Ok(())
}
