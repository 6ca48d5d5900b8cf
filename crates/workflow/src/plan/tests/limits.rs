//! Limits and presets of the site, for Workflows that anyone created.

use std::sync::Arc;

use serde_json::json;

use super::{GIB, Objects, PADDED, XFS};
use crate::limits;

const CREATE: &str = "#DW create_persistent type=xfs capacity=1GiB name=mine";

/// Returns a site with these limits. User 1001 and group 1002 create the Workflows.
fn limited(file: &str) -> Objects {
    let mut site = Objects::site();
    site.settings.limits = Arc::new(limits::parse(file, "/etc/limits", &|_| None).unwrap());
    site
}

fn refused(message: &str) -> [String; 2] {
    let refusal = format!("w: Proposal Error: DW Directive 0: User error: {message}");
    ["create Computes default/w".to_owned(), refusal]
}

#[track_caller]
fn refuses(site: Objects, message: &str) -> Objects {
    site.plans(&refused(message).each_ref().map(String::as_str))
}

#[test]
fn a_job_that_asks_for_more_than_its_limit_is_refused() {
    let asks = format!(
        "the job asks for at least {PADDED} bytes, and job.bytes in /etc/limits is {GIB}; ask for fewer, or ask the administrator to raise that limit"
    );
    refuses(limited("job: {bytes: 1GiB}").request("w", 1001, &[XFS]), &asks);
    limited("job: {bytes: 2GiB}").propose(&[XFS]).completes();
}

#[test]
fn only_named_users_and_groups_create_persistent_storage() {
    let names = "createPersistent: {users: [1001], groups: [7]}";
    limited(names).propose(&[CREATE]).completes();
    let refusal = "user 1003 with group 1002 may not create persistent storage, because createPersistent in /etc/limits names neither; use jobdw, or ask the administrator to add one there";
    refuses(limited(names).request("w", 1003, &[CREATE]), refusal);
    limited(names).request("w", 1003, &[XFS]).settle().completes();
}

#[test]
fn persistent_storage_counts_against_its_user_until_it_is_gone() {
    let site = limited("user: {persistentStorages: 1}").keep("xfs", "kept", &["c1"]);
    let refusal = "user 1001 has 1 persistent storages, and user.persistentStorages in /etc/limits is 1; destroy one first, or ask the administrator to raise that limit";
    let site = refuses(site.request("w", 1001, &[CREATE]), refusal);
    site.then_without("PersistentStorageInstance default/kept").settle().completes();
}

#[test]
fn the_bytes_of_other_storage_count_against_user_and_project() {
    let kept = PADDED;
    for (file, who, field) in [
        ("user: {bytes: 2GiB}", "user 1001", "user.bytes"),
        ("project: {bytes: 2GiB}", "group 1002", "project.bytes"),
        (
            "project: {bytes: 9GiB}\nprojects: {1002: {bytes: 2GiB}}",
            "group 1002",
            "projects.1002.bytes",
        ),
    ] {
        let site = limited(file).keep("xfs", "kept", &["c1"]);
        let refusal = format!(
            "the job asks for at least {PADDED} bytes, {who} has {kept} bytes in other storage, and {field} in /etc/limits is {}; end a job or destroy persistent storage, or ask the administrator to raise that limit",
            2 * GIB
        );
        refuses(site.request("w", 1001, &[XFS]), &refusal);
    }
    // Another Workflow counts what its breakdown asks for while its Servers is empty.
    let site = limited("user: {bytes: 2GiB}").request("v", 1001, &[XFS]).settle();
    let site = site.request("w", 1001, &[XFS]);
    assert_eq!(site.lines().len(), 2, "Computes and the refusal: {:?}", site.lines());
    site.request("w", 1003, &[XFS]).settle().completes();
}

#[test]
fn setup_checks_what_the_servers_reserves() {
    let site = limited("job: {bytes: 2GiB}").propose(&[XFS]);
    let site = site.computes(&["c1", "c2"]).reach("Setup").settle();
    assert_eq!(site.names("NnfNodeBlockStorage").len(), 0);
    let status = &site.get("Workflow default/w")["status"];
    let message = status["message"].as_str().unwrap();
    assert_eq!(status["status"], "Error");
    assert!(message.contains(&format!("at least {} bytes", 2 * PADDED)), "{message}");
}

#[test]
fn of_two_workflows_in_setup_the_older_one_gets_the_bytes() {
    let time = |second: u32| json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:0{second}Z")}});
    let site = limited("user: {bytes: 3GiB}").request("v", 1001, &[XFS]).settle();
    let site = site.edit("Workflow default/v", &time(1)).propose(&[XFS]);
    let site = site.edit("Workflow default/w", &time(2));
    let site = site.edit("Computes default/v", &json!({"data": [{"name": "d1"}, {"name": "c3"}]}));
    let both = site.computes(&["c1", "c2"]).bring("w", "Setup").bring("v", "Setup").settle();
    let made = both.names("NnfNodeBlockStorage");
    assert!(!made.is_empty() && made.iter().all(|name| name.contains("default-v-0")), "{made:?}");
}

#[test]
fn a_preset_becomes_the_directive_that_it_stands_for_once() {
    let presets = "presets: {small: type=xfs capacity=1GiB}";
    let line = "#DW jobdw preset=small name=scratch";
    let mut site = limited(presets).propose(&[line]).completes();
    let expanded = "#DW jobdw type=xfs capacity=1GiB name=scratch";
    assert_eq!(site.get("Workflow default/w")["spec"]["dwDirectives"], json!([expanded]));
    assert_eq!(site.get("DirectiveBreakdown default/w-0")["spec"]["directive"], expanded);
    // A preset that changes later changes no running job.
    let other = limits::parse("presets: {small: type=gfs2 capacity=9GiB}", "/l", &|_| None);
    site.settings.limits = Arc::new(other.unwrap());
    let site = site.computes(&["c1"]).reach("Setup").settle();
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-w-0-xfs-0"]);
    let refusal = "argument preset=big: the site has no such preset; write one of small";
    refuses(limited(presets).request("w", 1001, &["#DW jobdw preset=big name=a"]), refusal);
}
