//! Workflows with Lustre and faults, from Proposal to Teardown.

use std::cell::RefCell;

use serde_json::json;

use super::{LUSTRE, put_persistent, two_rabbits, with_external, with_profile};
use crate::{
    faults::run_life,
    job::STATES,
    site::{Site, at, some_in_any_order},
};

/// Returns a site for each way to get a management target.
fn sites() -> Vec<(&'static str, Site)> {
    let commands = json!({"preMountCommands": ["lctl conf_param $FS_NAME.sys.timeout=200"]});
    let mut combined = two_rabbits();
    with_profile(&mut combined, &json!({"mgtOptions": commands}));
    let mut separate = two_rabbits();
    with_profile(&mut separate, &json!({"combinedMgtMdt": false, "mgtOptions": commands}));
    let external = with_external();
    let mut pool = two_rabbits();
    put_persistent(&mut pool, "p1", "s", "Active");
    with_profile(
        &mut pool,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "pool:pool"}}),
    );
    with_profile(&mut pool, &json!({"mgtOptions": commands}));
    vec![("combined", combined), ("separate", separate), ("external", external), ("pool", pool)]
}

fn life(site: Site, cut: &impl Fn(usize) -> Vec<usize>) -> Site {
    run_life(site, &[LUSTRE.to_owned()], &["c1", "d1", "d2"], cut)
}

#[test]
fn an_engine_restarted_after_every_change_makes_and_removes_lustre() {
    for (name, site) in sites() {
        let whole = life(site.clone(), &|length| (0..length).collect());
        let first = life(site.clone(), &|length| (0..length.min(1)).collect());
        let last = life(site.clone(), &|length| (length.saturating_sub(1)..length).collect());
        assert!(first.objects.keys().eq(whole.objects.keys()), "{name}");
        assert!(last.objects.keys().eq(whole.objects.keys()), "{name}");
        for seed in 0..2 {
            let random = RefCell::new(fastrand::Rng::with_seed(seed));
            life(site.clone(), &|length| some_in_any_order(&mut random.borrow_mut(), length));
        }
    }
}

#[test]
fn a_lustre_workflow_deleted_after_any_change_leaves_nothing() {
    for (_, mut site) in sites().into_iter().skip(1) {
        site.create("w", &[LUSTRE.to_owned()]);
        site.after_each_change("w", &["c1", "d1"], |mut ended| ended.remove("w"));
    }
}

#[test]
fn deleted_lustre_objects_are_created_again_or_reported() {
    let shared = ["SystemConfiguration", "NnfNode", "DWDirectiveRule", "Workflow"];
    for (name, start) in sites().into_iter().step_by(3) {
        for state in ["Setup", "PreRun", "Teardown"] {
            let mut site = start.clone();
            site.bring("w", &[LUSTRE.to_owned()], state, &["c1", "d1"]);
            let places = site.objects.keys().filter(|(kind, ..)| !shared.contains(&&**kind));
            for place in places.cloned().collect::<Vec<_>>() {
                let mut site = site.clone();
                site.delete(&place);
                site.settle();
                let next = STATES.iter().skip_while(|known| **known != state).nth(1);
                if let Some(next) = next.filter(|_| site.status_of("w").1) {
                    site.request_state("w", next);
                    site.settle();
                }
                let (_, ready, status, message) = site.status_of("w");
                let is_reported =
                    ["Error", "TransientCondition"].contains(&&*status) && !message.is_empty();
                assert!(ready || is_reported, "{name}, {state}, {place:?}: {status} {message}");
                site.delete(&at("Workflow", "default", "w"));
                site.settle();
                let left: Vec<_> =
                    site.objects.keys().filter(|at| at.0.starts_with("NnfNodeS")).collect();
                assert!(left.is_empty(), "{name}, {state}, {place:?}: {left:?}");
            }
        }
    }
}
