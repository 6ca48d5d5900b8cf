use std::time::Duration;

use anyhow::{Context, ensure};

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, Drive, Machine, checksum,
        cluster::{Cluster, Fencing, joining},
        functions,
        machine::GIB,
        mishap::{Afflicted, Mishap},
        report::say,
        system::{LEFT, MOUNT_ROOT, STATE, System},
    },
    program::until,
    run::{Run, Silent},
};

use super::{
    Scenario,
    nvme::{Before, mount_again, with_system},
};

pub(super) const KILLS: Scenario = Scenario {
    name: "job-kills",
    about: "the agents of a rabbit and a compute are killed after every step of a job with XFS and one with GFS2: no data is lost, nothing leaks",
    run: |bench| lives(bench, &["xfs", "gfs2"], Mishap::Kill),
};

pub(super) const POWER: Scenario = Scenario {
    name: "power-cuts",
    about: "a rabbit or its compute loses its power after every step of a job with XFS: no data is lost, nothing leaks",
    run: |bench| lives(bench, &["xfs"], Mishap::PowerLoss(restore)),
};

pub(super) const POWER_OF_A_CLUSTER: Scenario = Scenario {
    name: "power-cuts-gfs2",
    about: "a rabbit or its compute loses its power after every step of a job with GFS2: no data is lost, nothing leaks",
    run: |bench| lives(bench, &["gfs2"], Mishap::PowerLoss(rejoin)),
};

const STEP: Duration = Duration::from_secs(300);

const COMPUTE: &str = "compute-0";

/// Fewest mishaps during a job. If there are fewer, this scenario no longer recognizes the steps in the log.
const FEWEST: usize = 16;

/// Script that puts the state directory of the rabbit's programs on a disk, so that it survives a loss of power. A
/// compute has no such disk.
pub(super) const KEEP: &str =
    "mkdir -p /var/tmp/state /var/lib/warren\nmount --bind /var/tmp/state /var/lib/warren\n";

type Life = Run<Silent, Afflicted>;

/// Runs jobs with these file systems, each from its first to its last state, one after another.
fn lives(bench: &Bench, kinds: &[&'static str], mishap: Mishap) -> anyhow::Result<()> {
    ensure!(STATE == "/var/lib/warren", "the programs keep their state in {STATE}");
    // A drive has only as many virtual functions as there are hosts, because the functions are set up again after each
    // loss of power.
    let drive = Drive { virtual_functions: 2, ..Drive::new(2 * GIB) };
    let rabbit = Machine { drives: vec![drive; 4], ..Machine::plain("rabbit") };
    let rabbit = with_system(bench, rabbit)?;
    let mut cluster = Cluster::boot_with(bench, &rabbit, 1, Fencing::Off)?;
    let before = Before::prepare(&mut cluster.rabbit)?;
    cluster.rabbit.run(KEEP, STEP)?;
    let cluster = Afflicted::new(System::start(cluster)?, mishap);
    let job = Job::new(0, "xfs", MOUNT_ROOT);
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    let outcome = run.describe_system().and_then(|()| {
        (1..).zip(kinds).try_for_each(|(number, kind)| {
            run.job = Job::new(number, kind, MOUNT_ROOT);
            live_with_mishaps(&mut run, &before).with_context(|| (*kind).to_owned())
        })
    });
    outcome.map_err(|error| run.cluster.system().explained(error))
}

/// Runs a whole job with mishaps, and checks that nothing of the job is left.
fn live_with_mishaps(run: &mut Life, before: &Before) -> anyhow::Result<()> {
    run.cluster.begin()?;
    life(run).with_context(|| format!("after {} mishaps", run.cluster.mishaps()))?;
    let mishaps = run.cluster.mishaps();
    say(&format!("   {}: {mishaps} mishaps", run.job.file_system));
    ensure!(mishaps >= FEWEST, "only {mishaps} mishaps");
    check_nothing_left(run, before)
}

/// Runs a job from its first to its last state. The rabbit mounts a GFS2 while the compute has it mounted, and
/// an XFS only afterwards.
fn life(run: &mut Life) -> anyhow::Result<()> {
    run.carve_and_mount()?;
    let file = format!("{}/data", run.job.mount_path());
    // Looks for the mount on the compute itself: the status in the API may be older than the last loss of power.
    let mounted = format!("findmnt {}", run.job.mount_path());
    until("the mount on the compute", patience(), || {
        run.cluster.system().run(COMPUTE, &mounted).map(drop)
    })?;
    let written = run.cluster.system().run(COMPUTE, &checksum::write(&file, 20))?;
    if run.job.is_shared() {
        run.mount_on_rabbit()?;
        check_read(run, &written)?;
    }
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    if !run.job.is_shared() {
        run.mount_on_rabbit()?;
    }
    check_read(run, &written)?;
    run.tear_down()
}

fn check_read(run: &mut Life, written: &str) -> anyhow::Result<()> {
    let file = format!("{}/node-0/data", run.job.mount_path());
    let there = format!("[ -e {file} ]");
    until("the file on the rabbit", patience(), || {
        run.cluster.system().run("rabbit", &there).map(drop)
    })?;
    let read = run.cluster.system().run("rabbit", &checksum::read(&file))?;
    ensure!(read == written, "the compute wrote {written}, the rabbit reads {read}");
    Ok(())
}

/// Checks that nothing of the job is left on either node, and that foreign data, which Warren did
/// not write, is unchanged.
fn check_nothing_left(run: &Life, before: &Before) -> anyhow::Result<()> {
    let system = run.cluster.system();
    before.check_unchanged(&mut system.guest("rabbit"))?;
    for node in system.nodes() {
        let left = system.run(&node, LEFT)?;
        ensure!(left.is_empty(), "left on {node}: {left}");
    }
    until("the compute to have no namespace", patience(), || {
        let namespaces = system.run(COMPUTE, functions::LIST_NAMESPACES)?;
        ensure!(namespaces.is_empty(), "the compute still has {namespaces}");
        Ok(())
    })
}

/// Mounts the rabbit's disks after a loss of the node's power, as an administrator or systemd would.
fn restore(system: &System, node: &str) -> anyhow::Result<()> {
    if node != COMPUTE {
        mount_again(&mut system.guest(node))?;
        system.run(node, KEEP)?;
    }
    Ok(())
}

/// Mounts the rabbit's disks as [`restore`] does, and lets the node join the cluster of the lock manager.
fn rejoin(system: &System, node: &str) -> anyhow::Result<()> {
    restore(system, node)?;
    joining(1, Fencing::Off).iter().try_for_each(|step| system.run(node, step).map(drop))
}
