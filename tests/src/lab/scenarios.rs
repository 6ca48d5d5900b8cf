//! The lab's scenarios, one per file.

mod adoption;
mod allocations;
mod boot;
mod chassis;
mod cluster;
mod containers_job;
mod copies_job;
mod cuts;
mod drives;
mod fence;
mod fence_job;
mod gfs2;
mod health;
mod jobs;
mod kubernetes;
mod main_job;
mod mishaps;
mod nvme;
mod packages;
mod power;
mod raid;
mod raid_job;
mod shared;
mod shutdown;
mod slurm;
mod unplug;
mod unplug_job;
mod volumes;
mod zpool_job;
mod zpools;

use std::time::Instant;

use anyhow::ensure;

use crate::program::interrupted;

use super::{
    Assets, Bench,
    report::{Row, say, table},
};

/// One test of the lab. Each scenario boots its own guests.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name by which `make lab SCENARIO=` selects it.
    pub name: &'static str,
    /// Description of the scenario in one line.
    pub about: &'static str,
    run: fn(&Bench) -> anyhow::Result<()>,
}

/// Scenarios that run by default, in this order.
pub const ALL: &[Scenario] = &[
    boot::SCENARIO,
    main_job::SCENARIO,
    drives::SCENARIO,
    volumes::SCENARIO,
    cuts::SCENARIO,
    nvme::LIVES,
    nvme::POWER,
    mishaps::KILLS,
    mishaps::POWER,
    mishaps::POWER_OF_A_CLUSTER,
    allocations::SCENARIO,
    chassis::SCENARIO,
    jobs::SCENARIO,
    unplug::SCENARIO,
    unplug_job::SCENARIO,
    health::SCENARIO,
    raid::SCENARIO,
    raid_job::SCENARIO,
    power::SCENARIO,
    shutdown::SCENARIO,
    gfs2::SCENARIO,
    shared::SCENARIO,
    adoption::SCENARIO,
    fence::SCENARIO,
    fence_job::SCENARIO,
    cluster::SCENARIO,
    slurm::GFS2,
    slurm::REBOOT,
    containers_job::SCENARIO,
    copies_job::SCENARIO,
    kubernetes::JOB,
    kubernetes::MPI,
    zpools::SCENARIO,
    zpool_job::SCENARIO,
];

/// Scenarios that run only when a user names them: they need packages, which the lab does not build.
const NAMED: &[Scenario] = &[packages::DEBS, packages::RPMS];

/// Returns the scenarios with these names, or the default scenarios if no name is given.
///
/// # Errors
/// When no scenario has one of the names.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    let all = || ALL.iter().chain(NAMED);
    let known = || all().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    for name in names {
        let exists = all().any(|scenario| scenario.name == name);
        ensure!(exists, "scenario {name:?} does not exist; there are: {}", known());
    }
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    Ok(all().filter(|scenario| names.iter().any(|name| name == scenario.name)).copied().collect())
}

/// Runs scenarios one after another, prints the table, and returns whether all passed.
#[must_use]
pub fn run(assets: &Assets, scenarios: &[Scenario]) -> bool {
    let mut rows = Vec::new();
    for scenario in scenarios.iter().take_while(|_| !interrupted()) {
        rows.push(attempt(assets, scenario));
    }
    say(&format!("\n{}", table(&rows).trim_end()));
    rows.len() == scenarios.len() && rows.iter().all(|row| row.failure.is_none())
}

fn attempt(assets: &Assets, scenario: &Scenario) -> Row {
    say(&format!("== {}: {}", scenario.name, scenario.about));
    let begun = Instant::now();
    let failure = Bench::new(assets.clone())
        .and_then(|bench| (scenario.run)(&bench).map_err(|error| keep_files(error, bench)))
        .err()
        .map(|error| format!("{error:#}"));
    if let Some(failure) = &failure {
        say(&format!("FAILED: {failure}"));
    }
    Row { scenario: scenario.name, took: begun.elapsed(), failure }
}

/// Keeps the guests' output and names its directory in the error. Keeps nothing if a person interrupted the run.
fn keep_files(error: anyhow::Error, bench: Bench) -> anyhow::Error {
    if interrupted() {
        return error;
    }
    error.context(format!("kept in {}", bench.keep().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_selects_all_and_an_unknown_name_is_refused_with_the_known_ones() {
        assert_eq!(select(&[]).unwrap().len(), ALL.len());
        assert_eq!(select(&["boot".to_owned()]).unwrap().len(), 1);
        let error = select(&["bot".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"bot\"") && error.contains("boot"), "{error}");
    }
}
