//! Job packages (archives or files that a container profile names): every rabbit of a run has them before any
//! container of the run starts. The tests write what agents were observed to write.

use serde_json::{Value, json};

use super::{complete, lines, running};
use crate::site::Site;

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
