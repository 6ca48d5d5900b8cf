//! Somebody else writes every object between the engine's look and its change.

use serde_json::json;

use crate::{
    containers,
    job::{STATES, directive},
    lustre::two_rabbits,
    site::{Site, at},
    stored::Stored,
};

const KEPT: &str = "#DW persistentdw name=kept";

impl Site {
    /// Through all states to the end of Teardown. Every other plan of the engine meets a conflict on each object that is there.
    /// `others` are those who write statuses of Jobs; they say whether they wrote anything.
    fn live_with_conflicts(
        &mut self,
        directives: &[String],
        computes: &[&str],
        mut others: impl FnMut(&mut Self, &str) -> bool,
    ) {
        self.create("w", directives);
        let mut states = STATES.iter();
        let mut state = *states.next().unwrap();
        let (mut refused, mut turn) = (0, 0);
        loop {
            let planned = self.planned();
            turn += 1;
            assert!(turn < 2_000, "{state}: {:?}", self.told("w"));
            if planned.is_empty() && !self.step(|_| Vec::new()) {
                if others(self, state) {
                    continue;
                }
                assert!(self.is_ready("w", state), "{directives:?}: {:?}", self.told("w"));
                let Some(next) = states.next() else { break };
                state = next;
                self.fill_computes("w", computes);
                self.ask("w", state);
            } else if turn % 2 == 0 {
                refused += self.refuse(turn);
            } else {
                self.step(|length| (0..length).collect());
            }
        }
        assert!(refused >= 5, "{directives:?}: {refused}");
    }

    /// Writes every object that the engine is about to change, and counts the changes that the API refuses for that.
    fn refuse(&mut self, turn: usize) -> usize {
        let mut refused = 0;
        for change in &self.planned() {
            let target = change.target();
            let place = at(&target.resource.kind, &target.namespace, &target.name);
            if self.objects.contains_key(&place) {
                self.edit(&place.0, &place.1, &place.2, |object| {
                    object["metadata"]["annotations"] = json!({"turn": turn.to_string()});
                });
            }
            refused += usize::from(self.make(change).is_err());
        }
        refused
    }

    /// What the Job controller writes into all Jobs in a state; whether that is news.
    fn jobs_are(&mut self, state: &str) -> bool {
        let mut status = match state {
            "PreRun" => containers::running(),
            "PostRun" => containers::complete(),
            _ => return false,
        };
        status["startTime"] = json!(self.now().to_string());
        let is_old = |(at, job): &(&crate::site::At, &Stored)| {
            at.0 == "Job" && job["status"]["ready"] != status["ready"]
        };
        let old: Vec<_> = self.objects.iter().filter(is_old).map(|(at, _)| at.clone()).collect();
        for (kind, namespace, name) in &old {
            self.edit(kind, namespace, name, |job| job["status"] = status.clone());
        }
        !old.is_empty()
    }
}

fn nobody(_: &mut Site, _: &str) -> bool {
    false
}

#[test]
fn a_conflict_on_every_write_is_planned_anew() {
    let lives = [
        vec![directive("raw", "one"), directive("xfs", "two")],
        vec![directive("gfs2", "one")],
        vec![directive("lustre", "one")],
    ];
    for directives in lives {
        let mut site = two_rabbits();
        site.live_with_conflicts(&directives, &["c1", "c2", "d1"], nobody);
        site.remove("w");
    }
}

#[test]
fn a_conflict_on_every_write_of_persistent_storage_is_planned_anew() {
    for kind in ["xfs", "gfs2", "lustre"] {
        let mut site = two_rabbits();
        let lines = [
            format!("#DW create_persistent type={kind} capacity=1GiB name=kept"),
            KEPT.to_owned(),
            "#DW destroy_persistent name=kept".to_owned(),
        ];
        for line in lines {
            site.live_with_conflicts(std::slice::from_ref(&line), &["c1", "c2"], nobody);
            site.delete(&at("Workflow", "default", "w"));
            site.settle();
        }
        site.is_clean();
    }
}

/// A site with persistent Lustre, and the directives of a container that sees it beside a job's gfs2.
fn beside_lustre() -> (Site, [String; 3]) {
    let mut site = containers::site();
    site.keep("lustre", "kept", &["c1", "c2", "d1"]);
    let directives = [
        directive("gfs2", "scratch"),
        KEPT.to_owned(),
        "#DW container name=beside profile=app DW_JOB_data=scratch DW_PERSISTENT_kept=kept"
            .to_owned(),
    ];
    (site, directives)
}

#[test]
fn a_conflict_on_every_write_beside_containers_is_planned_anew() {
    let (mut site, directives) = beside_lustre();
    site.live_with_conflicts(&directives, &["c1", "c2", "d1"], Site::jobs_are);
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

/// Each rabbit's container sees what the job's computes see.
#[test]
fn one_container_uses_a_jobs_gfs2_and_persistent_lustre_together() {
    let (mut site, directives) = beside_lustre();
    site.create("w", &directives);
    site.settle();
    site.fill_computes("w", &["c1", "c2", "d1"]);
    for state in &STATES[1..] {
        site.ask("w", state);
        site.settle();
        if *state == "PreRun" {
            sees_both(&site);
        }
        site.jobs_are(state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
    }
    assert!(site.names("Job").is_empty());
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

fn sees_both(site: &Site) {
    let told = &site.workflow("w")["status"]["env"];
    for rabbit in ["r", "s"] {
        let job = site.get("Job", "default", &format!("w-{rabbit}"));
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let env = container["env"].as_array().unwrap();
        for (name, of) in
            [("DW_JOB_data", "DW_JOB_scratch"), ("DW_PERSISTENT_kept", "DW_PERSISTENT_kept")]
        {
            let path = env.iter().find(|one| one["name"] == name).unwrap()["value"].clone();
            assert_eq!(path, told[of], "{name}");
            let mounts = container["volumeMounts"].as_array().unwrap();
            assert!(mounts.iter().any(|one| one["mountPath"] == path), "{rabbit}: {mounts:?}");
        }
    }
}
