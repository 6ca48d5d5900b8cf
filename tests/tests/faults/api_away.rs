//! Tests in which the API server is killed, or etcd hangs.

use std::time::Duration;

use nix::sys::signal::Signal;
use tests::{
    disturbed::Disturbed,
    program::{pause, signal},
};

use crate::{computes, no_program_died, pids_of};

const ETCD_AWAY: Duration = Duration::from_secs(60);

/// Every round changes the desired state of all ClientMounts, and kills the API server while the
/// agents write their statuses.
#[test]
fn no_status_is_lost_when_the_apiserver_is_killed_under_load() -> anyhow::Result<()> {
    let mut disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(6, "raw")?;
    fixture.run.job.capacity = 4 << 20;
    fixture.run.carve_and_mount()?;
    let (pids, computes) = (pids_of(&fixture)?, computes(&fixture));
    for round in 0..6 {
        let state = if round % 2 == 0 { "unmounted" } else { "mounted" };
        let (before, after) = computes.split_at(round + 1);
        for compute in before {
            fixture.run.desire(compute, state)?;
        }
        disturbed.plane.kill_apiserver();
        disturbed.plane.start_apiserver()?;
        for compute in after {
            fixture.run.desire(compute, state)?;
        }
        fixture.run.wait_for_computes(state)?;
    }
    no_program_died(&fixture, &pids)?;
    fixture.run.unmount_from_computes()?;
    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}

/// A job continues while etcd hangs. Agents that are started during that time unmount nothing.
#[test]
fn mounts_stay_while_etcd_is_away_for_a_minute() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(2, "xfs")?;
    let run = &mut fixture.run;
    run.carve_and_mount()?;
    run.write()?;
    let etcd = disturbed.plane.etcd().expect("etcd runs");
    etcd.pause()?;
    pause(ETCD_AWAY / 2);
    for name in run.cluster.node_names() {
        run.cluster.node(&name)?.kill()?;
    }
    run.cluster.coordinator()?.kill()?;
    pause(ETCD_AWAY / 2);
    let (path, user) = (run.job.mount_path(), run.job.user);
    for (compute, _) in run.cluster.chassis().computes.clone() {
        run.cluster.run_on(
            &compute,
            user,
            &format!("cat {path}/hello && echo on >> {path}/hello"),
        )?;
    }
    etcd.resume()?;
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.mount_on_rabbit()?;
    run.tear_down()?;
    fixture.end()
}

/// The daemons are stopped while etcd is compacted: the revision of their watches is gone, and they
/// must list everything again.
#[test]
fn daemons_list_again_after_their_revision_was_compacted() -> anyhow::Result<()> {
    let mut disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(2, "raw")?;
    let pids = pids_of(&fixture)?;
    fixture.run.job.capacity = 4 << 20;
    fixture.run.carve_and_mount()?;
    for (_, pid) in &pids {
        signal(*pid, Signal::SIGSTOP)?;
    }
    fixture.run.unmount_from_computes()?;
    disturbed.plane.compact()?;
    for (_, pid) in &pids {
        signal(*pid, Signal::SIGCONT)?;
    }
    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    no_program_died(&fixture, &pids)?;
    fixture.end()
}
