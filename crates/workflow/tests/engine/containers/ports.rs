//! Ports on rabbits, with several workflows.

use serde_json::json;

use super::{lines, running, site};
use crate::site::{Site, at};

fn ports_variable(site: &Site, name: &str) -> String {
    let env = &site.workflow(name)["status"]["env"]["NNF_CONTAINER_PORTS"];
    env.as_str().unwrap_or_default().to_owned()
}

#[test]
fn two_workflows_on_one_rabbit_get_different_ports() {
    let mut site = site();
    site.bring_towards("v", &lines("gfs2"), "PreRun");
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    assert_eq!(
        (ports_variable(&site, "v").as_str(), ports_variable(&site, "w").as_str()),
        ("5000", "5001")
    );
    let taken = &site.get("NnfPortManager", "r", "nnf-port-manager")["status"];
    assert_eq!(taken["status"], "Ready");
    assert_eq!(taken["allocations"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unreadable_workflow_keeps_its_ports() {
    let mut site = site();
    site.bring_towards("v", &lines("gfs2"), "PreRun");
    site.unreadable = vec![at("Workflow", "default", "v")];
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    assert_eq!(ports_variable(&site, "w"), "5001", "{:?}", site.status_of("w"));
    let kept = &site.get("NnfPortManager", "r", "nnf-port-manager")["status"]["allocations"];
    assert_eq!(kept.as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn a_workflow_waits_until_a_port_has_cooled_down() {
    let mut site = site();
    site.edit("SystemConfiguration", "default", "default", |object| {
        object["spec"]["ports"] = json!([5000]);
        object["spec"]["portsCooldownInSeconds"] = json!(10_000);
    });
    site.bring_towards("v", &lines("gfs2"), "PreRun");
    site.set_all_job_status(&running());
    site.request_state("v", "Teardown");
    site.settle();
    assert!(site.is_ready("v", "Teardown"), "{:?}", site.status_of("v"));
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    let (_, _, status, message) = site.status_of("w");
    assert_eq!(status, "DriverWait", "{message}");
    assert!(message.contains("pending 1 ports that are free on all rabbits"), "{message}");
    assert!(site.names("Job").iter().all(|job| !job.starts_with("default/w-")));
    let replans_soon = site.replans_soon("w");
    assert!(replans_soon, "no watch reports that a port is free again");
    site.pass_time(10_000);
    site.settle();
    assert_eq!(ports_variable(&site, "w"), "5000", "{:?}", site.status_of("w"));
}

#[test]
fn a_site_without_valid_ports_is_reported() {
    for (ports, part) in [(json!([]), "lists 0 ports"), (json!(["http"]), "\"http\" is not a port")]
    {
        let mut site = site();
        site.edit("SystemConfiguration", "default", "default", |object| {
            object["spec"]["ports"] = ports.clone();
        });
        site.bring_towards("w", &lines("gfs2"), "PreRun");
        let (_, _, status, message) = site.status_of("w");
        assert!(status == "Error" && message.contains(part), "{status} {message}");
        site.remove("w");
    }
}
