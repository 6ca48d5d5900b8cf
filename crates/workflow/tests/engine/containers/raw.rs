//! Raw storage in pods: each device has a PersistentVolume and a PersistentVolumeClaim, which exist from before the
//! first pod until after the last.

use serde_json::{Value, json};

use super::{BESIDE_KEPT, complete, lines, mpi, running, site};
use crate::{
    job::{STATES, directive},
    site::{Site, at},
};

/// Returns the names of the PersistentVolumeClaims by which a Job's pods get devices.
fn devices(job: &Value) -> Vec<String> {
    let pod = &job["spec"]["template"]["spec"];
    let opened = pod["containers"][0]["volumeDevices"].as_array().cloned().unwrap_or_default();
    let claim_of = |device: &Value| {
        let mut volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == device["name"]).unwrap();
        volume["persistentVolumeClaim"]["claimName"].as_str().unwrap().to_owned()
    };
    opened.iter().map(claim_of).collect()
}

impl Site {
    fn volumes(&self) -> (usize, usize) {
        (self.names("PersistentVolume").len(), self.names("PersistentVolumeClaim").len())
    }

    /// Removes the workflow by force, and checks that nothing of it stays on rabbits.
    fn assert_nothing_left_after_force(mut self) {
        self.edit("Workflow", "default", "w", |object| {
            object["metadata"]["finalizers"] = json!([]);
        });
        self.delete(&at("Workflow", "default", "w"));
        self.settle();
        assert_eq!(self.volumes(), (0, 0));
        let kinds = ["Job", "ClientMount", "NnfNodeStorage", "NnfNodeBlockStorage"];
        assert!(kinds.iter().all(|kind| self.names(kind).is_empty()), "{:?}", self.objects.keys());
    }

    fn hold_volumes(&mut self, finalizers: &Value) {
        for name in self.names("PersistentVolume") {
            let name = name.trim_start_matches('/');
            self.edit("PersistentVolume", "", name, |volume| {
                volume["metadata"]["finalizers"] = finalizers.clone();
            });
        }
    }

    /// Returns path and rabbits of the PersistentVolume that a PersistentVolumeClaim is bound to.
    fn volume(&self, claim: &str) -> (Value, Value) {
        let bound = &self.get("PersistentVolumeClaim", "default", claim)["spec"]["volumeName"];
        let spec = &self.get("PersistentVolume", "", bound.as_str().unwrap())["spec"];
        let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
        (spec["local"]["path"].clone(), term["matchExpressions"][0]["values"].clone())
    }

    /// Checks that the pods of a Job get exactly the devices that this ClientMount of their rabbit mounts.
    fn assert_opens(&self, job: &str, rabbit: &str, mount: &str) {
        let mounts = self.get("ClientMount", rabbit, mount)["spec"]["mounts"].clone();
        let paths = mounts.as_array().unwrap().iter().map(|mount| mount["mountPath"].clone());
        let expected: Vec<_> = paths.map(|path| (path, json!([rabbit]))).collect();
        let claims = devices(self.get("Job", "default", job));
        let opened: Vec<_> = claims.iter().map(|claim| self.volume(claim)).collect();
        assert_eq!(opened, expected, "{job}");
    }
}

#[test]
fn pods_get_each_device_of_their_rabbit_by_its_own_volume() {
    let mut site = site();
    site.bring_towards("w", &lines("raw"), "PreRun");
    assert_eq!(site.volumes(), (3, 3), "one for each compute: {}", site.message("w"));
    for (job, rabbit) in [("w-r", "r"), ("w-s", "s")] {
        site.assert_opens(job, rabbit, "default-w-0-servers");
    }
    let job = site.get("Job", "default", "w-r");
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let env = container["env"].as_array().unwrap();
    let path = &env.iter().find(|variable| variable["name"] == "DW_JOB_data").unwrap()["value"];
    let path = path.as_str().unwrap();
    let (first, _) = site.volume(&devices(job)[0]);
    assert_eq!(first, format!("{path}/node-0"), "the variable names the directory of the devices");
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["mountPath"] == path), "{mounts:#?}");
    let size = |(kind, namespace, name): &(String, String, String)| {
        let spec = &site.get(kind, namespace, name)["spec"];
        let sizes = [&spec["capacity"]["storage"], &spec["resources"]["requests"]["storage"]];
        sizes.into_iter().find_map(|size| size.as_str()).unwrap().parse::<u64>().unwrap()
    };
    let all = site.objects.keys().filter(|at| at.0.starts_with("PersistentVolume"));
    assert!(all.map(size).all(|bytes| bytes >= 1 << 30));
    site.set_all_job_status(&running());
    site.request_state("w", "PostRun");
    site.set_all_job_status(&complete());
    for state in ["PostRun", "DataOut"] {
        site.request_state("w", state);
        site.settle();
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
        assert_eq!(site.volumes(), (3, 3), "ended pods still exist");
    }
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert_eq!(site.volumes(), (0, 0));
    site.remove("w");
}

#[test]
fn only_pods_with_raw_storage_get_persistent_volumes() {
    for kind in ["gfs2", "lustre"] {
        let mut site = site();
        site.bring_towards("w", &lines(kind), "PreRun");
        assert_eq!((site.names("Job").len(), site.volumes()), (2, (0, 0)), "{kind}");
    }
}

#[test]
fn persistent_raw_and_a_jobs_raw_get_separate_volumes() {
    let mut site = site();
    site.keep("raw", "kept", &["c1", "c2", "d1"]);
    let beside = format!("{BESIDE_KEPT} DW_JOB_data=scratch");
    let all = [directive("raw", "scratch"), "#DW persistentdw name=kept".to_owned(), beside];
    site.bring_towards("w", &all, "PreRun");
    assert_eq!(site.volumes(), (6, 6), "{}", site.message("w"));
    for (job, count) in [("w-r", 4), ("w-s", 2)] {
        let claims = devices(site.get("Job", "default", job));
        assert_eq!(claims.len(), count, "{job}: {claims:?}");
    }
}

#[test]
fn mpi_pods_get_the_devices_of_their_rabbit() {
    let mut site = mpi::started_in(site(), "raw", &json!({}));
    assert_eq!(site.volumes(), (3, 3), "{}", site.message("w"));
    site.set_all_job_status(&running());
    for (job, rabbit) in [("w-launcher", "r"), ("w-worker-0", "r"), ("w-worker-1", "s")] {
        site.assert_opens(job, rabbit, "default-w-0-servers");
    }
    for container in
        site.get("Job", "default", "w-launcher")["spec"]["template"]["spec"]["initContainers"]
            .as_array()
            .unwrap()
    {
        assert!(container["volumeDevices"].is_null(), "podhelper opens no device");
    }
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    assert_eq!(site.volumes(), (0, 0));
    site.remove("w");
}

#[test]
fn volumes_stay_until_the_last_pod_is_gone_and_storage_until_the_volumes_are() {
    let mut site = site();
    site.bring_towards("w", &lines("raw"), "PreRun");
    site.set_all_job_status(&running());
    site.pods_stay = true;
    site.request_state("w", "Teardown");
    site.settle();
    assert!(site.message("w").contains("end of containers"), "{}", site.message("w"));
    let is_going = |site: &Site| {
        let volumes = site.objects.iter().filter(|(at, _)| at.0.starts_with("PersistentVolume"));
        volumes.filter(|(_, object)| !object["metadata"]["deletionTimestamp"].is_null()).count()
    };
    assert_eq!((site.volumes(), is_going(&site)), ((3, 3), 0), "pods still use the volumes");
    let held = json!(["kubernetes.io/pv-protection", "site/backup"]);
    site.hold_volumes(&held);
    site.pods_stay = false;
    site.settle();
    assert!(site.names("Job").is_empty());
    let drivers = site.workflow("w")["status"]["drivers"].to_string();
    assert!(drivers.contains("removal of the PersistentVolumes of raw storage"), "{drivers}");
    assert_eq!((site.volumes(), is_going(&site)), ((3, 0), 3));
    let rabbits = site.names("ClientMount").into_iter().filter(|name| name.contains("-servers"));
    assert_eq!(rabbits.count(), 2, "rabbits unmount only after the volumes are gone");
    site.hold_volumes(&json!([]));
    site.collect();
    site.settle();
    assert!(site.is_ready("w", "Teardown"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn a_workflow_removed_by_force_after_any_change_leaves_no_volume() {
    let mut site = site();
    site.bring_towards("w", &lines("raw"), "DataIn");
    let mut had_volumes = 0;
    for state in &STATES[3..] {
        site.request_state("w", state);
        loop {
            had_volumes += usize::from(site.volumes().0 > 0);
            site.clone().assert_nothing_left_after_force();
            if !site.step(|length| (0..length.min(1)).collect()) {
                break;
            }
        }
        match *state {
            "PreRun" => site.set_all_job_status(&running()),
            "PostRun" => site.set_all_job_status(&complete()),
            _ => {}
        }
        assert!(site.is_ready("w", state), "{state}: {:?}", site.status_of("w"));
    }
    assert!(had_volumes > 10, "only {had_volumes} of the removals were with volumes");
}

#[test]
fn a_later_workflow_of_the_same_name_gets_new_volumes() {
    let mut site = site();
    site.bring_towards("w", &lines("raw"), "PreRun");
    let before = site.names("PersistentVolume");
    site.edit("Workflow", "default", "w", |object| object["metadata"]["finalizers"] = json!([]));
    site.delete(&at("Workflow", "default", "w"));
    site.bring_towards("w", &lines("raw"), "PreRun");
    let after = site.names("PersistentVolume");
    assert!(after.len() == 3 && after.iter().all(|name| !before.contains(name)), "{after:?}");
    site.request_state("w", "Teardown");
    site.settle();
    site.remove("w");
}
