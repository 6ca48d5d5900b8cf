use std::{fs::File, time::Duration};

use anyhow::{Context, ensure};

use crate::lab::{
    Bench, Guest, Machine, checksum,
    functions::{on_drive, unallocated},
    machine::SharedDisk,
    system::SYSTEM_DISK,
};

use super::Scenario;

pub(super) const LIVES: Scenario = Scenario {
    name: "nvme",
    about: "our programs carve 4 drives for XFS and raw, and are killed after every step; foreign data is unchanged, nothing leaks",
    run: lives,
};

pub(super) const POWER: Scenario = Scenario {
    name: "nvme-power",
    about: "the power fails while computes have their mounts; virtual functions, namespaces, mounts and data come back",
    run: power,
};

const STEP: Duration = Duration::from_secs(120);
const LIFE: Duration = Duration::from_secs(900);
const LIVE: &str = "export WARREN_TEST_DRIVES=nvme WARREN_TEST_PATIENCE=400\n/programs/lives";

/// Script that sets `DISK` to the block device of the controller with serial number `SERIAL`, whose
/// only namespace it is.
pub(super) const DISK: &str = r#"
for try in $(seq 200); do
    for each in /sys/class/nvme/nvme*; do
        [ "$(tr -d ' ' < "$each/serial")" = "$SERIAL" ] && [ ! -e "$each/device/physfn" ] || continue
        for disk in /sys/block/nvme*n1; do
            [ "$(cat "$disk/device/subsysnqn")" = "$(cat "$each/subsysnqn")" ] && [ "$(cat "$disk/nsid")" = 1 ] && DISK=/dev/${disk##*/}
        done
    done
    [ -n "${DISK:-}" ] && break
    sleep 0.05
done
: "${DISK:?no block device on $SERIAL}"
"#;

fn lives(bench: &Bench) -> anyhow::Result<()> {
    let mut rabbit = Rabbit::boot(bench)?;
    for kind in ["xfs", "raw"] {
        rabbit.live(kind)?;
        rabbit.is_as_before()?;
    }
    let mut deaths = 0;
    while deaths < 32 {
        let output = rabbit.live("crash")?;
        let count =
            output.trim().strip_prefix("deaths ").and_then(|count| count.parse::<u32>().ok());
        deaths += count.with_context(|| format!("the output has no number of deaths: {output}"))?;
        rabbit.is_as_before()?;
    }
    Ok(())
}

fn power(bench: &Bench) -> anyhow::Result<()> {
    let mut rabbit = Rabbit::boot(bench)?;
    let job = rabbit.guest.start(&format!("{LIVE} until-written /var/tmp/job"))?;
    let output = rabbit.guest.wait_for_print(job, "written", LIFE)?;
    for (serial, is_used) in
        [("DRIVE0", true), ("DRIVE1", true), ("DRIVE3", false), (SYSTEM_DISK, false)]
    {
        ensure!(
            output.contains(serial) == is_used,
            "{serial} used: {}; the output: {output}",
            !is_used
        );
    }
    rabbit.guest.run("sync", STEP)?;
    rabbit.guest.lose_power()?;
    mount_again(&mut rabbit.guest)?;
    rabbit.live("from-written /var/tmp/job")?;
    rabbit.is_as_before()
}

/// After a loss of power, mounts the system's disk at /var/tmp, and the foreign file system, which Warren did not make.
pub(super) fn mount_again(guest: &mut Guest) -> anyhow::Result<()> {
    mount_system(guest)?;
    guest.run(&mount_script(&Machine::serial(3), "/mnt/foreign"), STEP).map(drop)
}

/// Mounts the system's disk at /var/tmp.
pub(super) fn mount_system(guest: &mut Guest) -> anyhow::Result<()> {
    guest.run(&mount_script(SYSTEM_DISK, "/var/tmp"), STEP).map(drop)
}

fn mount_script(serial: &str, at: &str) -> String {
    format!("SERIAL={serial}\n{DISK}mkdir -p {at}\nmount $DISK {at}\n")
}

/// Makes a file system on the system's disk, and mounts it at /var/tmp.
pub(super) fn make_system(guest: &mut Guest) -> anyhow::Result<()> {
    let make = "mkfs.ext4 -q $DISK\nmount $DISK /var/tmp";
    guest.run(&format!("SERIAL={SYSTEM_DISK}\n{DISK}{make}"), STEP).map(drop)
}

/// A rabbit with four drives, two of which have foreign data, and with a system's disk.
struct Rabbit {
    guest: Guest,
    before: Before,
}

impl Rabbit {
    fn boot(bench: &Bench) -> anyhow::Result<Self> {
        let (guest, before) = boot(bench, Machine::rabbit(4))?;
        Ok(Self { guest, before })
    }

    /// Runs the program `lives` and returns its output. An error gets the end of rabbit-agent's log.
    fn live(&mut self, what: &str) -> anyhow::Result<String> {
        let outcome = self.guest.run(&format!("{LIVE} {what}"), LIFE);
        outcome.map_err(|error| {
            let log = self.guest.run("tail -n 30 /var/tmp/*/logs/rabbit-1.log", STEP);
            error.context(log.unwrap_or_default()).context(what.to_owned())
        })
    }

    fn is_as_before(&mut self) -> anyhow::Result<()> {
        self.before.check_unchanged(&mut self.guest)
    }
}

/// Boots a computer with four drives, mounts its system's disk at /var/tmp, and makes foreign namespaces, which Warren
/// must not touch, on two of the drives.
pub(super) fn boot(bench: &Bench, machine: Machine) -> anyhow::Result<(Guest, Before)> {
    let mut guest = Guest::boot(bench, with_system(bench, machine)?)?;
    let before = Before::prepare(&mut guest)?;
    Ok((guest, before))
}

/// Adds an empty system's disk to a machine.
pub(super) fn with_system(bench: &Bench, machine: Machine) -> anyhow::Result<Machine> {
    let file = bench.directory().join("system.img");
    File::create(&file).and_then(|file| file.set_len(4 << 30)).context("make the disk")?;
    let shared = vec![SharedDisk { file, serial: SYSTEM_DISK.to_owned() }];
    Ok(Machine { shared, ..machine })
}

/// State of the drives before our programs run.
pub(super) struct Before {
    /// Checksum of the foreign data on drive 1.
    foreign: String,
    /// Unallocated bytes of each drive.
    unallocated: Vec<u64>,
}

impl Before {
    /// Makes a file system on the system's disk, mounts it at /var/tmp, and makes foreign namespaces on
    /// two of four drives.
    pub(super) fn prepare(guest: &mut Guest) -> anyhow::Result<Self> {
        make_system(guest)?;
        let foreign = plant(guest)?;
        let unallocated = unallocated(guest, 0..4)?;
        Ok(Self { foreign, unallocated })
    }

    /// Checks that each drive has as many unallocated bytes as before, and that the foreign data is unchanged.
    pub(super) fn check_unchanged(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let (before, now) = (&self.unallocated, unallocated(guest, 0..4)?);
        ensure!(now == *before, "drives had {before:?} bytes left, and now {now:?}");
        let script = format!("SERIAL={}\n{DISK}{}", Machine::serial(1), read());
        let (before, now) = (&self.foreign, guest.run(&script, STEP)?);
        ensure!(now == *before, "the foreign namespace held {before}, and now {now}");
        Ok(())
    }
}

/// Makes foreign namespaces: on drive 1 a namespace with data, and on drive 3 a namespace that is mounted.
fn plant(guest: &mut Guest) -> anyhow::Result<String> {
    let make = r#"
nvme create-ns $CONTROLLER -s 16384 -c 16384 -f 4 -m 1 >/dev/null
nvme attach-ns $CONTROLLER -n 1 -c 0 >/dev/null
"#;
    let (idle, mounted) = (Machine::serial(1), Machine::serial(3));
    let data = "dd if=/dev/urandom of=$DISK bs=1M count=64 conv=fsync status=none\n";
    let script = format!("{}{make}SERIAL={idle}\n{DISK}{data}{}", on_drive(1), read());
    let foreign = guest.run(&script, STEP)?;
    let mount = "mkfs.ext4 -q $DISK\nmkdir -p /mnt/foreign\nmount $DISK /mnt/foreign";
    guest.run(&format!("{}{make}SERIAL={mounted}\n{DISK}{mount}", on_drive(3)), STEP)?;
    Ok(foreign)
}

fn read() -> String {
    checksum::read("$DISK")
}
