//! Sets a site of two rabbits and four computes up with the commands of `docs/operate/cluster-of-4.md`, read from that
//! page, under systemd; then switches a rabbit off and on.
//!
//! The scenario prints how the guests differ from a real site ([`site`]): no packages, but the commands of "Install
//! without packages" in `docs/operate/install.md`; stand-ins for ssh and scp; `/etc/hosts` instead of name resolution; 4
//! drives instead of 16.

mod page;
mod site;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use self::{page::steps, site::Site};
use super::Scenario;
use crate::{
    cluster::patience,
    lab::{Bench, report::say},
    program::until,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cluster",
    about: "two rabbits and four computes, set up by the commands of docs/operate/cluster-of-4.md; a job on both; a rabbit switched off and on",
    run,
};

/// The page whose commands set up the site.
const PAGE: &str = include_str!("../../../../docs/operate/cluster-of-4.md");

/// The rabbit that is switched off and on.
const OTHER: &str = "rabbit-2";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut site = Site::boot(bench)?;
    let outcome = set_up(&mut site).and_then(|()| switch_off_and_on(&mut site));
    outcome.map_err(|error| site.explained(error))
}

/// Runs the page's commands, each on its hosts. Its last section is for connected nodes: waits for them before it.
fn set_up(site: &mut Site<'_>) -> anyhow::Result<()> {
    let steps = steps(PAGE)?;
    let (check, before) = steps.split_last().context("the page has no commands")?;
    for step in before {
        site.paste(step)?;
    }
    until("all six nodes to be connected and healthy", patience(), || all_are_ok(site))?;
    until("both rabbits to be Ready", patience(), || {
        let (first, second) = (site.status("rabbit-1")?, site.status(OTHER)?);
        ensure!((first.as_str(), second.as_str()) == ("Ready", "Ready"), "{first}, {second}");
        Ok(())
    })?;
    let printed = site.paste(check)?;
    let connected = |line: &&str| line.split_whitespace().any(|word| word == "yes");
    let nodes = printed.lines().filter(connected).count();
    ensure!(nodes == 6, "`warren nodes` shows {nodes} connected nodes: {printed}");
    let mounted = printed.lines().filter(|line| line.contains(" /mnt/nnf/")).count();
    ensure!(mounted == 4, "the job had {mounted} of 4 file systems: {printed}");
    let left = site.run("rabbit-1", "warren workflow show")?;
    ensure!(!left.contains("warren-"), "the job left its workflow: {left}");
    Ok(())
}

fn all_are_ok(site: &mut Site<'_>) -> anyhow::Result<()> {
    let printed = site.run("rabbit-1", "warren nodes --json")?;
    let known: Value = serde_json::from_str(&printed).context("parse warren nodes")?;
    let nodes = known["nodes"].as_array().context("a list of nodes")?;
    let ok = |node: &&Value| node["connected"] == true && node["health"] == "ok";
    ensure!(nodes.len() == 6 && nodes.iter().all(|node| ok(&node)), "{printed}");
    Ok(())
}

/// Switches a rabbit off, waits until it is Offline, and switches it on again. Prints how long each took: the guests'
/// processors are emulated, so that a limit would prove nothing about real ones.
fn switch_off_and_on(site: &mut Site<'_>) -> anyhow::Result<()> {
    site.switch_off(OTHER)?;
    let took = wait_for(site, "Offline")?;
    say(&format!("{OTHER} is Offline {:.1} s after it was switched off", took.as_secs_f64()));
    site.switch_on(OTHER)?;
    let took = wait_for(site, "Ready")?;
    say(&format!("{OTHER} is Ready {:.1} s after systemd started its agent", took.as_secs_f64()));
    until("all six nodes to be connected again", patience(), || all_are_ok(site))
}

/// Waits until the rabbit has a status; returns how long that took.
fn wait_for(site: &mut Site<'_>, status: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    until(&format!("{OTHER} to be {status}"), patience(), || {
        let found = site.status(OTHER)?;
        ensure!(found == status, "it is {found}");
        Ok(begun.elapsed())
    })
}
