//! Tests the file that lists the components of a Lustre file system. The agent writes it into the file system's root
//! when the user gets access.

use api::{ClientMount, Servers, Severity, client_mount::ClientMountStatus};
use serde_json::{Value, json};
use storage::{
    Step,
    desired::{Owner, RootFile},
};

use crate::bench::{Bench, RABBIT, client_mount, mount_failed, mount_ready};

const MOUNT: &str = "job-7-0-ownergroup";

/// A path as central controllers write it, with doubled slashes.
const PATH: &str = "//mnt/tmp//default-job-7-0-ost-0";

async fn bench() -> Bench {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.start();
    bench
}

fn ownergroup(set_permissions: bool) -> Value {
    let mut object = client_mount(MOUNT, &[]);
    for (label, value) in [("kind", "NnfStorage"), ("name", "job-7-0"), ("namespace", "default")] {
        let label = format!("dataworkflowservices.github.io/owner.{label}");
        object["metadata"]["labels"][label] = json!(value);
    }
    object["spec"]["mounts"] = json!([{
        "mountPath": PATH, "setPermissions": set_permissions,
        "userID": 1050, "groupID": 1051, "options": "", "type": "lustre", "targetType": "directory",
        "device": {"type": "lustre",
            "lustre": {"fileSystemName": "aaaaaaab", "mgsAddresses": "172.31.241.10@kfi"},
            "deviceReference": {"objectReference": {"name": "default-job-7-0-ost-0", "namespace": RABBIT}}}
    }]);
    object
}

fn servers(label: &str) -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Servers",
        "metadata": {"name": "job-7-0", "namespace": "default"},
        "spec": {"allocationSets": [
            {"label": "mgtmdt", "allocationSize": 1, "storage": [{"name": "rabbit-1", "allocationCount": 1}]},
            {"label": label, "allocationSize": 1, "storage": [{"name": "rabbit-2", "allocationCount": 2}]}]}
    })
}

fn written(bench: &Bench) -> Vec<RootFile> {
    let file = |step: Step| match step {
        Step::WriteFile { file, .. } => Some(file),
        _ => None,
    };
    bench.host.applied().into_iter().filter_map(file).collect()
}

fn status(object: ClientMount) -> ClientMountStatus {
    object.status.unwrap()
}

#[tokio::test]
async fn the_owner_of_a_lustre_gets_a_file_that_names_its_rabbits() {
    let bench = bench().await;
    bench.make::<Servers>("default", servers("ost")).await;
    bench.make::<ClientMount>(RABBIT, ownergroup(true)).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    let text = concat!(
        r#"{"mdt":[],"mgt":[],"mgtmdt":["rabbit-1"],"#,
        r#""nnfNode":["rabbit-1","rabbit-2"],"ost":["rabbit-2","rabbit-2"]}"#,
        "\n"
    );
    let owner = Owner { uid: 1050, gid: 1051 };
    let file = RootFile { name: ".nnf-servers.json".into(), text: text.into(), owner };
    assert_eq!(written(&bench), [file]);
    let given = |step: &Step| matches!(step, Step::SetOwner { owner: to, .. } if *to == owner);
    assert_eq!(bench.host.applied().iter().filter(|step| given(step)).count(), 1);
    bench.delete::<ClientMount>(MOUNT).await;
    bench.until_gone::<ClientMount>(MOUNT).await;
}

#[tokio::test]
async fn a_lustre_is_not_mounted_before_its_servers_are_known() {
    let bench = bench().await;
    bench.make::<ClientMount>(RABBIT, ownergroup(true)).await;
    let error = status(bench.until(MOUNT, "refused", mount_failed).await).error.unwrap();
    assert_eq!(error.severity, Severity::Major);
    for part in
        ["unable to dump servers resource to file", "Servers default/job-7-0 does not exist"]
    {
        assert!(error.debug_message.contains(part), "{error:?}");
    }
    assert_eq!(*bench.mounted.borrow(), 0);
    bench.make::<Servers>("default", servers("ost")).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    assert_eq!(written(&bench).len(), 1);
}

#[tokio::test]
async fn the_error_for_servers_of_another_file_system_names_the_field() {
    let bench = bench().await;
    bench.make::<Servers>("default", servers("gfs2")).await;
    bench.make::<ClientMount>(RABBIT, ownergroup(true)).await;
    let error = status(bench.until(MOUNT, "refused", mount_failed).await).error.unwrap();
    assert!(error.debug_message.contains("allocationSets[1].label: \"gfs2\""), "{error:?}");
}

#[tokio::test]
async fn a_mount_without_set_permissions_reads_no_servers() {
    let bench = bench().await;
    bench.make::<ClientMount>(RABBIT, ownergroup(false)).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    assert!(written(&bench).is_empty());
    assert!(!bench.requests().iter().any(|(_, path)| path.contains("/servers/")));
}
