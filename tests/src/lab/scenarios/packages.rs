//! Installs and configures the packages on a node with systemd, runs a job, upgrades the packages during the job, and
//! then removes and purges them.

mod format;
mod node;

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::{
    centre::Job,
    lab::{Bench, Guest, Machine},
    run::{Machines, Run, Silent},
};

use format::Format;
use node::Node;

use super::Scenario;

pub(super) const DEBS: Scenario = Scenario {
    name: "packages",
    about: "a job under systemd, from debs that are upgraded and removed while it writes",
    run: |bench| run(bench, Format::Deb),
};

pub(super) const RPMS: Scenario = Scenario {
    name: "packages-rpm",
    about: "a job under systemd, from rpms that are upgraded and removed while it writes",
    run: |bench| run(bench, Format::Rpm),
};

/// Longest time for a step under systemd.
const STEP: Duration = Duration::from_secs(240);

/// Directory beneath which the compute mounts.
const MOUNT_ROOT: &str = "/mnt/nnf";

/// Script that writes records to the mount until it is stopped, and prints a line for each record that is on the disk.
const WRITER: &str = "cd \"$MOUNT\"
for line in $(seq 1000000); do
    [ ! -e /run/stop ] || break
    echo $line >> written
    sync -f written
    echo \"line $line.\"
    sleep 0.2
done
wc -l < written";

fn run(bench: &Bench, format: Format) -> anyhow::Result<()> {
    let machine = Machine { memory: 3072, systemd: true, ..Machine::plain("node") };
    let node = Node::new(Guest::boot(bench, machine)?, format)?;
    node.install("before")?;
    node.configure()?;
    node.start()?;
    let job = Job::new(1, "xfs", MOUNT_ROOT);
    let mut job = Run { cluster: node, job, narrator: Silent, patient: false };
    let outcome = whole_life(&mut job);
    outcome.map_err(|failure| job.cluster.explained(failure))
}

fn whole_life(job: &mut Run<Silent, Node>) -> anyhow::Result<()> {
    job.describe_system()?;
    job.carve_and_mount()?;
    job.write()?;
    stops_in_order(job)?;
    upgrade_while_written(job)?;
    runs_on_demand(job)?;
    remove_while_mounted(job)?;
    job.unmount_from_computes()?;
    job.wait_for_computes("unmounted")?;
    job.withdraw_from_computes()?;
    job.tear_down_storage()?;
    job.cluster.purge()
}

/// Checks the order of systemd at shutdown: it stops the agents before it unmounts the file system, and unmounts before
/// it stops the services that the file system's storage may need. With systemd's default dependencies of mounts, this
/// order would be a cycle.
fn stops_in_order(job: &Run<Silent, Node>) -> anyhow::Result<()> {
    let unit = format!("unit=$(systemd-escape --path --suffix=mount {})\n", job.job.mount_path());
    let property = |what: &str| {
        let printed = job.cluster.run(&format!("{unit}systemctl show --value -p {what} $unit"))?;
        anyhow::Ok(printed.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let (before, after) = (property("Before")?, property("After")?);
    for agent in
        ["warren-clientmount-agent.service", "warren-rabbit-agent.service", "umount.target"]
    {
        ensure!(
            before.iter().any(|unit| unit == agent),
            "the mount is not ordered before {agent}, only before {before:?}"
        );
    }
    ensure!(
        before.iter().all(|unit| unit != "local-fs.target"),
        "the mount is ordered before local-fs.target, which makes a cycle: {before:?}"
    );
    for agent in ["warren-clientmount-agent", "warren-rabbit-agent"] {
        let printed = job.cluster.run(&format!("systemctl show --value -p After {agent}"))?;
        ensure!(
            printed.split_whitespace().any(|unit| unit == "remote-fs.target"),
            "{agent} starts before the site's file systems: {printed}"
        );
    }
    for below in ["dlm.service", "lvmlockd.service", "corosync.service", "pacemaker.service"] {
        ensure!(
            after.iter().any(|unit| unit == below),
            "the mount is not ordered after {below}, only after {after:?}"
        );
    }
    ensure!(
        property("Conflicts")?.iter().any(|unit| unit == "umount.target"),
        "the mount does not conflict with umount.target: it stays mounted at shutdown"
    );
    Ok(())
}

fn upgrade_while_written(job: &Run<Silent, Node>) -> anyhow::Result<()> {
    let node = &job.cluster;
    let path = job.job.mount_path();
    let mounted = || node.run(&format!("findmnt --noheadings --output ID,SOURCE {path}"));
    let processes = || {
        node.run(
            "systemctl show --value -p MainPID warren-{coordinator,rabbit-agent,clientmount-agent}",
        )
    };
    let (mount, old) = (mounted()?, processes()?);
    let writer = node.background(&format!("MOUNT={path}\n{WRITER}"))?;
    node.wait_for_print(writer, "line 3.")?;
    node.install("now")?;
    ensure!(mounted()? == mount, "the upgrade unmounted the file system and mounted it again");
    let new = processes()?;
    let kept: Vec<_> = old
        .split_whitespace()
        .filter(|process| new.split_whitespace().any(|id| id == *process))
        .collect();
    ensure!(kept.is_empty() && !new.contains("\n0"), "before the upgrade ran {old}, now {new}");
    let so_far = node.lines_written(writer)?;
    node.wait_for_print(writer, &format!("line {}.", so_far + 3))?;
    node.run("touch /run/stop")?;
    let written = node.finish(writer)?;
    let last = written.lines().rev().nth(1).context("the writer's last line")?;
    let count = written.lines().next_back().context("how many lines there are")?;
    ensure!(
        last == format!("line {}.", count.trim()),
        "the file has {count} lines, but the writer reported {last}"
    );
    Ok(())
}

/// Checks the packages' default: systemd starts the agent when a program connects to the socket, and an idle agent ends
/// while file systems stay mounted.
fn runs_on_demand(job: &Run<Silent, Node>) -> anyhow::Result<()> {
    let node = &job.cluster;
    node.run(
        "sed -i /^WARREN_IDLE_EXIT=0/d /etc/warren/clientmount-agent
        systemctl --quiet disable --now warren-clientmount-agent.service
        systemctl --quiet enable --now warren-clientmount-agent.socket",
    )?;
    let path = job.job.mount_path();
    for _ in 0..2 {
        let printed = node.run("clientmount-agent status")?;
        ensure!(printed.contains(&path), "the agent that the socket started prints: {printed}");
        node.run(&format!(
            "until [ \"$(systemctl is-active warren-clientmount-agent.service)\" = inactive ]; do sleep 1; done
            ! pgrep -x clientmount-age && findmnt --noheadings {path}"
        ))?;
    }
    node.run(
        "echo WARREN_IDLE_EXIT=0 >> /etc/warren/clientmount-agent
        systemctl --quiet disable --now warren-clientmount-agent.socket
        systemctl --quiet enable --now warren-clientmount-agent.service",
    )
    .map(drop)
}

fn remove_while_mounted(job: &Run<Silent, Node>) -> anyhow::Result<()> {
    let node = &job.cluster;
    let path = job.job.mount_path();
    node.remove_one("warren-clientmount-agent")?;
    node.run("! pgrep -x clientmount-age")?;
    let hello = node.run_on("compute-1", job.job.user, &format!("cat {path}/hello"))?;
    ensure!(hello.contains("written on compute-1"), "the job's data after the removal: {hello:?}");
    node.install_one("warren-clientmount-agent")
}
