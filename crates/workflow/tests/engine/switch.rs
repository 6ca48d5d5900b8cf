//! Workflows that the Go controllers began before this engine took over.

use serde_json::json;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

/// Returns a site with a Workflow of the Go controllers that is ready in a state, and has a mount.
fn with_go_workflow(state: &str) -> Site {
    let mut site = Site::new(1, 100 * GIB);
    let shares: Vec<_> = ["Proposal", "Setup", "PreRun", "PostRun", "Teardown"]
        .map(|watched| json!({"driverID": "nnf", "dwdIndex": 0, "watchState": watched, "completed": false, "status": "Pending"}))
        .into();
    site.put(json!({
        "kind": "Workflow",
        "metadata": {"name": "theirs", "namespace": "default", "finalizers":
            ["nnf.cray.hpe.com/nnf_workflow", "dataworkflowservices.github.io/workflow"]},
        "spec": {
            "desiredState": state, "wlmID": "flux", "jobID": "f4", "userID": 1, "groupID": 1,
            "hurry": false, "forceReady": false, "dwDirectives": [directive("xfs", "scratch")]},
        "status": {"state": state, "ready": true, "status": "Completed", "message": "", "drivers": shares},
    }));
    let name = |key: &str| format!("dataworkflowservices.github.io/{key}");
    let uid = site.workflow("theirs")["metadata"]["uid"].clone();
    site.put(json!({
        "kind": "ClientMount",
        "metadata": {"name": "default-theirs-0-computes", "namespace": "c1", "labels": {
            name("workflow.name"): "theirs", name("workflow.namespace"): "default", name("workflow.uid"): uid,
            name("owner.kind"): "NnfAccess", "nnf.cray.hpe.com/directive_index": "0"}},
        "spec": {"node": "c1", "desiredState": "mounted", "mounts": [{
            "mountPath": "/mnt/nnf/theirs", "type": "xfs", "targetType": "directory", "setPermissions": false, "options": "",
            "device": {"type": "lvm", "deviceReference": {"objectReference":
                {"kind": "NnfNodeStorage", "name": "theirs", "namespace": "r"}}}}]},
    }));
    site
}

#[test]
fn workflows_of_the_go_controllers_get_only_a_message() {
    for (place, state) in STATES[..6].iter().enumerate() {
        let mut site = with_go_workflow(state);
        site.settle();
        let (reported_state, ready, status, message) = site.status_of("theirs");
        assert_eq!((reported_state.as_str(), ready, status.as_str()), (*state, true, "Completed"));
        assert!(message.contains("begun by the Go controllers"), "{state}: {message}");
        let next = STATES[place + 1];
        for requested in [next, "Teardown"] {
            site.request_state("theirs", requested);
            site.settle();
            let (reported_state, _, status, message) = site.status_of("theirs");
            assert_eq!(
                (reported_state.as_str(), status.as_str()),
                (*state, "TransientCondition"),
                "{requested}"
            );
            assert!(message.contains("begun by the Go controllers"), "{requested}: {message}");
        }
        site.delete(&at("Workflow", "default", "theirs"));
        site.settle();
        let held = &site.workflow("theirs")["metadata"]["finalizers"];
        assert_eq!(held.as_array().map(Vec::len), Some(2), "{state}");
        let mount = site.get("ClientMount", "c1", "default-theirs-0-computes");
        assert_eq!(mount["spec"]["desiredState"], "mounted", "{state}");
        assert!(site.names("Servers").is_empty() && site.names("Computes").is_empty(), "{state}");
    }
}
