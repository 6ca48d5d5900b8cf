//! Another client writes every object after the engine's plan and before the engine's change.

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
    /// Brings a workflow through all states. In every other round another client has changed each object that the
    /// engine is about to change. `others` writes statuses of Jobs, and returns true if it wrote anything.
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
            let planned = self.plan_all();
            turn += 1;
            assert!(turn < 2_000, "{state}: {:?}", self.status_of("w"));
            if planned.is_empty() && !self.step(|_| Vec::new()) {
                if others(self, state) {
                    continue;
                }
                assert!(self.is_ready("w", state), "{directives:?}: {:?}", self.status_of("w"));
                let Some(next) = states.next() else { break };
                state = next;
                self.fill_computes("w", computes);
                self.request_state("w", state);
            } else if turn % 2 == 0 {
                refused += self.cause_conflicts(turn);
            } else {
                self.step(|length| (0..length).collect());
            }
        }
        assert!(refused >= 5, "{directives:?}: {refused}");
    }

    /// Changes every object that the engine is about to change, and returns how many changes the API then refuses.
    fn cause_conflicts(&mut self, turn: usize) -> usize {
        let mut refused = 0;
        for change in &self.plan_all() {
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

    /// Writes statuses into all Jobs as the Job controller does in a state. Returns true if anything changed.
    fn set_job_statuses(&mut self, state: &str) -> bool {
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

fn no_other_client(_: &mut Site, _: &str) -> bool {
    false
}

#[test]
fn the_engine_plans_again_after_a_conflict_on_every_write() {
    let lives = [
        vec![directive("raw", "one"), directive("xfs", "two")],
        vec![directive("gfs2", "one")],
        vec![directive("lustre", "one")],
    ];
    for directives in lives {
        let mut site = two_rabbits();
        site.live_with_conflicts(&directives, &["c1", "c2", "d1"], no_other_client);
        site.remove("w");
    }
}

#[test]
fn the_engine_plans_persistent_storage_again_after_a_conflict_on_every_write() {
    for kind in ["xfs", "gfs2", "lustre"] {
        let mut site = two_rabbits();
        let lines = [
            format!("#DW create_persistent type={kind} capacity=1GiB name=kept"),
            KEPT.to_owned(),
            "#DW destroy_persistent name=kept".to_owned(),
        ];
        for line in lines {
            site.live_with_conflicts(std::slice::from_ref(&line), &["c1", "c2"], no_other_client);
            site.delete(&at("Workflow", "default", "w"));
            site.settle();
        }
        site.assert_clean();
    }
}

/// Returns a site with persistent Lustre, and directives for a container that uses it and a job's gfs2.
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
fn the_engine_plans_containers_again_after_a_conflict_on_every_write() {
    let (mut site, directives) = beside_lustre();
    site.live_with_conflicts(&directives, &["c1", "c2", "d1"], Site::set_job_statuses);
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

/// The container on each rabbit sees the same paths as the job's computes.
#[test]
fn one_container_uses_a_jobs_gfs2_and_persistent_lustre_together() {
    let (mut site, directives) = beside_lustre();
    site.create("w", &directives);
    site.settle();
    site.fill_computes("w", &["c1", "c2", "d1"]);
    for state in &STATES[1..] {
        site.request_state("w", state);
        site.settle();
        if *state == "PreRun" {
            assert_container_sees_both(&site);
        }
        site.set_job_statuses(state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    assert!(site.names("Job").is_empty());
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

fn assert_container_sees_both(site: &Site) {
    let expected = &site.workflow("w")["status"]["env"];
    for rabbit in ["r", "s"] {
        let job = site.get("Job", "default", &format!("w-{rabbit}"));
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let env = container["env"].as_array().unwrap();
        for (name, source) in
            [("DW_JOB_data", "DW_JOB_scratch"), ("DW_PERSISTENT_kept", "DW_PERSISTENT_kept")]
        {
            let path =
                env.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone();
            assert_eq!(path, expected[source], "{name}");
            let mounts = container["volumeMounts"].as_array().unwrap();
            assert!(mounts.iter().any(|mount| mount["mountPath"] == path), "{rabbit}: {mounts:?}");
        }
    }
}
