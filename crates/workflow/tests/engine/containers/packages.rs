//! Job packages (archives or files that a container profile names): every rabbit of a run has them before any
//! container of the run starts. The tests write what agents were observed to write.

use serde_json::{Value, json};

use super::{complete, lines, mpi, on_rabbits, on_rabbits::state, running};
use crate::site::{Site, at};

const URL: &str = "http://server/data";
const NAMES: [&str; 2] = ["r/default-w-1-packages", "s/default-w-1-packages"];

fn package() -> Value {
    json!({"name": "data", "url": URL, "sha256": "0".repeat(64), "size": 1})
}

/// Gives the site's profile a package.
fn with_package(mut site: Site) -> Site {
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["packages"] = json!([package()]);
    });
    site
}

/// Returns the status that the agent of a rabbit writes once the rabbit has the package.
fn package_status(rabbit: &str) -> Value {
    let path = format!("/var/lib/{rabbit}/data");
    json!({"state": "Ready", "packages": [{"name": "data", "path": path}]})
}

impl Site {
    /// Gives the package to one rabbit after the other. `nothing` says whether the site has no container yet: it must
    /// return true until the last rabbit has the package.
    fn fetch_all(&mut self, nothing: impl Fn(&Site) -> bool) {
        assert_eq!(self.names("NodeContainers"), NAMES, "{}", self.message("w"));
        self.set_agent_status(
            "s",
            &json!({"message": format!("package data from {URL} is fetched")}),
        );
        self.set_agent_status("r", &package_status("r"));
        self.settle();
        assert!(nothing(self), "only one rabbit has the package: {:?}", self.objects.keys());
        assert!(self.message("w").ends_with(&format!("s: package data from {URL} is fetched")));
        self.set_agent_status("s", &package_status("s"));
        self.settle();
        assert!(!nothing(self), "{}", self.message("w"));
    }
}

#[test]
fn jobs_are_created_after_all_rabbits_have_the_packages() {
    let mut site = with_package(super::site());
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    let spec = site.get("NodeContainers", "r", "default-w-1-packages")["spec"].clone();
    assert_eq!(spec["packages"], json!([package()]));
    assert!(spec["containers"].is_null() && spec["storages"].is_null(), "{spec:#}");
    assert_eq!(spec["activeDeadlineSeconds"], 60);
    site.fetch_all(|site| site.names("Job").is_empty());
    for rabbit in ["r", "s"] {
        let job = site.get("Job", "default", &format!("w-{rabbit}"));
        let pod = &job["spec"]["template"]["spec"];
        let path = format!("/var/lib/{rabbit}/data");
        let volume = json!({"name": "nnf-package-0", "hostPath": {"path": path, "type": "File"}});
        let mount =
            json!({"name": "nnf-package-0", "mountPath": "/nnf/packages/data", "readOnly": true});
        assert!(pod["volumes"].as_array().unwrap().contains(&volume), "{pod:#}");
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        assert!(mounts.contains(&mount), "{pod:#}");
    }
    site.set_all_job_status(&running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.request_state("w", "PostRun");
    site.set_all_job_status(&complete());
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.status_of("w"));
    for state in ["DataOut", "Teardown"] {
        assert_eq!(site.names("NodeContainers"), NAMES, "packages stay while containers exist");
        site.request_state("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn agents_start_containers_after_all_rabbits_have_the_packages() {
    let mut site = with_package(on_rabbits::site());
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.fetch_all(|site| site.names("NodeContainers") == NAMES);
    let packages = &site.get("NodeContainers", "r", "default-w-1")["spec"]["packages"];
    assert_eq!(*packages, json!([package()]));
    site.set_all_agent_status(&state("Ready"));
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn mpi_workers_are_created_after_all_rabbits_have_the_packages() {
    let mut site = super::site();
    mpi::with_profile(&mut site);
    let mut site = with_package(site);
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.fetch_all(|site| site.names("Job").is_empty());
    assert_eq!(site.names("Job"), ["default/w-worker-0", "default/w-worker-1"]);
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn packages_stay_until_the_last_pod_is_gone() {
    let mut site = with_package(super::site());
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_agent_status(&package_status("r"));
    site.set_all_job_status(&running());
    site.pods_stay = true;
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.message("w").contains("end of containers"), "{}", site.message("w"));
    for rabbit in ["r", "s"] {
        let packages = site.get("NodeContainers", rabbit, "default-w-1-packages");
        assert!(packages["metadata"]["deletionTimestamp"].is_null(), "pods still use the packages");
    }
    site.pods_stay = false;
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn a_package_that_cannot_be_fetched_fails_prerun_with_rabbit_url_and_cause() {
    for (site, is_late) in [super::site(), on_rabbits::site()].into_iter().zip([true, false]) {
        let mut site = with_package(site);
        site.bring_towards("w", &lines("gfs2"), "PreRun");
        // The run uses the profile as it was in Proposal.
        site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
            profile["data"]["packages"] = json!([]);
        });
        site.set_agent_status("s", &package_status("s"));
        let why = format!("package data from {URL}: its SHA-256 is another");
        let end = if is_late { "TooLate" } else { "Unprepared" };
        site.set_agent_status("r", &json!({"state": end, "message": why}));
        site.settle();
        let (state, ready, status, message) = site.status_of("w");
        assert_eq!((state.as_str(), ready, status.as_str()), ("PreRun", false, "Error"));
        let begin = if is_late {
            "container on r was not ready after 60 seconds"
        } else {
            "containers on r were not started"
        };
        assert!(message.ends_with(&format!("{begin}: {why}")), "{message}");
        assert_eq!((site.names("Job").len(), site.names("NodeContainers").len()), (0, 2));
        site.request_state("w", "Teardown");
        site.settle();
        assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
        site.remove("w");
    }
}

/// An unreadable object may still have packages on its rabbit.
#[test]
fn teardown_waits_while_a_packages_object_cannot_be_read() {
    let mut site = with_package(super::site());
    site.bring_towards("w", &lines("gfs2"), "PreRun");
    site.set_all_agent_status(&package_status("r"));
    site.unreadable = vec![at("NodeContainers", "r", "default-w-1-packages")];
    site.request_state("w", "Teardown");
    site.settle();
    assert!(!site.status_of("w").1, "{:?}", site.status_of("w"));
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}
