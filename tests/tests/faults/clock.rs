//! Tests in which every program has a different wall clock.

use anyhow::{Context, ensure};
use tests::{
    cluster::{Cluster, PATIENCE, output},
    disturbed::Disturbed,
    gate,
    program::{command, until},
};

use crate::log;

/// Returns the path of faketime's library, for LD_PRELOAD.
fn library() -> anyhow::Result<String> {
    let mut argv = command("faketime");
    argv.args(["-f", "+0s", "printenv", "LD_PRELOAD"]);
    Ok(output(argv).context("ask faketime for its library")?.trim().to_owned())
}

/// Restarts a program with a wall clock that differs by `by`. CLOCK_MONOTONIC is not changed, as on a machine
/// with a wrong date.
fn skew(cluster: &mut Cluster, name: &str, by: &str) -> anyhow::Result<()> {
    let library = library()?;
    let clock =
        [("LD_PRELOAD", library.as_str()), ("FAKETIME", by), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    if name == "coordinator" {
        // The nodes connect to the restarted coordinator by themselves.
        cluster.stop_one(name)?;
        return cluster.start_coordinator_with(&clock);
    }
    cluster.stop_one(name)?;
    cluster.start_node_with(name, &clock)
}

#[test]
fn a_job_succeeds_although_all_clocks_differ() -> anyhow::Result<()> {
    if !gate::clock() {
        return Ok(());
    }
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(2, "xfs")?;
    let cluster = &mut fixture.run.cluster;
    for (name, by) in [
        ("coordinator", "+26h"),
        ("rabbit-1", "-3d"),
        ("compute-1", "+400d"),
        ("compute-2", "-26h"),
    ] {
        skew(cluster, name, by)?;
    }
    fixture.run.describe_system()?;
    fixture.run.whole_life()?;
    fixture.end()
}

/// If a rabbit's clock shows 1970, no certificate is valid yet. The rabbit's agent logs that, and works once
/// the clock is right.
#[test]
fn a_certificate_that_is_not_valid_yet_is_logged() -> anyhow::Result<()> {
    if !gate::clock() {
        return Ok(());
    }
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(1, "raw")?;
    skew(&mut fixture.run.cluster, "rabbit-1", "@1970-06-01 00:00:00")?;
    until("the rabbit to doubt the certificate", PATIENCE, || {
        let log_text = log(fixture.run.cluster.node("rabbit-1")?)?;
        ensure!(
            log_text.contains("not valid yet"),
            "the log does not name the certificate's time:\n{log_text}"
        );
        Ok(())
    })?;
    fixture.run.cluster.stop_one("rabbit-1")?;
    fixture.run.cluster.start_node("rabbit-1")?;
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}
