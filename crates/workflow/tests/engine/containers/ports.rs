//! Ports of rabbits, among several workflows.

use serde_json::json;

use super::{lines, running, site};
use crate::site::{Site, at};

fn told(site: &Site, name: &str) -> String {
    let env = &site.workflow(name)["status"]["env"]["NNF_CONTAINER_PORTS"];
    env.as_str().unwrap_or_default().to_owned()
}

#[test]
fn two_workflows_on_one_rabbit_have_ports_of_their_own() {
    let mut site = site();
    site.towards("v", &lines("gfs2"), "PreRun");
    site.towards("w", &lines("gfs2"), "PreRun");
    assert_eq!((told(&site, "v").as_str(), told(&site, "w").as_str()), ("5000", "5001"));
    let taken = &site.get("NnfPortManager", "r", "nnf-port-manager")["status"];
    assert_eq!(taken["status"], "Ready");
    assert_eq!(taken["allocations"].as_array().unwrap().len(), 2);
}

#[test]
fn ports_of_a_workflow_that_cannot_be_read_stay_its_own() {
    let mut site = site();
    site.towards("v", &lines("gfs2"), "PreRun");
    site.unreadable = vec![at("Workflow", "default", "v")];
    site.towards("w", &lines("gfs2"), "PreRun");
    assert_eq!(told(&site, "w"), "5001", "{:?}", site.told("w"));
    let kept = &site.get("NnfPortManager", "r", "nnf-port-manager")["status"]["allocations"];
    assert_eq!(kept.as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn a_port_cools_down_and_who_waits_for_it_looks_again() {
    let mut site = site();
    site.edit("SystemConfiguration", "default", "default", |object| {
        object["spec"]["ports"] = json!([5000]);
        object["spec"]["portsCooldownInSeconds"] = json!(10_000);
    });
    site.towards("v", &lines("gfs2"), "PreRun");
    site.jobs_tell(&running());
    site.ask("v", "Teardown");
    site.settle();
    assert!(site.is_ready("v", "Teardown"), "{:?}", site.told("v"));
    site.towards("w", &lines("gfs2"), "PreRun");
    let (_, _, status, message) = site.told("w");
    assert_eq!(status, "DriverWait", "{message}");
    assert!(message.contains("pending 1 ports that are free on all rabbits"), "{message}");
    assert!(site.names("Job").iter().all(|job| !job.starts_with("default/w-")));
    let looks_again = site.looks_again("w");
    assert!(looks_again, "nothing else tells that a port is free again");
    site.pass_time(10_000);
    site.settle();
    assert_eq!(told(&site, "w"), "5000", "{:?}", site.told("w"));
}

#[test]
fn a_site_without_ports_is_told_so() {
    for (ports, part) in [(json!([]), "lists 0 ports"), (json!(["http"]), "\"http\" is no port")] {
        let mut site = site();
        site.edit("SystemConfiguration", "default", "default", |object| {
            object["spec"]["ports"] = ports.clone();
        });
        site.towards("w", &lines("gfs2"), "PreRun");
        let (_, _, status, message) = site.told("w");
        assert!(status == "Error" && message.contains(part), "{status} {message}");
        site.remove("w");
    }
}
