//! Containers that the rabbits' agents run without Kubernetes. The tests write what agents were observed to write.

mod mpi;

use serde_json::{Value, json};

use super::lines;
use crate::{
    job::STATES,
    site::{Site, at},
};

/// Returns the site of [`super::site`], without Kubernetes.
pub(crate) fn site() -> Site {
    let mut site = super::site();
    let containers = site.containers.as_mut().unwrap();
    (containers.namespace, containers.podhelper_image) = (None, None);
    site
}

impl Site {
    /// Writes a status into all NodeContainers, as the agents do.
    pub(super) fn set_all_agent_status(&mut self, status: &Value) {
        for place in self.on_rabbits() {
            self.set_agent_status(&place.1, status);
        }
        self.settle();
    }

    /// Writes a status into the NodeContainers of a rabbit, as its agent does.
    pub(super) fn set_agent_status(&mut self, rabbit: &str, status: &Value) {
        let all = self.on_rabbits();
        let place = all.iter().find(|place| place.1 == rabbit).unwrap();
        self.edit(&place.0, &place.1, &place.2, |object| {
            let old = object["status"].as_object_mut().unwrap();
            old.extend(status.as_object().unwrap().clone());
        });
    }

    pub(super) fn on_rabbits(&self) -> Vec<crate::site::At> {
        self.objects.keys().filter(|at| at.0 == "NodeContainers").cloned().collect()
    }
}

pub(super) fn state(state: &str) -> Value {
    json!({"state": state})
}

#[test]
fn agents_run_containers_from_prerun_to_teardown() {
    for kind in ["gfs2", "raw", "lustre"] {
        let mut site = site();
        site.bring_towards("w", &lines(kind), "PreRun");
        let there = ["r/default-w-1", "s/default-w-1"];
        assert_eq!(site.names("NodeContainers"), there, "{kind}: {}", site.message("w"));
        for kubernetes in ["Job", "Service"] {
            assert!(site.names(kubernetes).is_empty(), "{kubernetes}");
        }
        assert_eq!(site.names("ConfigMap"), ["default/w-1"], "all rabbits read the same files");
        assert!(!site.status_of("w").1, "{kind}: nothing is ready yet");
        site.set_all_agent_status(&state("Ready"));
        assert!(site.is_ready("w", "PreRun"), "{kind}: {:?}", site.status_of("w"));
        assert_eq!(site.workflow("w")["status"]["env"]["NNF_CONTAINER_PORTS"], "5000");
        let spec = &site.get("NodeContainers", "s", "default-w-1")["spec"];
        assert_eq!(spec["containers"][0]["ports"], json!([5000]));
        let path = &site.workflow("w")["status"]["env"]["DW_JOB_scratch"];
        assert_eq!(spec["storages"], json!([path]));
        site.request_state("w", "PostRun");
        site.settle();
        assert!(site.message("w").contains("end of containers on r, s"), "{}", site.message("w"));
        site.set_all_agent_status(&state("Succeeded"));
        assert!(site.is_ready("w", "PostRun"), "{kind}: {:?}", site.status_of("w"));
        for state in ["DataOut", "Teardown"] {
            site.request_state("w", state);
            site.settle();
            assert!(site.is_ready("w", state), "{kind}: {:?}", site.status_of("w"));
        }
        for kind in ["NodeContainers", "ConfigMap"] {
            assert!(site.names(kind).is_empty(), "{kind}");
        }
        site.remove("w");
    }
}

#[test]
fn an_engine_stopped_after_any_change_continues_with_agents() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = std::cell::RefCell::new(&mut random);
        let cut = |length: usize| match length {
            0 => Vec::new(),
            length => vec![random.borrow_mut().usize(..length)],
        };
        let mut site = site();
        site.create("w", &lines("gfs2"));
        site.settle_with(cut);
        site.fill_computes("w", &["c1", "c2", "d1"]);
        for requested in &STATES[1..] {
            site.request_state("w", requested);
            site.settle_with(cut);
            match *requested {
                "PreRun" => site.set_all_agent_status(&state("Ready")),
                "PostRun" => site.set_all_agent_status(&state("Succeeded")),
                _ => {}
            }
            assert!(site.is_ready("w", requested), "{seed} {requested}: {:?}", site.status_of("w"));
        }
        site.delete(&at("Workflow", "default", "w"));
        site.settle_with(cut);
        site.assert_clean();
    }
}
