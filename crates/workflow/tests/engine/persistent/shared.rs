//! Users and owners of persistent storage, and several workflows that use it at once.

use super::{create, uses};
use crate::{
    job::GIB,
    site::{Site, at},
};

#[test]
fn exactly_one_of_two_workflows_that_take_a_name_at_once_gets_it() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut site = Site::new(1, 100 * GIB);
        for name in ["a", "b"] {
            site.create_by(if name == "a" { 1001 } else { 2002 }, name, &create("xfs", "kept"));
        }
        let random = std::cell::RefCell::new(&mut random);
        site.settle_with(|length| {
            let mut order: Vec<usize> = (0..length).collect();
            random.borrow_mut().shuffle(&mut order);
            order.truncate(length.clamp(1, 2).min(length));
            order
        });
        let (mut winner, mut loser) = ("a", "b");
        if site.is_ready("b", "Proposal") {
            std::mem::swap(&mut winner, &mut loser);
        }
        assert!(site.is_ready(winner, "Proposal"), "{:?}", site.status_of(winner));
        let status = site.status_of(loser);
        assert!(
            status.2 == "Error"
                && status.3.contains(&format!("is being made by workflow {winner}")),
            "{status:?}"
        );
        // The deletion of the loser removes nothing that belongs to the winner.
        site.delete(&at("Workflow", "default", loser));
        site.settle();
        site.fill_computes(winner, &["c1"]);
        site.go(winner, "Teardown");
        assert!(site.is_ready(winner, "Teardown"), "{:?}", site.status_of(winner));
        assert_eq!(site.instance("kept")["status"]["state"], "Active");
    }
}

#[test]
fn two_workflows_that_need_the_same_two_xfs_never_deadlock() {
    for seed in 0..6 {
        let mut site = Site::new(2, 100 * GIB);
        site.keep("xfs", "first", &["c1"]);
        site.keep("xfs", "other", &["c1"]);
        let lines = |names: [&str; 2]| names.map(|name| uses(name).remove(0)).to_vec();
        site.bring("one", &lines(["first", "other"]), "DataIn", &["c1"]);
        site.bring("two", &lines(["other", "first"]), "DataIn", &["c2"]);
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        site.request_state("one", "PreRun");
        site.request_state("two", "PreRun");
        site.settle_with(|length| {
            let mut order: Vec<usize> = (0..length).collect();
            random.borrow_mut().shuffle(&mut order);
            order.truncate(length.min(1));
            order
        });
        let (mut quick, mut late) = ("one", "two");
        if !site.is_ready(quick, "PreRun") {
            std::mem::swap(&mut quick, &mut late);
        }
        assert!(
            site.is_ready(quick, "PreRun"),
            "{:?} {:?}",
            site.status_of("one"),
            site.status_of("two")
        );
        site.go(quick, "Teardown");
        assert!(site.is_ready(late, "PreRun"), "{seed}: {:?}", site.status_of(late));
    }
}
