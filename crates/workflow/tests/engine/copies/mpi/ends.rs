//! How copies by MPI fail, are cancelled, and end with their workflow.

use std::cell::RefCell;

use serde_json::json;

use super::*;
use crate::site::at;

#[test]
fn a_failed_launcher_fails_the_copy_with_its_reason_and_its_containers_stay_until_teardown() {
    let mut site = started(&[LUSTRE, IN]);
    run(&mut site, "copy1");
    let why = "container copy exited with 3: dcp: /lus/global/in: Permission denied";
    end(&mut site, "copy1", &json!({"state": "Failed", "message": why}));
    let status = site.get("NnfDataMovement", "r", "w-1-0")["status"].clone();
    assert_eq!((&status["status"], &status["message"]), (&json!("Failed"), &json!(why)));
    let (_, ready, kind, message) = site.status_of("w");
    assert!(
        !ready && kind == "Error" && message.contains(&format!("copy_in on r: {why}")),
        "{message}"
    );
    assert_eq!(names(&site).len(), 3, "the logs stay");
    assert!(site.names("Secret").is_empty());
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn a_worker_that_does_not_start_fails_the_copy() {
    let mut site = started(&[LUSTRE, IN]);
    set(&mut site, "r", "default.w-copy1-worker-0", &json!({"state": "Ready"}));
    let late = json!({"state": "TooLate", "message": "image registry.example/dcp:1: not found"});
    set(&mut site, "s", "default.w-copy1-worker-1", &late);
    set(&mut site, "r", "default.w-copy1-worker-0", &json!({"state": "Suspended"}));
    let message = site.message("w");
    assert!(message.contains("container on s was not ready after 300 seconds"), "{message}");
    assert!(message.contains("dcp:1: not found"), "{message}");
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn a_cancelled_copy_has_finished_when_its_containers_are_gone() {
    let mut site = started(&[LUSTRE, IN]);
    run(&mut site, "copy1");
    site.pods_stay = true;
    site.edit("NnfDataMovement", "r", "w-1-0", |object| object["spec"]["cancel"] = json!(true));
    site.settle();
    let state = |site: &Site| site.get("NnfDataMovement", "r", "w-1-0")["status"].clone();
    assert_eq!(state(&site)["state"], "Running", "the containers have not ended");
    site.pods_stay = false;
    site.settle();
    assert_eq!(
        (&state(&site)["state"], &state(&site)["status"]),
        (&json!("Finished"), &json!("Cancelled"))
    );
    assert!(names(&site).is_empty());
    let message = site.message("w");
    assert!(message.contains("copy_in on r: the copy was cancelled"), "{message}");
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn teardown_and_deletion_end_the_containers_before_the_storage_is_unmounted() {
    for is_deleted in [false, true] {
        for is_running in [false, true] {
            let mut site = started(&[LUSTRE, IN, MORE]);
            if is_running {
                run(&mut site, "copy1");
            }
            site.pods_stay = true;
            if is_deleted {
                site.delete(&at("Workflow", "default", "w"));
            } else {
                site.request_state("w", "Teardown");
            }
            // `check_containers` panics if a change unmounts the storage under the containers.
            site.settle();
            assert!(!names(&site).is_empty());
            assert_eq!(
                site.names("NnfDataMovement").len(),
                2,
                "a movement outlives its containers"
            );
            site.pods_stay = false;
            site.settle();
            if !is_deleted {
                assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
            }
            site.remove("w");
        }
    }
}

#[test]
fn a_movement_that_a_person_deletes_is_made_again_and_its_containers_go_on() {
    let mut site = started(&[LUSTRE, IN]);
    run(&mut site, "copy1");
    let before = names(&site);
    site.delete(&at("NnfDataMovement", "r", "w-1-0"));
    site.settle();
    assert_eq!(names(&site), before);
    assert_eq!(site.get("NnfDataMovement", "r", "w-1-0")["status"]["state"], "Running");
    end(&mut site, "copy1", &succeeded());
    assert!(site.is_ready("w", "DataIn"), "{:?}", site.status_of("w"));
}

#[test]
fn one_of_several_coordinators_runs_the_copy() {
    let mut site = site();
    site.becomes("a", "1", &[]);
    set_up(&mut site, &[LUSTRE, IN]);
    site.request_state("w", "DataIn");
    site.settle();
    let claimed = site.get("ContainerRun", "default", "w-1");
    assert_eq!(claimed["spec"]["rabbits"], json!(["r", "s"]));
    run(&mut site, "copy1");
    end(&mut site, "copy1", &succeeded());
    assert!(site.is_ready("w", "DataIn"), "{:?}", site.status_of("w"));
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn an_engine_stopped_after_any_change_continues_with_the_copy() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cuts: Vec<usize> = (0..4_000).map(|_| random.usize(0..1_000)).collect();
        let cuts = RefCell::new(&mut cuts);
        let cut = |length: usize| {
            let chosen = cuts.borrow_mut().pop().unwrap_or(0);
            if length == 0 { Vec::new() } else { vec![chosen % length] }
        };
        let mut site = site();
        set_up(&mut site, &[LUSTRE, IN]);
        site.request_state("w", "DataIn");
        site.settle_with(cut);
        let places = [
            ("r", "default.w-copy1-worker-0".to_owned(), "Ready"),
            ("s", "default.w-copy1-worker-1".to_owned(), "Ready"),
            ("r", launcher("copy1"), "Ready"),
            ("r", launcher("copy1"), "Succeeded"),
            ("r", "default.w-copy1-worker-0".to_owned(), "Suspended"),
            ("s", "default.w-copy1-worker-1".to_owned(), "Suspended"),
        ];
        for (rabbit, host, state) in places {
            site.edit("NodeContainers", rabbit, &host, |object| {
                object["status"]["state"] = json!(state);
            });
            site.settle_with(cut);
        }
        assert!(site.is_ready("w", "DataIn"), "{seed}: {:?}", site.status_of("w"));
        site.delete(&at("Workflow", "default", "w"));
        site.settle_with(cut);
        site.assert_clean();
    }
}
