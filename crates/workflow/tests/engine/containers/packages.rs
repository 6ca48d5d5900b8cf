//! Packages: on every rabbit of a run before anything of it starts on one, whoever runs the containers. The agents are played by what
//! they were seen to write.

use serde_json::{Value, json};

use super::{complete, lines, mpi, on_rabbits, on_rabbits::state, running};
use crate::site::{Site, at};

const URL: &str = "http://server/data";
const NAMES: [&str; 2] = ["r/default-w-1-packages", "s/default-w-1-packages"];

fn package() -> Value {
    json!({"name": "data", "url": URL, "sha256": "0".repeat(64), "size": 1})
}

/// A site whose profile has a package.
fn with_package(mut site: Site) -> Site {
    site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
        profile["data"]["packages"] = json!([package()]);
    });
    site
}

/// A rabbit that has the package.
fn has(rabbit: &str) -> Value {
    let path = format!("/var/lib/{rabbit}/data");
    json!({"state": "Ready", "packages": [{"name": "data", "path": path}]})
}

impl Site {
    /// The rabbits have the packages, one after the other; `nothing` of these is there before the last has.
    fn fetch_all(&mut self, nothing: impl Fn(&Site) -> bool) {
        assert_eq!(self.names("NodeContainers"), NAMES, "{}", self.message("w"));
        self.agent_tells("s", &json!({"message": format!("package data from {URL} is fetched")}));
        self.agent_tells("r", &has("r"));
        self.settle();
        assert!(nothing(self), "only one rabbit has the package: {:?}", self.objects.keys());
        assert!(self.message("w").ends_with(&format!("s: package data from {URL} is fetched")));
        self.agent_tells("s", &has("s"));
        self.settle();
        assert!(!nothing(self), "{}", self.message("w"));
    }
}

#[test]
fn a_job_is_made_once_every_rabbit_has_the_packages_and_its_pod_sees_those_of_its_rabbit() {
    let mut site = with_package(super::site());
    site.towards("w", &lines("gfs2"), "PreRun");
    let told = site.get("NodeContainers", "r", "default-w-1-packages")["spec"].clone();
    assert_eq!(told["packages"], json!([package()]));
    assert!(told["containers"].is_null() && told["storages"].is_null(), "{told:#}");
    assert_eq!(told["activeDeadlineSeconds"], 60);
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
    site.jobs_tell(&running());
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.ask("w", "PostRun");
    site.jobs_tell(&complete());
    assert!(site.is_ready("w", "PostRun"), "{:?}", site.told("w"));
    for state in ["DataOut", "Teardown"] {
        assert_eq!(site.names("NodeContainers"), NAMES, "they stay while a container is there");
        site.ask("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
    }
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn without_kubernetes_no_rabbit_runs_anything_before_every_rabbit_has_the_packages() {
    let mut site = with_package(on_rabbits::site());
    site.towards("w", &lines("gfs2"), "PreRun");
    site.fetch_all(|site| site.names("NodeContainers") == NAMES);
    let told = &site.get("NodeContainers", "r", "default-w-1")["spec"]["packages"];
    assert_eq!(*told, json!([package()]));
    site.agents_tell(&state("Ready"));
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.told("w"));
    site.ask("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn no_worker_of_mpi_is_made_before_every_rabbit_has_the_packages() {
    let mut site = super::site();
    mpi::with_profile(&mut site);
    let mut site = with_package(site);
    site.towards("w", &lines("gfs2"), "PreRun");
    site.fetch_all(|site| site.names("Job").is_empty());
    assert_eq!(site.names("Job"), ["default/w-worker-0", "default/w-worker-1"]);
    site.ask("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn packages_stay_until_the_last_pod_is_gone() {
    let mut site = with_package(super::site());
    site.towards("w", &lines("gfs2"), "PreRun");
    site.agents_tell(&has("r"));
    site.jobs_tell(&running());
    site.pods_stay = true;
    site.ask("w", "Teardown");
    site.settle();
    assert!(site.message("w").contains("end of containers"), "{}", site.message("w"));
    for rabbit in ["r", "s"] {
        let packages = site.get("NodeContainers", rabbit, "default-w-1-packages");
        assert!(packages["metadata"]["deletionTimestamp"].is_null(), "pods have them mounted");
    }
    site.pods_stay = false;
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    assert!(site.names("NodeContainers").is_empty());
    site.remove("w");
}

#[test]
fn a_package_that_cannot_be_had_ends_the_start_with_rabbit_package_address_and_cause() {
    for (site, is_late) in [super::site(), on_rabbits::site()].into_iter().zip([true, false]) {
        let mut site = with_package(site);
        site.towards("w", &lines("gfs2"), "PreRun");
        // The run has what the profile said at Proposal.
        site.edit("NnfContainerProfile", "nnf-system", "app", |profile| {
            profile["data"]["packages"] = json!([]);
        });
        site.agent_tells("s", &has("s"));
        let why = format!("package data from {URL}: its SHA-256 is another");
        let end = if is_late { "TooLate" } else { "Unprepared" };
        site.agent_tells("r", &json!({"state": end, "message": why}));
        site.settle();
        let (state, ready, status, message) = site.told("w");
        assert_eq!((state.as_str(), ready, status.as_str()), ("PreRun", false, "Error"));
        let begin = if is_late {
            "container on r was not ready after 60 seconds"
        } else {
            "containers on r were not started"
        };
        assert!(message.ends_with(&format!("{begin}: {why}")), "{message}");
        assert_eq!((site.names("Job").len(), site.names("NodeContainers").len()), (0, 2));
        site.ask("w", "Teardown");
        site.settle();
        assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
        site.remove("w");
    }
}

/// Nobody knows what an object is for that cannot be read.
#[test]
fn packages_that_cannot_be_read_may_be_there() {
    let mut site = with_package(super::site());
    site.towards("w", &lines("gfs2"), "PreRun");
    site.agents_tell(&has("r"));
    site.unreadable = vec![at("NodeContainers", "r", "default-w-1-packages")];
    site.ask("w", "Teardown");
    site.settle();
    assert!(!site.told("w").1, "{:?}", site.told("w"));
    site.unreadable.clear();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.told("w"));
    site.remove("w");
}
