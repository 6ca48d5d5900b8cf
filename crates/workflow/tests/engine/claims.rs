//! Several coordinators drive the same workflows: these tests cover take-overs of claims, and the changes that the API
//! refuses after a take-over. Numbers such as S2.2 name the scenarios of `crates/containers/src/claim/scenarios.rs`.

use std::{collections::BTreeMap, time::Duration};

use api::ContainerRun;
use containers::claim::{
    Holder,
    rules::{Part, admit},
};
use serde_json::{Value, json};
use workflow::{
    change::{Change, ClaimRef},
    claims::LeaseStates,
    world::World,
};

use crate::{
    containers::{complete, lines, running, site},
    job::STATES,
    site::{Site, at},
};

/// The coordinator that runs the engine (`me`), and the coordinators whose Leases it saw expire. If `is_silent`, this
/// coordinator has not renewed its own Lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Coordinator {
    pub(crate) me: Option<Holder>,
    pub(crate) is_silent: bool,
    pub(crate) expired: Vec<&'static str>,
}

impl Coordinator {
    /// Delivers five lists of Leases: the version of an expired Lease stays the same, all others change each time.
    pub(crate) fn deliver_leases(&self, world: &mut World) {
        let names = ["a/1", "a/2", "b/1"];
        for at in [0, 10, 20, 30, 40] {
            let version = |name: &str| match self.expired.contains(&name) {
                true => "1".to_owned(),
                false => at.to_string(),
            };
            let leases: BTreeMap<String, String> =
                names.iter().map(|name| ((*name).to_owned(), version(name))).collect();
            let (may_act, at) = (!self.is_silent, Duration::from_secs(at));
            world.take_leases(&LeaseStates { may_act, leases: Some(leases), at });
        }
    }
}

impl Site {
    /// Makes the engine run as this coordinator.
    pub(crate) fn becomes(&mut self, pod: &str, nonce: &str, expired: &[&'static str]) {
        let expired = expired.to_vec();
        self.claims = Coordinator { me: Some(Holder::new(pod, nonce)), is_silent: false, expired };
    }

    /// Checks that the API has the claim that a change names.
    pub(crate) fn check_claim(&self, claim_ref: &ClaimRef) -> Result<(), String> {
        let run = self.objects.get(&at("ContainerRun", &claim_ref.namespace, &claim_ref.name));
        let run = run.filter(|run| run["metadata"]["uid"] == *claim_ref.uid);
        let claim = run.map(|run| run["status"]["claim"].clone()).unwrap_or_default();
        if claim == json!({"holder": claim_ref.holder, "epoch": claim_ref.epoch}) {
            Ok(())
        } else {
            Err(format!("{claim_ref:?} is lost: {claim}"))
        }
    }

    /// Applies the API's rules for ContainerRuns.
    pub(crate) fn admit_run(&self, by: &Change, old: &Value, new: &Value) -> Result<(), String> {
        let me = self.claims.me.as_ref().map_or("", Holder::as_str);
        let pod = me.split('/').next();
        let part = if matches!(by, Change::Status(..)) { Part::Status(pod) } else { Part::Main };
        admit(Some(old), new, part)
    }

    fn run_of(&self, name: &str) -> ContainerRun {
        serde_json::from_value(self.get("ContainerRun", "default", name).clone()).unwrap()
    }

    /// Returns phase, holder, epoch and attempt of the run of workflow `w`.
    fn claim(&self) -> (String, String, i64, i32) {
        let status = self.run_of("w-1").status.unwrap();
        let (claim, attempt) = (status.claim, status.attempt);
        (status.phase.to_string(), claim.holder, claim.epoch, attempt)
    }

    /// Returns a site where coordinator `a` brought the containers of `w` to a state.
    fn with_containers_of_a(to: &str) -> Self {
        let mut site = site();
        site.becomes("a", "1", &[]);
        site.bring_towards("w", &lines("gfs2"), "DataIn");
        for state in ["PreRun", "PostRun"] {
            site.request_state("w", state);
            site.settle();
            if state == to {
                return site;
            }
            site.set_all_job_status(&running());
        }
        site
    }

    fn uids(&self) -> Vec<Value> {
        let jobs = self.objects.iter().filter(|(at, _)| at.0 == "Job");
        jobs.map(|(_, job)| job["metadata"]["uid"].clone()).collect()
    }
}

fn assert_claim(site: &Site, phase: &str, holder: &str, epoch: i64, attempt: i32) {
    let expected = (phase.to_owned(), holder.to_owned(), epoch, attempt);
    assert_eq!(site.claim(), expected, "{}", site.message("w"));
}

#[test]
fn a_run_is_claimed_before_its_containers_are_created_and_records_their_progress() {
    let mut site = Site::with_containers_of_a("PreRun");
    assert_claim(&site, "Starting", "a/1", 1, 1);
    assert_eq!(site.names("Job").len(), 2);
    assert_eq!(site.run_of("w-1").spec.rabbits, ["r", "s"]);
    site.set_all_job_status(&running());
    assert_claim(&site, "Running", "a/1", 1, 1);
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.request_state("w", "PostRun");
    site.settle();
    assert_claim(&site, "Running", "a/1", 1, 1);
    site.set_all_job_status(&complete());
    assert_claim(&site, "Succeeded", "a/1", 1, 1);
    for state in ["DataOut", "Teardown"] {
        site.request_state("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    assert_claim(&site, "Succeeded", "a/1", 1, 1);
    assert!(site.names("Job").is_empty() && site.names("Service").is_empty());
    site.remove("w");
    assert!(site.names("ContainerRun").is_empty());
}

#[test]
fn another_coordinator_changes_nothing_until_the_holders_lease_expires() {
    for (phase, report) in [("Starting", None), ("Running", Some(running()))] {
        let mut site = Site::with_containers_of_a("PreRun");
        report.iter().for_each(|status| site.set_all_job_status(status));
        let made = site.uids();
        site.becomes("b", "1", &[]);
        site.settle();
        assert_claim(&site, phase, "a/1", 1, 1);
        site.request_state("w", "Teardown");
        site.settle();
        assert_eq!(site.uids(), made, "{phase}: b changes no container while a has the claim");
        assert_claim(&site, phase, "a/1", 1, 1);
        assert!(site.message("w").contains("end of containers"), "{}", site.message("w"));
        site.becomes("b", "1", &["a/1"]);
        site.settle();
        assert_claim(&site, "Cancelled", "b/1", 2, 1);
        assert!(
            site.uids().is_empty() && site.is_ready("w", "Teardown"),
            "{:?}",
            site.status_of("w")
        );
    }
}

/// S2.2: the restarted coordinator claims the run again, and the containers continue to run unchanged.
#[test]
fn a_restarted_coordinator_claims_its_run_again_and_keeps_the_containers() {
    let mut site = Site::with_containers_of_a("PreRun");
    site.set_all_job_status(&running());
    let made = site.uids();
    site.becomes("a", "2", &["a/1"]);
    site.request_state("w", "PostRun");
    site.settle();
    assert_claim(&site, "Running", "a/2", 2, 1);
    assert_eq!(site.uids(), made);
    site.set_all_job_status(&complete());
    assert_claim(&site, "Succeeded", "a/2", 2, 1);
}

#[test]
fn postrun_is_ready_only_after_the_containerrun_records_the_end_of_the_containers() {
    let mut site = Site::with_containers_of_a("PostRun");
    site.becomes("b", "1", &[]);
    site.set_all_job_status(&complete());
    assert_claim(&site, "Running", "a/1", 1, 1);
    assert!(!site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    assert!(site.message("w").contains("coordinator a/1"), "{}", site.message("w"));
    site.becomes("b", "1", &["a/1"]);
    site.settle();
    assert_claim(&site, "Succeeded", "b/1", 2, 1);
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
}

/// S2.3: a coordinator is paused after planning, and another coordinator takes over: the API refuses all changes
/// of the paused coordinator.
#[test]
fn changes_planned_before_a_takeover_are_refused() {
    let mut site = Site::with_containers_of_a("PreRun");
    site.agents_sleep = true;
    site.request_state("w", "Teardown");
    let mut stale = Vec::new();
    while stale.is_empty() {
        let planned = site.plan_all();
        stale = planned
            .iter()
            .filter(|change| matches!(change, Change::IfClaimed(..)))
            .cloned()
            .collect();
        let others = planned.iter().filter(|change| !matches!(change, Change::IfClaimed(..)));
        others.for_each(|change| site.make(change).unwrap());
    }
    site.becomes("b", "1", &["a/1"]);
    while site.claim().1 == "a/1" {
        site.step(|length| (0..length.min(1)).collect());
    }
    let made = site.uids();
    for change in &stale {
        let refused = site.make(change).unwrap_err();
        assert!(refused.contains("is lost"), "{refused}");
    }
    assert_eq!(site.uids(), made);
}

#[test]
fn a_coordinator_whose_lease_has_expired_changes_nothing() {
    let mut site = Site::with_containers_of_a("PreRun");
    site.claims.is_silent = true;
    site.set_all_job_status(&running());
    assert_claim(&site, "Starting", "a/1", 1, 1);
    assert_eq!(
        site.deadlines(),
        [json!(60), json!(60)],
        "with a valid Lease, the coordinator would have removed the start deadlines"
    );
    site.claims.is_silent = false;
    site.settle();
    assert_claim(&site, "Running", "a/1", 1, 1);
}

/// S6.1: the containers end with their run, in every phase of the run.
#[test]
fn containers_cancelled_in_any_phase_of_their_run_leave_nothing() {
    for (phase, report) in [("Claimed", None), ("Starting", None), ("Running", Some(running()))] {
        let mut site = site();
        site.becomes("a", "1", &[]);
        site.bring_towards("w", &lines("gfs2"), "DataIn");
        site.agents_sleep = phase == "Claimed";
        site.request_state("w", "PreRun");
        site.settle();
        site.agents_sleep = false;
        if phase != "Claimed" {
            site.settle();
        }
        report.iter().for_each(|status| site.set_all_job_status(status));
        assert_claim(&site, phase, "a/1", 1, 1);
        assert_eq!(site.names("Job").is_empty(), phase == "Claimed");
        site.request_state("w", "Teardown");
        site.settle();
        assert_claim(&site, "Cancelled", "a/1", 1, 1);
        assert!(site.names("Job").is_empty() && site.names("Service").is_empty(), "{phase}");
        assert!(site.is_ready("w", "Teardown"), "{phase}: {:?}", site.status_of("w"));
        site.remove("w");
        site.assert_clean();
    }
}

#[test]
fn a_failed_run_stays_failed() {
    let mut site = Site::with_containers_of_a("PostRun");
    site.set_all_job_status(&crate::containers::failed("BackoffLimitExceeded"));
    assert_claim(&site, "Failed", "a/1", 1, 1);
    assert!(site.run_of("w-1").status.unwrap().message.contains("container on r failed"));
    site.becomes("b", "1", &["a/1"]);
    site.request_state("w", "Teardown");
    site.settle();
    assert_claim(&site, "Failed", "b/1", 2, 1);
    assert!(site.names("Job").is_empty() && site.is_ready("w", "Teardown"));
}

/// Newly started coordinators take turns, and each is stopped after one change. A run still has only one final phase.
#[test]
fn coordinators_stopped_after_any_change_take_over_from_each_other() {
    for (seed, kind) in [(0, "gfs2"), (1, "gfs2"), (2, "gfs2"), (3, "raw")] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut site = site();
        let coordinators = [("a", "1", "b/1"), ("b", "1", "a/1")];
        site.becomes("a", "1", &["b/1"]);
        site.create("w", &lines(kind));
        site.settle();
        site.fill_computes("w", &["c1", "c2", "d1"]);
        let mut last = 0;
        let mut ended = None;
        for state in &STATES[1..] {
            site.request_state("w", state);
            for _ in 0..60 {
                let (pod, nonce, other) = coordinators[random.usize(..2)];
                site.becomes(pod, nonce, &[other]);
                let draw = random.usize(..1_000);
                site.step(|length| (0..length.min(1)).map(|_| draw % length).collect());
                let run = site.objects.get(&at("ContainerRun", "default", "w-1"));
                let status = run.map(|run| run["status"].clone()).unwrap_or_default();
                let epoch = status["claim"]["epoch"].as_i64().unwrap_or(0);
                assert!(epoch >= last, "{seed} {state}: {epoch} after {last}");
                last = epoch;
                let phase = status["phase"].as_str().unwrap_or_default().to_owned();
                if ["Succeeded", "Failed", "Cancelled"].contains(&&*phase) {
                    assert_eq!(*ended.get_or_insert(phase.clone()), phase, "{seed} {state}");
                }
            }
            site.settle();
            match *state {
                "PreRun" => site.set_all_job_status(&running()),
                "PostRun" => site.set_all_job_status(&complete()),
                _ => {}
            }
            assert!(site.is_ready("w", state), "{seed} {state}: {:?}", site.status_of("w"));
        }
        assert_eq!(site.claim().0, "Succeeded", "{seed}");
        assert!(last > 2, "{seed}: no coordinator took over");
        site.remove("w");
        site.assert_clean();
    }
}
