use std::time::Duration;

use anyhow::ensure;

use crate::lab::{
    Bench, Guest, checksum,
    cluster::{Cluster, Fencing},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "gfs2",
    about: "a rabbit and a compute share a volume group and GFS2 on two drives: data, locks, exclusive activation refused",
    run,
};

const STEP: Duration = Duration::from_secs(120);

/// Script that makes a shared volume group on all namespaces, and a GFS2 with a journal for each of two nodes.
pub(super) const MAKE: &str = r#"
disks=$(for each in /sys/block/nvme*; do [ "$(cat $each/hidden)" = 1 ] || echo "/dev/${each##*/}"; done)
for disk in $disks; do pvcreate -q $disk >/dev/null; done
vgcreate -q --shared vg0 $disks >/dev/null
vgchange -q --lock-start vg0 >/dev/null
lvcreate -q --zero n --activate n --size 400M --stripes 2 --stripesize 32KiB --name lv-0 vg0 >/dev/null
lvchange --activate sy vg0/lv-0
mkfs.gfs2 -q -O -j 2 -J 32 -p lock_dlm -t rabbit:fs0 /dev/vg0/lv-0 >/dev/null
"#;

/// Script with which a compute joins the volume group.
pub(super) const JOIN: &str = r#"
vgchange -q --lock-start vg0 >/dev/null
lvchange --activate sy vg0/lv-0
"#;

pub(super) const MOUNT: &str = "mkdir -p /mnt/it\nmount -t gfs2 /dev/vg0/lv-0 /mnt/it\n";

const LEAVE: &str = "umount /mnt/it\nlvchange --activate n vg0/lv-0\n";

/// Script that increments a number in a file 50 times, each time under a lock of the file. Both nodes run it
/// at the same time.
const COUNT: &str = "for step in $(seq 50); do flock /mnt/it/counter sh -c 'read n < /mnt/it/counter; echo $((n+1)) > /mnt/it/counter'; done";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut cluster = Cluster::boot(bench, 1, 2, Fencing::Off)?;
    let (rabbit, compute) = (&mut cluster.rabbit, &mut cluster.computes[0]);
    let ours =
        format!("{MAKE}{MOUNT}echo 0 > /mnt/it/counter\n{}", checksum::write("/mnt/it/rabbit", 20));
    let ours = rabbit.run(&ours, STEP)?;
    let theirs = format!("{JOIN}{MOUNT}{}", checksum::write("/mnt/it/compute", 20));
    let theirs = compute.run(&theirs, STEP)?;
    read(rabbit, "/mnt/it/compute", &theirs)?;
    read(compute, "/mnt/it/rabbit", &ours)?;

    let counting = (rabbit.start(COUNT)?, compute.start(COUNT)?);
    rabbit.finish(counting.0, STEP)?;
    compute.finish(counting.1, STEP)?;
    let counted = rabbit.run("cat /mnt/it/counter", STEP)?;
    ensure!(counted == "100\n", "both counted 50 times, together to {counted}");

    rabbit.run(LEAVE, STEP)?;
    let exclusive = rabbit.start("lvchange --activate ey vg0/lv-0")?;
    let refused = rabbit.wait(exclusive, STEP)?;
    ensure!(
        refused.code != 0 && refused.stderr.contains("locked by other host"),
        "exclusive activation while a compute has it shared: {refused:?}"
    );
    compute.run(&(LEAVE.to_owned() + "vgchange -q --lock-stop vg0 >/dev/null"), STEP)?;
    rabbit.run(
        "lvchange --activate ey vg0/lv-0\nlvchange --activate n vg0/lv-0\nlvremove -q -y vg0/lv-0",
        STEP,
    )?;
    Ok(())
}

fn read(guest: &mut Guest, file: &str, written: &str) -> anyhow::Result<()> {
    let back = guest.run(&checksum::read(file), STEP)?;
    ensure!(
        back == written,
        "{} reads {file} as {back}, written as {written}",
        guest.machine().name
    );
    Ok(())
}
