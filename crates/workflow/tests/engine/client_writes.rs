//! Fields of a Workflow's status that clients write, and names that clash.

use serde_json::json;

use crate::{
    job::{GIB, directive},
    site::Site,
};

/// Workload managers pass the variables of a workflow's status on to the job, and send requests with the references
/// and the token of the status.
#[test]
fn status_fields_that_a_client_wrote_are_corrected() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "Setup", &["c1"]);
    let before = site.workflow("w").clone();
    site.edit("Workflow", "default", "w", |object| {
        let status = &mut object["status"];
        status["env"]["LD_PRELOAD"] = json!("/tmp/evil.so");
        status["env"]["DW_JOB_scratch"] = json!("/etc");
        status["env"]["DW_WORKFLOW_NAME"] = json!("other");
        status["computes"]["name"] = json!("other");
        status["directiveBreakdowns"][0]["name"] = json!("other-0");
        status["workflowToken"] = json!({"secretName": "root", "secretNamespace": "kube-system"});
        status["requires"] = json!(["copy-offload"]);
    });
    site.settle();
    assert_eq!(site.workflow("w")["status"], before["status"]);
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
}

/// Persistent storage may have the name that the storage of a later job will have.
#[test]
fn persistent_storage_named_like_a_jobs_storage_blocks_no_job() {
    let mut site = Site::new(1, 100 * GIB);
    let create = "#DW create_persistent type=xfs capacity=1GiB name=wlm-7777-0".to_owned();
    site.bring("maker", &[create], "Teardown", &["c1"]);
    site.bring("wlm-7777", &[directive("xfs", "scratch")], "PreRun", &["c1"]);
    let uses = "#DW persistentdw name=wlm-7777-0".to_owned();
    site.bring("user", &[uses], "PreRun", &["c1"]);
    assert!(site.names("Servers").contains(&"default/wlm-7777-0.persistent".to_owned()));
}
