//! Job packages: every rabbit of a run has them before any container of the run starts.

use serde_json::{Value, json};

use super::{
    GFS2, Objects,
    containers::{PROFILE, at, running, site, with_mpi},
    on_rabbits,
};

fn with_package(site: Objects) -> Objects {
    let package =
        json!({"name": "data", "url": "http://server/data", "sha256": "0".repeat(64), "size": 1});
    site.edit(PROFILE, &json!({"data": {"packages": [package]}}))
}

fn object(rabbit: &str) -> String {
    format!("NodeContainers {rabbit}/default-w-1-packages")
}

/// The status that an agent writes once its rabbit has the package.
fn fetched(rabbit: &str) -> Value {
    let path = format!("/var/lib/{rabbit}/data");
    json!({"status": {"state": "Ready", "packages": [{"name": "data", "path": path}]}})
}

#[test]
fn containers_are_created_after_all_rabbits_have_the_packages() {
    let start = |site: Objects| {
        let site = at(with_package(site), GFS2, "PreRun").settle();
        let fetches = json!({"status": {"message": "package data is fetched"}});
        site.edit(&object("r"), &fetched("r")).edit(&object("s"), &fetches)
    };
    start(site()).plans(&[
        "w: PreRun DriverWait: DW Directive 1: pending containers on s; s: package data is fetched",
    ]).then(&object("s"), &fetched("s")).plans(&[
        "create Job default/w-r: deadline 60",
        "create Job default/w-s: deadline 60",
    ]);
    start(on_rabbits::site()).plans(&[
        "w: PreRun DriverWait: DW Directive 1: pending containers on s; s: package data is fetched",
    ]).then(&object("s"), &fetched("s")).plans(&[
        "create NodeContainers r/default-w-1: deadline 60",
        "create NodeContainers s/default-w-1: deadline 60",
    ]);
    start(with_mpi(site())).plans(&[
        "w: PreRun DriverWait: DW Directive 1: pending containers on s; s: package data is fetched",
    ]).then(&object("s"), &fetched("s")).plans(&[
        "create Job default/w-worker-0: deadline 60",
        "create Job default/w-worker-1: deadline 60",
    ]);
}

fn started() -> Objects {
    let site = at(with_package(site()), GFS2, "PreRun").settle();
    let site = site.edit(&object("r"), &fetched("r")).edit(&object("s"), &fetched("s")).settle();
    site.edit_all("Job", &running()).settle().completes()
}

#[test]
fn packages_stay_until_the_last_pod_is_gone() {
    let held = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    let site = started().edit_all("Job", &held).reach_by_force("Teardown").settle().forget();
    let site = site
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"])
        .edit_all("Job", &json!({"metadata": {"finalizers": null}}));
    site.collected().plans(&[
        "delete NodeContainers r/default-w-1-packages",
        "delete NodeContainers s/default-w-1-packages",
        "w: Teardown DriverWait: DW Directive 0: pending end of containers",
    ]);
}

/// The run uses the profile as it was in Proposal.
#[test]
fn a_package_that_cannot_be_fetched_fails_prerun_with_rabbit_and_cause() {
    let why = "package data from http://server/data: its SHA-256 is another";
    let fail = |site: Objects, state: &str| {
        let site = at(with_package(site), GFS2, "PreRun").settle();
        let site = site.edit(PROFILE, &json!({"data": {"packages": []}}));
        let failure = json!({"status": {"state": state, "message": why}});
        site.edit(&object("s"), &fetched("s")).edit(&object("r"), &failure)
    };
    fail(site(), "TooLate").plans(&[
        "w: PreRun Error: DW Directive 1: User error: container on r was not ready after 60 seconds: package data from http://server/data: its SHA-256 is another",
    ]);
    fail(on_rabbits::site(), "Unprepared").plans(&[
        "w: PreRun Error: DW Directive 1: User error: containers on r were not started: package data from http://server/data: its SHA-256 is another",
    ]);
}

/// An unreadable object may still have packages on its rabbit.
#[test]
fn teardown_waits_while_a_packages_object_cannot_be_read() {
    started()
        .unreadable(&object("r"))
        .reach_by_force("Teardown")
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"]);
}
