//! Tests in which the cluster's CRDs are missing, older than Warren, or of another version.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::{Link, PATIENCE},
    disturbed::Disturbed,
    fixture::Fixture,
    program::until,
    server::install_crds,
};

use crate::{log, no_program_died, pids_of};

/// Coordinator and rabbit agent log which kind is missing, wait for its CRD, and need no restart.
#[test]
fn daemons_log_missing_crds_and_wait_for_them() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&[])?;
    let mut fixture = Fixture::started_on(disturbed.server(), Link::of_this_run(), 1, "xfs")?;
    let cluster = &fixture.run.cluster;
    for (program, kind) in [
        (cluster.coordinator()?, "clientmounts.dataworkflowservices.github.io"),
        (cluster.node("rabbit-1")?, "nnfnodestorages.nnf.cray.hpe.com"),
    ] {
        until("the program to log the missing kind", PATIENCE, || {
            let logged = log(program)?;
            ensure!(
                logged.contains(kind),
                "{}: the log does not name {kind}:\n{logged}",
                program.name()
            );
            Ok(())
        })?;
    }
    let pids = pids_of(&fixture)?;
    disturbed.wait(install_crds(&disturbed.client()?, &api::crd_values()))?;
    fixture.run.describe_system()?;
    fixture.run.whole_life()?;
    no_program_died(&fixture, &pids)?;
    fixture.end()
}

/// The API server drops status fields that a site's older CRDs lack. The agents write the remaining fields, and do not
/// repeat a write because the stored object lacks the dropped fields.
#[test]
fn a_job_succeeds_with_crds_that_lack_status_fields() -> anyhow::Result<()> {
    let mut crds = api::crd_values();
    for crd in &mut crds {
        remove_status_fields(crd, "ClientMount", &["allReady"]);
        remove_status_fields(crd, "NnfNodeStorage", &["health"]);
        remove_status_fields(crd, "NnfNode", &["capacity", "capacityAllocated"]);
    }
    let disturbed = Disturbed::new(&crds)?;
    let mut fixture = disturbed.fixture(1, "xfs")?;
    fixture.run.whole_life()?;
    let requests = disturbed.plane.audit()?;
    let patches = requests.iter().filter(|event| {
        event.user == tests::disturbed::DAEMONS && event.verb == "patch" && event.code < 300
    });
    let mut patches_by_object: std::collections::BTreeMap<(String, String), usize> =
        Default::default();
    for event in patches {
        *patches_by_object.entry((event.resource.clone(), event.name.clone())).or_default() += 1;
    }
    ensure!(
        !patches_by_object.is_empty() && patches_by_object.values().all(|count| *count < 20),
        "patched too often: {patches_by_object:?}"
    );
    fixture.end()
}

/// The cluster serves only another API version. The programs log the version that they need.
#[test]
fn the_needed_version_is_logged_if_the_crds_have_another() -> anyhow::Result<()> {
    let mut crds = api::crd_values();
    for crd in &mut crds {
        for version in crd["spec"]["versions"].as_array_mut().context("versions")? {
            version["name"] = json!("v1alpha1");
        }
    }
    let disturbed = Disturbed::new(&crds)?;
    let fixture = Fixture::started_on(disturbed.server(), Link::of_this_run(), 1, "xfs")?;
    let cluster = &fixture.run.cluster;
    for (program, version) in
        [(cluster.coordinator()?, "v1alpha7"), (cluster.node("rabbit-1")?, "v1alpha11")]
    {
        until("the version to be named", PATIENCE, || {
            let logged = log(program)?;
            ensure!(
                logged.contains(version),
                "{}: the log does not name {version}:\n{logged}",
                program.name()
            );
            Ok(())
        })?;
    }
    fixture.end()
}

fn remove_status_fields(crd: &mut Value, kind: &str, fields: &[&str]) {
    if crd["spec"]["names"]["kind"] != kind {
        return;
    }
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
        for field in fields {
            let known = status["properties"].as_object_mut().and_then(|known| known.remove(*field));
            assert!(known.is_some(), "{kind} has no status.{field}");
            if let Some(required) = status["required"].as_array_mut() {
                required.retain(|name| name != field);
            }
        }
        version["additionalPrinterColumns"] = json!([]);
    }
}
