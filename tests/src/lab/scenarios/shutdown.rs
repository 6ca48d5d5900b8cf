//! A computer with systemd is shut down properly while the file system of a job is mounted.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};

use crate::lab::{Bench, Guest, Machine, Volume};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shutdown",
    about: "systemctl poweroff with a mount in use: the mount is unmounted after job and agent stop, before LVM, its locks and the network stop",
    run,
};

const STEP: Duration = Duration::from_secs(240);

/// Unit files that the packages install.
const AGENT: &str = include_str!("../../../../systemd/warren-clientmount-agent.service");
const DROP_IN: &str = include_str!("../../../../systemd/job-mounts.conf");

/// Mount point of the job's file system.
const PATH: &str = "/mnt/nnf/job-0";

/// Script that prints on the console that a unit stops, and whether the job's file system is mounted then.
const STOPS: &str = "#!/bin/sh
mounted=$(grep -c ' /mnt/nnf/job-0 ' /proc/self/mountinfo)
echo \"stops: $1 $mounted.\" > /dev/ttyS0
";

/// Unit of the job's process, whose working directory is in the mounted file system.
const WORKLOAD_MANAGER: &str = "[Service]
WorkingDirectory=/mnt/nnf/job-0
ExecStart=/bin/sleep infinity
ExecStop=/run/stops %N
";

/// Units that a job's file system may depend on. Only the order in which they stop matters, so each unit only
/// prints when it stops.
const BELOW: [&str; 5] = ["lvmlockd", "dlm", "corosync", "pacemaker", "blk-availability"];
const BELOW_UNIT: &str = "[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/run/stops %N
";
const NETWORK: &str = "[Unit]
Wants=network.target network-online.target
Before=network.target network-online.target
";

/// Unit of the agent. This agent has no coordinator, and so leaves all file systems mounted.
const AGENT_HERE: &str = "[Service]
ExecStart=
ExecStart=/programs/clientmount-agent --node compute-1 --coordinator unix:///run/nobody.sock --listen /run/agent.sock
ExecStop=/run/stops %N
";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { systemd: true, ..Machine::with_drives("compute", 1) };
    let mut guest = Guest::boot(bench, machine.clone())?;
    let volume = Volume::carve(&mut guest, 0, 512, "0")?;
    install(&mut guest)?;
    guest.run(&(volume.find_script() + MOUNT), STEP)?;
    guest.run(&format!("systemctl start warren-clientmount-agent slurmd network-below {}\nsystemctl is-active slurmd", BELOW.join(" ")), STEP)?;

    guest.start("systemctl poweroff")?;
    guest.qmp().event("SHUTDOWN", STEP, |_| true)?;
    let console = guest.exchange().with_file_name("console.log");
    is_in_order(&console)?;
    drop(guest);
    is_clean(&mut Guest::boot(bench, machine)?, volume)
}

/// Script that makes an LVM volume, as for a job, with a file in it.
const MOUNT: &str = "
pvcreate -qq $DISK
vgcreate -qq job $DISK
lvcreate -qq -y -n data -l 100%FREE job
mkfs.xfs -q /dev/job/data
mkdir -p /mnt/nnf/job-0
mount /dev/job/data /mnt/nnf/job-0
echo written > /mnt/nnf/job-0/written
";

fn install(guest: &mut Guest) -> anyhow::Result<()> {
    let units = "/etc/systemd/system";
    let mut files = vec![
        (format!("{units}/warren-clientmount-agent.service"), AGENT.to_owned()),
        (format!("{units}/warren-clientmount-agent.service.d/here.conf"), AGENT_HERE.to_owned()),
        (format!("{units}/mnt-nnf-.mount.d/50-warren.conf"), DROP_IN.to_owned()),
        (format!("{units}/slurmd.service"), WORKLOAD_MANAGER.to_owned()),
        (format!("{units}/network-below.service"), format!("{NETWORK}{BELOW_UNIT}")),
    ];
    files.extend(
        BELOW.iter().map(|name| (format!("{units}/{name}.service"), BELOW_UNIT.to_owned())),
    );
    let put = |(path, text): &(String, String)| {
        format!("mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END'\n{text}END\n")
    };
    let script: String = files.iter().map(put).collect();
    let stops = format!("cat > /run/stops <<'END'\n{STOPS}END\nchmod 0755 /run/stops\n");
    guest.run(&format!("{script}{stops}systemctl daemon-reload"), STEP).map(drop)
}

/// Checks the order: units that use the mount stop while the mount exists, and units that the mount
/// depends on stop afterwards.
fn is_in_order(console: &Path) -> anyhow::Result<()> {
    let printed = fs::read(console).context("read the console")?;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let stops = |unit: &str, mounted: u8| {
        let line = format!("stops: {unit} {mounted}.");
        ensure!(printed.contains(&line), "no {line:?} on the console:\n{printed}");
        Ok(())
    };
    for unit in ["slurmd", "warren-clientmount-agent"] {
        stops(unit, 1)?;
    }
    BELOW.iter().chain(&["network-below"]).try_for_each(|unit| stops(unit, 0))
}

/// Checks that the file system was unmounted before the power went: then the next mount has nothing to recover.
fn is_clean(guest: &mut Guest, volume: Volume) -> anyhow::Result<()> {
    let again = format!(
        "vgchange -qq -ay job\nmkdir -p {PATH}\nmount /dev/job/data {PATH}\ncat {PATH}/written\ndmesg | grep 'XFS (dm-'\numount {PATH}"
    );
    let output = guest.run(&(volume.find_script() + &again), STEP)?;
    ensure!(output.starts_with("written\n"), "{output}");
    ensure!(output.contains("Ending clean mount") && !output.contains("recovery"), "{output}");
    Ok(())
}
