use std::sync::Arc;

use serde_json::{Value, from_value, json};

use super::*;
use crate::objects::site::Settings;

fn reference(name: &str) -> Value {
    json!({"kind": "Servers", "name": name, "namespace": "default"})
}

/// Returns a management target on a rabbit, with its first name, its holders, and the names that it gave to holders.
fn mgt(rabbit: &str, start: &str, claims: &[&str], given: &[(&str, &str)]) -> NnfLustreMgt {
    let claims: Vec<Value> = claims.iter().map(|name| reference(name)).collect();
    let given: Vec<Value> = given
        .iter()
        .map(|(name, fs_name)| json!({"reference": reference(name), "fsname": fs_name}))
        .collect();
    from_value(json!({
        "metadata": {"name": "m", "namespace": rabbit},
        "spec": {"addresses": ["10.0.0.1@tcp"], "fsNameStart": start, "claimList": claims},
        "status": {"claimList": given},
    }))
    .unwrap()
}

fn site(mgts: &[NnfLustreMgt]) -> Site {
    let mut site = Site::new(Settings::default());
    for mgt in mgts {
        site.mgts.take(&mgt_key(mgt), Some(&Arc::new(mgt.clone())));
    }
    site
}

fn texts(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn taken_elsewhere_has_names_given_and_names_about_to_be_given() {
    let mut site = site(&[
        mgt("r1", "aaaaaaaa", &["a", "b", "c"], &[("a", "aaaaaaab")]),
        mgt("r2", "aaaaaaaz", &["d"], &[]),
        mgt("r3", "aaaaaaaz", &[], &[]),
    ]);
    let at = |rabbit: &str| (rabbit.to_owned(), "m".to_owned());
    assert_eq!(taken_elsewhere(&site, &at("r1")), texts(&["aaaaaaaz"]));
    let of_first = ["aaaaaaab", "aaaaaaaa", "aaaaaaac"];
    assert_eq!(taken_elsewhere(&site, &at("r2")), texts(&of_first));
    let lustre = json!({"metadata": {"name": "l", "namespace": "n"},
        "spec": {"name": "scratch", "mgsNids": "10.9.9.9@tcp", "mountRoot": "/lus/scratch"}});
    let lustre = Arc::new(from_value(lustre).unwrap());
    site.lustre = Some([(("n".to_owned(), "l".to_owned()), lustre)].into());
    assert!(taken_elsewhere(&site, &at("r2")).contains("scratch"));
}

#[test]
fn pass_over_adds_taken_names_to_the_black_list() {
    for (taken, avoided) in [
        (&[][..], &[][..]),
        (&["aaaaaaac"], &[]),
        (&["aaaaaaab"], &["aaaaaaab"]),
        (&["aaaaaaab", "aaaaaaac", "aaaaaaae"], &["aaaaaaab", "aaaaaaac"]),
    ] {
        let mut mgt = mgt("r1", "aaaaaaaa", &["a", "b"], &[("a", "aaaaaaaa")]);
        pass_over(&mut mgt, &texts(taken));
        assert_eq!(mgt.spec.fs_name_black_list, avoided, "{taken:?}");
    }
}

#[test]
fn belongs_to_another_is_false_for_the_holders_own_name() {
    let site = site(&[
        mgt("r1", "aaaaaaaa", &["a"], &[("a", "aaaaaaaa")]),
        mgt("r2", "aaaaaaaa", &["b"], &[("b", "aaaaaaaa")]),
        mgt("r3", "aaaaaaac", &["c"], &[("c", "aaaaaaac")]),
    ]);
    let holder = |name: &str| from_value::<ObjectReference>(reference(name)).unwrap();
    assert!(belongs_to_another(&site, &holder("a"), "aaaaaaaa"));
    assert!(!belongs_to_another(&site, &holder("c"), "aaaaaaac"));
}

#[test]
fn first_name_differs_between_owners_and_skips_taken_names() {
    let none = BTreeSet::new();
    let [first, other] = ["uid-1", "uid-2"].map(|uid| first_name(uid, &none));
    assert_ne!(first, other);
    assert_eq!(first_name("uid-1", &none), first, "the same in each plan");
    assert_eq!(first_name("uid-1", &texts(&[&first.to_string()])), first.next());
}
