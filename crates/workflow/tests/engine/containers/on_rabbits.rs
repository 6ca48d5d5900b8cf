//! Containers that the rabbits' agents run without Kubernetes. The tests write what agents were observed to write.

mod mpi;

use api::names::annotation;
use serde_json::{Value, json};

use super::{BESIDE_KEPT, lines};
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

    fn limits(&self) -> Vec<Value> {
        let all = self.objects.iter().filter(|(at, _)| at.0 == "NodeContainers");
        all.map(|(_, object)| object["spec"]["activeDeadlineSeconds"].clone()).collect()
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
fn agents_get_no_containers_before_all_storage_is_mounted() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "DataIn");
    site.agents_sleep = true;
    site.request_state("w", "PreRun");
    site.settle();
    assert!(site.on_rabbits().is_empty());
    let mounts: Vec<_> = site.objects.keys().filter(|at| at.0 == "ClientMount").cloned().collect();
    assert!(!mounts.is_empty());
    site.agents_sleep = false;
    site.settle();
    assert_eq!(site.on_rabbits().len(), 2);
}

#[test]
fn requests_for_logs_and_their_answers_cause_no_writes_of_the_engine() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_agent_status(&state("Ready"));
    let (writes, moment) = (site.writes, "2026-11-27T03:00:00.000000Z");
    for place in site.on_rabbits() {
        site.edit(&place.0, &place.1, &place.2, |object| {
            object["metadata"]["annotations"] = json!({annotation::LOGS_ASKED: moment});
        });
    }
    site.settle();
    let logs = json!([{"attempt": 1, "container": "view", "text": "so far\n"}]);
    site.set_all_agent_status(&json!({"logs": logs, "logsAnswered": moment}));
    assert_eq!(site.writes, writes);
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
}

#[test]
fn agents_get_the_start_deadline_then_none_then_the_end_deadline() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    assert_eq!(site.limits(), [json!(60), json!(60)]);
    site.set_agent_status("r", &state("Ready"));
    site.settle();
    assert_eq!(site.limits(), [json!(60), json!(60)], "the rabbit s is not ready yet");
    assert!(site.message("w").contains("containers on s"), "{}", site.message("w"));
    site.set_all_agent_status(&state("Ready"));
    assert_eq!(site.limits(), [Value::Null, Value::Null]);
    site.request_state("w", "PostRun");
    site.settle();
    for limit in site.limits() {
        assert!(
            limit.as_i64().unwrap() > 90,
            "the deadline counts from the start of the containers, not from PostRun: {limit}"
        );
    }
    site.set_all_agent_status(&state("TooLate"));
    let expected = "container on r failed to complete after 90 seconds";
    assert!(site.message("w").contains(expected), "{}", site.message("w"));
}

#[test]
fn the_status_of_the_workflow_has_the_messages_of_agents() {
    let mut site = site();
    site.dead = vec!["s".to_owned()];
    site.bring_towards("w", &["#DW container name=beside profile=app".to_owned()], "PreRun");
    assert!(
        site.message("w").contains("s: its agent has not started them"),
        "{}",
        site.message("w")
    );
    site.dead.clear();
    site.settle();
    site.set_agent_status("r", &json!({"message": "no such image"}));
    site.settle();
    assert!(site.message("w").ends_with("r: no such image"), "{}", site.message("w"));
    site.set_all_agent_status(&json!({"state": "TooLate", "message": "no such image"}));
    let (state, ready, status, message) = site.status_of("w");
    assert_eq!((state.as_str(), ready, status.as_str()), ("PreRun", false, "Error"));
    let expected = "container on r was not ready after 60 seconds: no such image";
    assert!(message.contains(expected), "{message}");
    site.remove("w");
}

#[test]
fn postrun_fails_with_the_message_of_a_failed_agent_container() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_agent_status(&state("Ready"));
    let words = "container app exited with 3: no input";
    site.set_all_agent_status(&json!({"state": "Failed", "message": words, "attempt": 3}));
    assert!(
        site.is_ready("w", "PreRun"),
        "PreRun does not fail with the container: the job may go on: {:?}",
        site.status_of("w")
    );
    site.request_state("w", "PostRun");
    site.settle();
    let message = site.message("w");
    let expected = format!("container on r failed to run successfully after 3 attempts: {words}");
    assert!(message.contains(&expected), "{message}");
    site.remove("w");
}

/// [`Site::make`] panics if a rabbit loses a mount while containers run on the rabbit.
#[test]
fn storage_stays_mounted_until_the_agents_have_removed_the_containers() {
    let mut site = site();
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["postRunTimeoutSeconds"] = json!(0);
    });
    site.keep("gfs2", "kept", &["c1", "c2", "d1"]);
    let lines = ["#DW persistentdw name=kept", BESIDE_KEPT].map(str::to_owned);
    site.bring_towards("w", &lines, "PreRun");
    site.set_all_agent_status(&state("Ready"));
    for state in ["PostRun", "DataOut"] {
        site.request_state("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
        assert_eq!(site.mounted_on(), ["r", "s"], "{state}");
    }
    site.pods_stay = true;
    site.request_state("w", "Teardown");
    site.settle();
    assert!(!site.status_of("w").1, "{:?}", site.status_of("w"));
    assert_eq!(site.mounted_on(), ["r", "s"]);
    site.pods_stay = false;
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.delete(&at("Workflow", "default", "w"));
    site.end("kept");
}

#[test]
fn an_unreadable_nodecontainers_keeps_the_storage_mounted() {
    let mut site = site();
    site.bring_towards("w", &lines("raw"), "PreRun");
    site.set_all_agent_status(&state("Ready"));
    site.unreadable = vec![at("NodeContainers", "r", "default-w-1")];
    site.request_state("w", "Teardown");
    site.settle();
    assert!(["r", "s"].iter().all(|rabbit| site.mounted_on().contains(rabbit)));
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
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

/// An administrator has removed the workflow's finalizer.
#[test]
fn containers_of_a_vanished_workflow_end_before_its_storage_is_removed() {
    for comes_again in [false, true] {
        let mut site = site();
        site.bring_towards("w", &lines("gfs2"), "PreRun");
        site.set_all_agent_status(&state("Ready"));
        site.objects.remove(&at("Workflow", "default", "w"));
        if comes_again {
            site.create("w", &lines("gfs2"));
        }
        site.settle();
        assert!(site.on_rabbits().is_empty(), "again: {comes_again}");
        assert!(site.mounted_on().is_empty(), "again: {comes_again}");
    }
}
