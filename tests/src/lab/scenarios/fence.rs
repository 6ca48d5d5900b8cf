use std::time::Duration;

use anyhow::ensure;

use crate::lab::{
    Bench, checksum,
    cluster::{Cluster, Fencing},
    functions::{self, on_drive},
};

use super::{
    Scenario,
    gfs2::{JOIN, MAKE, MOUNT},
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fence",
    about: "a compute hangs while it holds a GFS2 lock: the rabbit waits until the compute is fenced, recovers its journal and reads on",
    run,
};

const STEP: Duration = Duration::from_secs(120);

/// Script that takes a lock on the file system mounted at `MOUNT`, and writes until it is killed.
pub(super) const HOLD: &str = r#"
touch $MOUNT/lock
exec 9< $MOUNT/lock
flock 9
n=0
while :; do n=$((n+1)); echo "line $n" >> $MOUNT/log; sync $MOUNT/log; echo $n; done
"#;

/// Returns a script that waits until the rabbit's lock manager counts a node as lost but not fenced,
/// and `left` nodes remain.
pub(super) fn wait_for_fencing(left: u8) -> String {
    format!(
        r#"
waiting() {{ corosync-quorumtool -s | grep -q '^Nodes: *{left}$' && dlm_tool ls | grep -q 'wait.*fencing'; }}
for try in $(seq 300); do waiting && exit; sleep 0.3; done
corosync-quorumtool -s; dlm_tool ls; exit 1
"#
    )
}

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut cluster = Cluster::boot(bench, 1, 2, Fencing::Acknowledged)?;
    let rabbit = &mut cluster.rabbit;
    rabbit.run(&format!("{MAKE}{MOUNT}"), STEP)?;
    let compute = &mut cluster.computes[0];
    let synced = format!("{JOIN}{MOUNT}{}", checksum::write("/mnt/it/synced", 20));
    let synced = compute.run(&synced, STEP)?;
    let holding = compute.start(&format!("MOUNT=/mnt/it\n{HOLD}"))?;
    compute.wait_for_print(holding, "\n3\n", STEP)?;
    compute.freeze()?;
    let written = compute.printed(holding)?.lines().count();

    let blocked = rabbit.start("flock /mnt/it/lock sh -c 'echo got it; wc -l < /mnt/it/log'")?;
    rabbit.run(&wait_for_fencing(1), STEP)?;
    ensure!(
        rabbit.printed(blocked)?.is_empty(),
        "the rabbit had the lock of a node that nobody had fenced"
    );

    // Fences the node by detaching its namespaces, after which it can write no more. The fence may be acknowledged only
    // after that.
    for volume in &cluster.volumes {
        let detach = format!("nvme detach-ns $CONTROLLER -n {} -c 2", volume.nsid);
        rabbit.run(&(on_drive(volume.drive) + &detach), STEP)?;
    }
    rabbit.run("dlm_tool fence_ack 2", STEP)?;
    let printed = rabbit.finish(blocked, STEP)?;
    let (_, lines) = printed.trim_end().rsplit_once('\n').unwrap_or_default();
    let lines: usize = lines.trim().parse().unwrap_or(0);
    ensure!(lines >= written, "the compute had synced {written} lines, the rabbit reads {printed}");
    let back = rabbit.run(&checksum::read("/mnt/it/synced"), STEP)?;
    ensure!(back == synced, "the compute wrote {synced}, the rabbit reads {back}");
    let replayed = "dmesg | grep 'jid=1: Journal.*replayed'\n";
    rabbit.run(&format!("{replayed}umount /mnt/it\nfsck.gfs2 -n /dev/vg0/lv-0"), STEP)?;
    fenced_compute_changes_nothing(&mut cluster)
}

/// Lets the fenced compute continue as if nothing had happened, and checks that it cannot change the file system.
fn fenced_compute_changes_nothing(cluster: &mut Cluster) -> anyhow::Result<()> {
    let media = checksum::read("/dev/vg0/lv-0");
    let before = cluster.rabbit.run(&media, STEP)?;
    let compute = &mut cluster.computes[0];
    compute.thaw()?;
    let namespaces = compute.run(functions::LIST_NAMESPACES, STEP)?;
    ensure!(namespaces.is_empty(), "the fenced compute still has {namespaces}");
    // The compute tries to write. The attempt may fail or hang.
    let sync = compute.start("sync")?;
    let _ = compute.wait(sync, Duration::from_secs(20));
    let after = cluster.rabbit.run(&media, STEP)?;
    ensure!(before == after, "a fenced compute has written");
    Ok(())
}
