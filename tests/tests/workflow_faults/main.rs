//! Tests of workflows with faults, with all programs. Every workflow must end as it would without the fault,
//! and leave nothing behind.
//!
//! `FAULTS` says which test covers which fault in which states. `WARREN_TEST_LIVES` is the number of workflows in
//! each of which the coordinator is killed once; `WARREN_TEST_AWAY` is how long an API is away, in seconds. `make
//! kube LONG=1` sets both.

mod deleted;
mod killed;
mod nodes;
mod two;

use std::collections::BTreeSet;

use anyhow::ensure;
use tests::{sources::Sources, workflow::AFTER_PROPOSAL};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";
const RAW: &str = "#DW jobdw type=raw capacity=64MiB name=scratch";

const ALL: &[&str] = &["Proposal", "Setup", "DataIn", "PreRun", "PostRun", "DataOut", "Teardown"];
/// States in which no agent has work to do.
const IDLE: &[&str] = &["Proposal", "DataIn", "DataOut"];

/// Each row has a fault, states, and the test that covers the fault in these states.
const FAULTS: [(&str, &[&str], &str); 29] = [
    // Some of these tests run in memory, some with real programs, and some with their own control plane
    // (`tests/tests/faults`).
    (
        "the engine dies after every change",
        ALL,
        "an_engine_restarted_after_every_change_ends_with_the_same_objects",
    ),
    (
        "the coordinator is killed after every write",
        ALL,
        "a_workflow_succeeds_if_the_coordinator_is_killed_after_every_write",
    ),
    (
        "the coordinator is killed after one write, in one workflow for each write",
        ALL,
        "a_workflow_succeeds_if_the_coordinator_is_killed_once",
    ),
    (
        "the coordinator is killed between and during a workload manager's calls",
        ALL,
        "a_workload_managers_calls_succeed_although_the_coordinator_is_killed",
    ),
    (
        "the coordinator hangs, and the embedded API with it",
        ALL,
        "a_workflow_succeeds_if_the_coordinator_hangs_in_each_state",
    ),
    ("the API server is killed", ALL, "the_engine_waits_for_an_api_that_is_away_in_any_state"),
    ("the API's database hangs", ALL, "the_engine_waits_for_an_api_that_is_away_in_any_state"),
    (
        "two coordinators drive one workflow",
        ALL,
        "two_coordinators_at_once_drive_a_workflow_to_its_end",
    ),
    ("every write meets a conflict", ALL, "the_engine_plans_again_after_a_conflict_on_every_write"),
    (
        "every write for persistent storage meets a conflict",
        ALL,
        "the_engine_plans_persistent_storage_again_after_a_conflict_on_every_write",
    ),
    (
        "every write for containers meets a conflict",
        ALL,
        "the_engine_plans_containers_again_after_a_conflict_on_every_write",
    ),
    (
        "the rabbit's agent is dead",
        ALL,
        "the_engine_names_a_dead_rabbit_and_waits_for_the_rabbit_in_each_state",
    ),
    (
        "the rabbit's agent is killed after each of its steps",
        &["Setup", "PreRun", "PostRun", "Teardown"],
        "a_job_succeeds_when_one_program_is_killed_after_a_step",
    ),
    (
        "the rabbit's agent has nothing to do",
        IDLE,
        "the_engine_names_a_dead_rabbit_and_waits_for_the_rabbit_in_each_state",
    ),
    (
        "a rabbit reports that it cannot make the storage",
        &["Setup"],
        "a_job_goes_on_without_the_computes_of_a_rabbit_that_failed",
    ),
    (
        "a rabbit reports that it cannot make the storage",
        &["Setup"],
        "an_error_of_a_rabbit_is_reported_with_its_name_and_ends_with_the_error",
    ),
    (
        "a compute is dead before its mount",
        &["PreRun"],
        "the_engine_names_a_dead_compute_and_waits_for_it_before_during_and_after_its_mount",
    ),
    (
        "a compute dies during its mount",
        &["PreRun"],
        "the_engine_names_a_dead_compute_and_waits_for_it_before_during_and_after_its_mount",
    ),
    (
        "a compute dies after its mount",
        &["PostRun"],
        "the_engine_names_a_dead_compute_and_waits_for_it_before_during_and_after_its_mount",
    ),
    (
        "a compute that is down never comes back",
        &["PostRun", "Teardown"],
        "the_engine_does_not_wait_for_a_compute_that_is_marked_down",
    ),
    ("a compute is down", &["PreRun"], "a_compute_that_is_down_is_named_with_the_evidence"),
    ("a compute's mount fails", &["PreRun"], "a_job_goes_on_without_a_compute_whose_mount_failed"),
    (
        "an object is deleted by hand, in memory: each kind",
        ALL,
        "deleted_objects_are_created_again_or_reported",
    ),
    (
        "an object is deleted by hand, while all is mounted: each kind",
        &["PreRun"],
        "an_object_that_is_deleted_under_a_job_is_made_again_or_reported",
    ),
    ("the workflow is deleted", ALL, "a_workflow_deleted_after_any_change_leaves_nothing"),
    (
        "the workflow is deleted while it is mounted",
        &["PreRun"],
        "a_workflow_that_is_deleted_while_it_is_mounted_leaves_nothing",
    ),
    ("the job is aborted", ALL, "a_job_is_aborted_in_each_state_and_leaves_nothing"),
    (
        "objects have fields that our definitions do not know",
        ALL,
        "the_engine_keeps_fields_that_it_does_not_know",
    ),
    (
        "an object cannot be read",
        &["PostRun", "Teardown"],
        "computes_keep_access_and_storage_stays_while_a_clientmount_cannot_be_read",
    ),
];

#[test]
fn every_fault_has_a_test() -> anyhow::Result<()> {
    let sources = Sources::read()?;
    for (fault, states, test) in FAULTS {
        ensure!(sources.has_test(test), "{fault}: there is no test {test}");
        ensure!(states.iter().all(|state| ALL.contains(state)), "{fault}: {states:?}");
    }
    let shown: BTreeSet<&str> = FAULTS.iter().flat_map(|(_, states, _)| *states).copied().collect();
    ensure!(AFTER_PROPOSAL.iter().all(|state| shown.contains(state)), "{shown:?}");
    Ok(())
}
