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

#[test]
fn setup_waits_while_a_management_target_reports_an_error() {
    let mut site = two_rabbits();
    site.propose("w", LUSTRE, &["c1"]);
    site.errors.insert(
        "NnfLustreMGT".to_owned(),
        json!({"debugMessage": "no ConfigMap", "userMessage": "names cannot be given out", "type": "Internal", "severity": "Major"}),
    );
    site.request_state_and_settle("w", "Setup");
    let status_and_message = |site: &Site| (site.status_of("w").2, site.status_of("w").3);
    let message = "DW Directive 0: Internal error: Node: r: names cannot be given out";
    assert_eq!(status_and_message(&site), ("TransientCondition".to_owned(), message.to_owned()));
    site.errors.clear();
    site.errors.insert(
        "NnfNodeStorage".to_owned(),
        json!({"debugMessage": "mount: no such device", "userMessage": "the target does not serve", "type": "Internal", "severity": "Major"}),
    );
    site.settle();
    let message = "DW Directive 0: Internal error: Node: r: the target does not serve";
    assert_eq!(status_and_message(&site), ("TransientCondition".to_owned(), message.to_owned()));
    assert_eq!(
        site.targets("w"),
        ["r/default-w-0-mgtmdt-0 mgtmdt 0"],
        "no later target is created"
    );
    site.errors.clear();
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_dead_rabbit_is_named_and_holds_up_only_dependent_targets() {
    let mut site = two_rabbits();
    site.propose("w", LUSTRE, &["c1", "c2", "d1"]);
    site.dead = vec!["s".to_owned()];
    site.request_state_and_settle("w", "Setup");
    assert_eq!(site.status_of("w").3, "DW Directive 0: pending storage on r, s");
    assert_eq!(
        site.targets("w").len(),
        2,
        "the first object target is created only after all other targets are ready: {:?}",
        site.targets("w")
    );
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.dead = vec!["s".to_owned()];
    site.request_state_and_settle("w", "Teardown");
    assert_eq!(site.status_of("w").3, "DW Directive 0: pending removal on r, s");
    assert_eq!(site.targets("w").len(), 2, "the management target is removed last");
    site.dead.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_rabbit_without_an_lnet_address_is_reported() {
    let mut site = two_rabbits();
    for rabbit in ["r", "s"] {
        site.edit("NnfNode", rabbit, "nnf-nlc", |object| object["status"]["lnetNid"] = json!(""));
    }
    site.propose("w", LUSTRE, &["c1"]);
    site.request_state_and_settle("w", "Setup");
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "TransientCondition");
    assert!(message.contains("r has reported no LNet address"), "{message}");
    site.edit("NnfNode", "r", "nnf-nlc", |object| {
        object["status"]["lnetNid"] = json!("10.0.0.1@tcp");
    });
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn targets_are_removed_after_all_clients_have_unmounted() {
    let mut site = two_rabbits();
    site.bring("w", &[LUSTRE.to_owned()], "PreRun", &["c1", "d1"]);
    site.dead = vec!["d1".to_owned()];
    let before = site.targets("w");
    site.request_state_and_settle("w", "Teardown");
    assert_eq!(site.status_of("w").3, "DW Directive 0: pending removal on d1, r, s");
    assert_eq!(site.targets("w"), before);
    site.put(json!({"kind": "SystemStatus", "metadata": {"name": "default", "namespace": "default"}, "data": {"nodes": {"d1": "Disabled"}}}));
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}
