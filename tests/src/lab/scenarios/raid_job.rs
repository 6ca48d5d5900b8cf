use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, Guest, Machine, checksum,
        functions::unallocated,
        system::{MOUNT_ROOT, System},
    },
    program::until,
    run::{Machines, Run, Silent},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "raid-job",
    about: "a drive of our rabbit-agent's RAID is pulled while it is written to, another takes its slot: degraded, repaired",
    run,
};

const STEP: Duration = Duration::from_secs(300);

/// Number of the drive that is pulled, and of its slot.
pub(super) const LOST: usize = 1;
/// Number of the drive that replaces the pulled drive.
pub(super) const SPARE: usize = 4;

/// Script that writes until the file /run/enough exists, and fails when a write fails.
pub(super) const WRITE: &str = "n=0; until [ -e /run/enough ]; do n=$((n+1)); dd if=/dev/urandom of=$FILE bs=256k count=4 conv=fsync status=none; echo $n; done";

/// Script that reads every stripe of the volume, and compares it with its parity.
const CHECK: &str = r#"
volume=$(lvs --noheadings -o vg_name,lv_name --separator / --devicesfile '' | tr -d ' ')
lvchange --syncaction check $volume
for try in $(seq 600); do [ "$(lvs --noheadings -o raid_sync_action $volume | tr -d ' ')" = idle ] && break; sleep 0.2; done
lvs --noheadings -o raid_mismatch_count,lv_health_status $volume | tr -d ' '
"#;

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut rabbit = Guest::boot(bench, Machine::with_drives("rabbit", SPARE + 1))?;
    rabbit.run("modprobe -a raid456 dm_raid", STEP)?;
    run_with_a_spare_drive(rabbit, 460 << 20, story)
}

/// Runs a job of `capacity` bytes on a rabbit whose last drive is only a spare. Afterwards checks that all bytes are
/// free again on all drives except the lost drive.
pub(super) fn run_with_a_spare_drive(
    mut rabbit: Guest,
    capacity: u64,
    story: fn(&mut Run<Silent, System>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let kept = [0, SPARE, 2, 3];
    let empty = unallocated(&mut rabbit, kept)?;
    rabbit.unplug(SPARE)?;
    let job = Job { capacity, ..Job::new(1, "xfs", MOUNT_ROOT) };
    let cluster = System::of_rabbit(rabbit)?;
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    let outcome = run.describe_system().and_then(|()| story(&mut run));
    outcome.map_err(|error| run.cluster.explained(error))?;
    let left = unallocated(&mut run.cluster.guest("rabbit"), kept)?;
    ensure!(left == empty, "drives had {empty:?} bytes left, and now {left:?}");
    Ok(())
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.apply("profile", &[make_redundant(run.job.profile())])?;
    let chassis = run.cluster.chassis().clone();
    let objects = [run.job.block_storage(&chassis, false), run.job.file_systems(&chassis)];
    run.apply("storage", &objects)?;
    run.wait_for_file_systems()?;
    run.mount_on_rabbit()?;
    let tree = format!("{}/node-0", run.job.mount_path());
    let written = run.cluster.run("rabbit", &checksum::write(&format!("{tree}/data"), 8))?;

    let write = format!("FILE={tree}/more\n{WRITE}");
    let writing = run.cluster.guest("rabbit").start(&write)?;
    run.cluster.guest("rabbit").wait_for_print(writing, "\n3\n", STEP)?;
    run.cluster.guest("rabbit").unplug(LOST)?;
    wait_for_health(run, &run.job.node_storage(), "Degraded")?;
    let printed = run.cluster.guest("rabbit").printed(writing)?.lines().count();
    let more = format!("\n{}\n", printed + 3);
    run.cluster.guest("rabbit").wait_for_print(writing, &more, STEP)?;

    run.cluster.guest("rabbit").plug_into(SPARE, LOST)?;
    wait_for_health(run, &run.job.node_storage(), "Healthy")?;
    run.cluster.run("rabbit", "touch /run/enough")?;
    run.cluster.guest("rabbit").finish(writing, STEP)?;
    let back = run.cluster.run("rabbit", &checksum::read(&format!("{tree}/data")))?;
    ensure!(back == written, "wrote {written}, read {back}");
    let checked = run.cluster.run("rabbit", CHECK)?;
    ensure!(checked.trim() == "0", "stripes that do not agree, and the volume's health: {checked}");

    run.tear_down()
}

/// Returns the profile, changed so that the volume survives the loss of one drive. The commands that repair the volume
/// are those of the sites.
fn make_redundant(mut profile: Value) -> Value {
    let commands = &mut profile["data"]["xfsStorage"]["blockDeviceCommands"]["rabbitCommands"];
    commands["lvCreate"] = json!(
        "--zero n --activate n --type raid5 --stripes 3 --stripesize 32KiB --extents $PERCENT_VG --name $LV_NAME $VG_NAME"
    );
    commands["lvmRebuild"] = json!({
        "vgExtend": "$VG_NAME $DEVICE", "lvRepair": "$VG_NAME/$LV_NAME", "vgReduce": "--removemissing $VG_NAME",
    });
    profile
}

/// Waits until an NnfNodeStorage reports this health of its first allocation.
pub(super) fn wait_for_health(
    run: &Run<Silent, System>,
    name: &str,
    wanted: &str,
) -> anyhow::Result<()> {
    let rabbit = &run.cluster.chassis().rabbit;
    until(&format!("the allocation to be {wanted}"), patience(), || {
        let text = run.prints(&["get", "nnfnodestorage", name, "-n", rabbit, "--json"])?;
        let object: Value = serde_json::from_str(&text).context("decode the NnfNodeStorage")?;
        let health = &object["status"]["allocations"][0]["health"];
        ensure!(health == wanted, "the NnfNodeStorage's status is {}", object["status"]);
        Ok(())
    })
}
