//! How copies by MPI fail, are cancelled, and end with their workflow.

use std::cell::RefCell;

use serde_json::json;

use super::*;
use crate::site::at;

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
