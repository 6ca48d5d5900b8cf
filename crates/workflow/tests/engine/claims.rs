//! Several coordinators drive the same workflows: which one the engine is, and what the API then refuses it.

use std::{collections::BTreeMap, time::Duration};

use api::ContainerRun;
use containers::claim::{
    Holder,
    rules::{Part, admit},
};
use serde_json::{Value, json};
use workflow::{
    change::{Change, ClaimRef},
    claims::Seen,
    world::World,
};

use crate::{
    containers::{complete, lines, running, site},
    job::STATES,
    site::{Site, at},
};

/// Which coordinator the engine is, and those whose Leases it saw expire.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Claimed {
    pub(crate) me: Option<Holder>,
    pub(crate) is_silent: bool,
    pub(crate) expired: Vec<&'static str>,
}

impl Claimed {
    /// What the engine has seen of Leases: those that expired do not change, all others do.
    pub(crate) fn tell(&self, world: &mut World) {
        let names = ["a/1", "a/2", "b/1"];
        for at in [0, 10, 20, 30, 40] {
            let version = |name: &str| match self.expired.contains(&name) {
                true => "1".to_owned(),
                false => at.to_string(),
            };
            let leases: BTreeMap<String, String> =
                names.iter().map(|name| ((*name).to_owned(), version(name))).collect();
            let (may_act, at) = (!self.is_silent, Duration::from_secs(at));
            world.saw_leases(&Seen { may_act, leases: Some(leases), at });
        }
    }
}

impl Site {
    /// From now on the engine is this coordinator.
    pub(crate) fn becomes(&mut self, pod: &str, nonce: &str, expired: &[&'static str]) {
        let expired = expired.to_vec();
        self.claims = Claimed { me: Some(Holder::new(pod, nonce)), is_silent: false, expired };
    }

    /// Whether the API has the claim that a change is made by.
    pub(crate) fn check_claim(&self, hold: &ClaimRef) -> Result<(), String> {
        let run = self.objects.get(&at("ContainerRun", &hold.namespace, &hold.name));
        let run = run.filter(|run| run["metadata"]["uid"] == *hold.uid);
        let claim = run.map(|run| run["status"]["claim"].clone()).unwrap_or_default();
        if claim == json!({"holder": hold.holder, "epoch": hold.epoch}) {
            Ok(())
        } else {
            Err(format!("{hold:?} is lost: {claim}"))
        }
    }

    /// The rules of the API.
    pub(crate) fn admit_run(&self, by: &Change, old: &Value, new: &Value) -> Result<(), String> {
        let me = self.claims.me.as_ref().map_or("", Holder::as_str);
        let pod = me.split('/').next();
        let part = if matches!(by, Change::Status(..)) { Part::Status(pod) } else { Part::Main };
        admit(Some(old), new, part)
    }

    fn run_of(&self, name: &str) -> ContainerRun {
        serde_json::from_value(self.get("ContainerRun", "default", name).clone()).unwrap()
    }

    /// Phase, holder, epoch and attempt of the run of the workflow `w`.
    fn claim(&self) -> (String, String, i64, i32) {
        let status = self.run_of("w-1").status.unwrap();
        let (claim, attempt) = (status.claim, status.attempt);
        (status.phase.to_string(), claim.holder, claim.epoch, attempt)
    }

    /// A site with the containers of `w` as far as this, made by coordinator `a`.
    fn of_a(to: &str) -> Self {
        let mut site = site();
        site.becomes("a", "1", &[]);
        site.towards("w", &lines("gfs2"), "DataIn");
        for state in ["PreRun", "PostRun"] {
            site.ask("w", state);
            site.settle();
            if state == to {
                return site;
            }
            site.jobs_tell(&running());
        }
        site
    }

    fn uids(&self) -> Vec<Value> {
        let jobs = self.objects.iter().filter(|(at, _)| at.0 == "Job");
        jobs.map(|(_, job)| job["metadata"]["uid"].clone()).collect()
    }
}

fn is(site: &Site, phase: &str, holder: &str, epoch: i64, attempt: i32) {
    let expected = (phase.to_owned(), holder.to_owned(), epoch, attempt);
    assert_eq!(site.claim(), expected, "{}", site.message("w"));
}

#[test]
fn a_run_is_claimed_before_its_containers_are_made_and_tells_how_far_they_are() {
    let mut site = Site::of_a("PreRun");
    is(&site, "Starting", "a/1", 1, 1);
    assert_eq!(site.names("Job").len(), 2);
    assert_eq!(site.run_of("w-1").spec.rabbits, ["r", "s"]);
    site.jobs_tell(&running());
    is(&site, "Running", "a/1", 1, 1);
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.ask("w", "PostRun");
    site.settle();
    is(&site, "Running", "a/1", 1, 1);
    site.jobs_tell(&complete());
    is(&site, "Succeeded", "a/1", 1, 1);
    for state in ["DataOut", "Teardown"] {
        site.ask("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
    }
    is(&site, "Succeeded", "a/1", 1, 1);
    assert!(site.names("Job").is_empty() && site.names("Service").is_empty());
    site.remove("w");
    assert!(site.names("ContainerRun").is_empty());
}

#[test]
fn another_coordinator_changes_nothing_while_the_holder_is_there_and_goes_on_once_it_is_not() {
    for (phase, tell) in [("Starting", None), ("Running", Some(running()))] {
        let mut site = Site::of_a("PreRun");
        tell.iter().for_each(|status| site.jobs_tell(status));
        let made = site.uids();
        site.becomes("b", "1", &[]);
        site.settle();
        is(&site, phase, "a/1", 1, 1);
        site.ask("w", "Teardown");
        site.settle();
        assert_eq!(site.uids(), made, "{phase}: a holds them");
        is(&site, phase, "a/1", 1, 1);
        assert!(site.message("w").contains("end of containers"), "{}", site.message("w"));
        site.becomes("b", "1", &["a/1"]);
        site.settle();
        is(&site, "Cancelled", "b/1", 2, 1);
        assert!(site.uids().is_empty() && site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    }
}

/// S2.2: its containers go on as they are.
#[test]
fn a_coordinator_that_starts_anew_adopts_what_runs() {
    let mut site = Site::of_a("PreRun");
    site.jobs_tell(&running());
    let made = site.uids();
    site.becomes("a", "2", &["a/1"]);
    site.ask("w", "PostRun");
    site.settle();
    is(&site, "Running", "a/2", 2, 1);
    assert_eq!(site.uids(), made);
    site.jobs_tell(&complete());
    is(&site, "Succeeded", "a/2", 2, 1);
}

#[test]
fn a_state_is_done_for_no_coordinator_before_the_run_says_so() {
    let mut site = Site::of_a("PostRun");
    site.becomes("b", "1", &[]);
    site.jobs_tell(&complete());
    is(&site, "Running", "a/1", 1, 1);
    assert!(!site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
    assert!(site.message("w").contains("coordinator a/1"), "{}", site.message("w"));
    site.becomes("b", "1", &["a/1"]);
    site.settle();
    is(&site, "Succeeded", "b/1", 2, 1);
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
}

/// S2.3: what it planned before it was paused is refused, whatever it is.
#[test]
fn what_a_coordinator_planned_before_another_took_over_is_refused() {
    let mut site = Site::of_a("PreRun");
    site.agents_sleep = true;
    site.ask("w", "Teardown");
    let mut stale = Vec::new();
    while stale.is_empty() {
        let planned = site.planned();
        stale =
            planned.iter().filter(|one| matches!(one, Change::IfClaimed(..))).cloned().collect();
        let others = planned.iter().filter(|one| !matches!(one, Change::IfClaimed(..)));
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
fn a_coordinator_without_its_lease_does_nothing() {
    let mut site = Site::of_a("PreRun");
    site.claims.is_silent = true;
    site.jobs_tell(&running());
    is(&site, "Starting", "a/1", 1, 1);
    assert_eq!(site.deadlines(), [json!(60), json!(60)], "whoever holds it would take them out");
    site.claims.is_silent = false;
    site.settle();
    is(&site, "Running", "a/1", 1, 1);
}

/// S6.1: with its run it ends, whatever it was doing.
#[test]
fn containers_are_cancelled_in_each_phase_and_leave_nothing() {
    for (phase, tell) in [("Claimed", None), ("Starting", None), ("Running", Some(running()))] {
        let mut site = site();
        site.becomes("a", "1", &[]);
        site.towards("w", &lines("gfs2"), "DataIn");
        site.agents_sleep = phase == "Claimed";
        site.ask("w", "PreRun");
        site.settle();
        site.agents_sleep = false;
        if phase != "Claimed" {
            site.settle();
        }
        tell.iter().for_each(|status| site.jobs_tell(status));
        is(&site, phase, "a/1", 1, 1);
        assert_eq!(site.names("Job").is_empty(), phase == "Claimed");
        site.ask("w", "Teardown");
        site.settle();
        is(&site, "Cancelled", "a/1", 1, 1);
        assert!(site.names("Job").is_empty() && site.names("Service").is_empty(), "{phase}");
        assert!(site.is_ready("w", "Teardown"), "{phase}: {:?}", site.told("w"));
        site.remove("w");
        site.is_clean();
    }
}

#[test]
fn a_run_that_fails_has_failed_whatever_is_asked_later() {
    let mut site = Site::of_a("PostRun");
    site.jobs_tell(&crate::containers::failed("BackoffLimitExceeded"));
    is(&site, "Failed", "a/1", 1, 1);
    assert!(site.run_of("w-1").status.unwrap().message.contains("container on r failed"));
    site.becomes("b", "1", &["a/1"]);
    site.ask("w", "Teardown");
    site.settle();
    is(&site, "Failed", "b/1", 2, 1);
    assert!(site.names("Job").is_empty() && site.is_ready("w", "Teardown"));
}

/// Amnesiac coordinators take turns, each stopped after any change; one run has one final phase.
#[test]
fn coordinators_that_are_stopped_after_any_change_take_over_from_each_other() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut site = site();
        let coordinators = [("a", "1", "b/1"), ("b", "1", "a/1")];
        site.becomes("a", "1", &["b/1"]);
        site.create("w", &lines("gfs2"));
        site.settle();
        site.fill_computes("w", &["c1", "c2", "d1"]);
        let mut last = 0;
        let mut ended = None;
        for state in &STATES[1..] {
            site.ask("w", state);
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
                "PreRun" => site.jobs_tell(&running()),
                "PostRun" => site.jobs_tell(&complete()),
                _ => {}
            }
            assert!(site.is_ready("w", state), "{seed} {state}: {:?}", site.told("w"));
        }
        assert_eq!(site.claim().0, "Succeeded", "{seed}");
        assert!(last > 2, "{seed}: nobody took over");
        site.remove("w");
        site.is_clean();
    }
}
