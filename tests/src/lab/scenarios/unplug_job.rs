use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        self, Bench, checksum,
        cluster::{Cluster, Fencing},
        functions::unallocated,
        system::{LEFT, MOUNT_ROOT, System},
    },
    program::until,
    run::{Run, Silent},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "unplug-job",
    about: "a compute loses a drive, then its link, and the rabbit loses a drive, each while a job is mounted: the agents clean up, and the next job works",
    run,
};

const STEP: Duration = Duration::from_secs(300);

const DRIVES: usize = 2;
const COMPUTE: &str = "compute-0";

/// Script that writes until a write fails.
const WRITE: &str = "n=0; while dd if=/dev/zero of=$FILE bs=64k count=16 oflag=direct,sync status=none; do n=$((n+1)); echo written $n; done";

/// Shell function `recovered COUNT`: waits until the kernel has recovered `COUNT` drives after resets of their links.
const RECOVERED: &str = r#"
recovered() {
    for try in $(seq 600); do
        [ "$(dmesg | grep -c 'AER: device recovery successful')" -ge "$1" ] && return
        sleep 0.1
    done
    dmesg | tail -n 30 >&2
    exit 1
}"#;

/// Script that switches the power of all slots off at once, without the delay of five seconds after a
/// slot's button was pressed.
const POWER_SLOTS_OFF: &str = r#"
for slot in /sys/bus/pci/slots/*; do
    [ -d "$slot" ] && echo 0 > "$slot/power" &
done
wait"#;

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut cluster = Cluster::boot_bare(bench, 1, DRIVES, Fencing::Off)?;
    let empty = unallocated(&mut cluster.rabbit, 0..DRIVES)?;
    let job = Job::new(1, "xfs", MOUNT_ROOT);
    let mut run = Run { cluster: System::start(cluster)?, job, narrator: Silent, patient: false };
    run.describe_system()?;
    let outcome = compute_loses_a_drive(&mut run)
        .and_then(|()| end_job(&mut run, &empty))
        .and_then(|()| compute_loses_its_link(&mut run))
        .and_then(|()| end_job(&mut run, &empty))
        .and_then(|()| rabbit_loses_a_drive(&mut run))
        .and_then(|()| end_job(&mut run, &empty));
    outcome.map_err(|error| run.cluster.explained(error))
}

/// Pulls a drive of the compute, and checks that the writer gets an error and that the file system
/// is unmounted as usual.
fn compute_loses_a_drive(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    let writing = start_writing(run)?;
    run.cluster.guest(COMPUTE).unplug(0)?;
    writer_fails(run, writing)?;
    unmount(run)?;
    run.cluster.guest(COMPUTE).plug(0)
}

/// Resets the compute's PCIe links, as after errors, and checks that the writer continues. Then switches off all links,
/// and with them all drives, at once.
fn compute_loses_its_link(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.job = Job::new(2, "xfs", MOUNT_ROOT);
    let writing = start_writing(run)?;
    for slot in 0..DRIVES {
        // Injects a Data Link Protocol error. It is fatal, so the kernel resets the link.
        let error = json!({ "command-line": format!("pcie_aer_inject_error slot{slot} DLP") });
        run.cluster.guest(COMPUTE).qmp().execute("human-monitor-command", &error)?;
    }
    run.cluster.run(COMPUTE, &format!("{RECOVERED}\nrecovered {DRIVES}"))?;
    let written = run.cluster.guest(COMPUTE).printed(writing)?.lines().count();
    let more = format!("written {}\n", written + 3);
    run.cluster.guest(COMPUTE).wait_for_print(writing, &more, STEP)?;

    run.cluster.run(COMPUTE, POWER_SLOTS_OFF)?;
    writer_fails(run, writing)?;
    unmount(run)?;
    (0..DRIVES).try_for_each(|drive| run.cluster.guest(COMPUTE).plug(drive))
}

/// Mounts a job's file system and starts a writer.
fn start_writing(run: &mut Run<Silent, System>) -> anyhow::Result<lab::job::Job> {
    run.carve_and_mount()?;
    let write = format!("FILE={}/more\n{WRITE}", run.job.mount_path());
    let writing = run.cluster.guest(COMPUTE).start(&write)?;
    run.cluster.guest(COMPUTE).wait_for_print(writing, "written 2\n", STEP)?;
    Ok(writing)
}

/// Checks that the writer has ended with an error message of dd.
fn writer_fails(run: &Run<Silent, System>, writing: lab::job::Job) -> anyhow::Result<()> {
    let ended = run.cluster.guest(COMPUTE).wait(writing, STEP)?;
    ensure!(ended.stderr.contains("dd:"), "the writer ended without an error: {}", ended.stderr);
    Ok(())
}

/// Pulls a drive of the rabbit. The compute continues, because it has its own links to the drives. The rabbit reports
/// the loss, and recovers when the drive is back.
fn rabbit_loses_a_drive(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.job = Job::new(3, "xfs", MOUNT_ROOT);
    run.carve_and_mount()?;
    let file = format!("{}/data", run.job.mount_path());
    let written = run.cluster.run(COMPUTE, &checksum::write(&file, 8))?;
    run.cluster.guest("rabbit").unplug(1)?;
    drive_is(run, "Offline")?;
    let back = run.cluster.run(COMPUTE, &checksum::read(&file))?;
    ensure!(back == written, "wrote {written}, read {back}");
    run.cluster.guest("rabbit").plug(1)?;
    drive_is(run, "Ready")?;
    let back = run.cluster.run(COMPUTE, &checksum::read(&file))?;
    ensure!(back == written, "wrote {written}, read {back} once the drive was back");
    unmount(run)
}

fn unmount(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    let left = run.cluster.run(COMPUTE, LEFT)?;
    ensure!(left.is_empty(), "left on the compute: {left}");
    Ok(())
}

fn end_job(run: &mut Run<Silent, System>, empty: &[u64]) -> anyhow::Result<()> {
    run.withdraw_from_computes()?;
    run.tear_down_storage()?;
    let left = unallocated(&mut run.cluster.guest("rabbit"), 0..DRIVES)?;
    ensure!(left == *empty, "drives had {empty:?} bytes left, and now {left:?}");
    Ok(())
}

/// Waits until the NnfNode reports the status `wanted` of the second drive.
fn drive_is(run: &Run<Silent, System>, wanted: &str) -> anyhow::Result<()> {
    until(&format!("the drive to be {wanted}"), patience(), || {
        let text = run.prints(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit", "--json"])?;
        let node: Value = serde_json::from_str(&text).context("decode the NnfNode")?;
        let status = &node["status"]["drives"][1]["status"];
        ensure!(status == wanted, "the drives are {}", node["status"]["drives"]);
        Ok(())
    })
}
