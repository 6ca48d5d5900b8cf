//! Workflows with faults on their way from Proposal to Teardown: the result is the same as without faults.

use serde_json::json;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at, some_in_any_order},
};

fn directives() -> Vec<String> {
    vec![directive("raw", "one"), directive("xfs", "two")]
}

/// Brings a workflow with two storages from Proposal to its deletion. Of each plan only the changes that
/// `cut` chooses are made.
fn life(cut: &impl Fn(usize) -> Vec<usize>) -> Site {
    run_life(Site::new(2, 100 * GIB), &directives(), &["c1", "c2"], cut)
}

/// Brings a workflow from Proposal to its deletion. If `cut` leaves out changes of a plan, a new engine
/// starts after this plan.
pub(crate) fn run_life(
    mut site: Site,
    directives: &[String],
    computes: &[&str],
    cut: &impl Fn(usize) -> Vec<usize>,
) -> Site {
    site.create("w", directives);
    site.settle_with(cut);
    site.fill_computes("w", computes);
    for state in &STATES[1..] {
        site.request_state("w", state);
        site.settle_with(cut);
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    site.delete(&at("Workflow", "default", "w"));
    site.settle_with(cut);
    site.assert_clean();
    site
}

#[test]
fn an_engine_restarted_after_every_change_ends_with_the_same_objects() {
    let whole = life(&|length| (0..length).collect());
    let first = life(&|length| (0..length.min(1)).collect());
    let last = life(&|length| (length.saturating_sub(1)..length).collect());
    // Only the keys are compared: the objects themselves differ in their versions.
    assert!(
        first.objects.keys().eq(whole.objects.keys())
            && last.objects.keys().eq(whole.objects.keys())
    );
    for seed in 0..6 {
        let random = std::cell::RefCell::new(fastrand::Rng::with_seed(seed));
        life(&|length| some_in_any_order(&mut random.borrow_mut(), length));
    }
}

#[test]
fn a_whole_workflow_takes_64_writes_and_repeats_none() {
    let site = life(&|length| (0..length).collect());
    // The writes create 16 objects; place the storage, write its status, give and withdraw access, and remove the
    // storage; and write the workflow's status 18 times.
    assert_eq!(site.writes, 64);
}

#[test]
fn a_workflow_deleted_after_any_change_leaves_nothing() {
    let mut site = Site::new(2, 100 * GIB);
    site.create("w", &directives());
    site.after_each_change("w", &["c1", "c2"], |mut ended| ended.remove("w"));
}

#[test]
fn deleted_objects_are_created_again_or_reported() {
    for state in STATES {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &directives(), state, &["c1", "c2"]);
        let places: Vec<_> =
            site.objects.keys().filter(|(kind, ..)| kind != "Workflow").cloned().collect();
        let shared = ["SystemConfiguration", "NnfNode", "DWDirectiveRule"];
        for place in places.iter().filter(|(kind, ..)| !shared.contains(&kind.as_str())) {
            let mut site = site.clone();
            site.delete(place);
            site.settle();
            let next = STATES.iter().skip_while(|known| **known != state).nth(1);
            if let Some(next) = next.filter(|_| site.status_of("w").1) {
                site.request_state("w", next);
                site.settle();
            }
            let (state_now, ready, status, message) = site.status_of("w");
            assert!(
                ready || status == "Error" && !message.is_empty(),
                "{state}, {place:?}: {status} {message}"
            );
            if state_now == "PreRun" && ready {
                // Two computes mount two storages each; the rabbit mounts the raw storage too.
                assert_eq!(site.names("ClientMount").len(), 2 * 2 + 1, "{state}, {place:?}");
            }
            site.remove("w");
        }
    }
}

/// The API answers the patch that removes the last finalizer of a deleted Workflow with the object, although the object
/// is gone then. If the engine took in this answer, it would plan for a Workflow that no longer exists.
#[test]
fn the_engine_plans_nothing_for_a_workflow_whose_last_finalizer_it_has_removed() {
    let mut site = Site::new(1, 100 * GIB);
    site.create("w", &[directive("xfs", "scratch")]);
    site.settle();
    let mut world = site.world();
    let mut answer = site.workflow("w").clone();
    answer["metadata"]["resourceVersion"] = json!("1000000");
    answer["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    let held: api::Workflow = serde_json::from_value(answer.clone()).unwrap();
    answer["metadata"]["finalizers"] = json!([]);
    let gone: api::Workflow = serde_json::from_value(answer).unwrap();
    assert!(world.take_patched(gone).is_empty());
    assert!(!world.take_patched(held).is_empty());
}
