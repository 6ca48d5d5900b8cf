//! The cluster's CRDs are missing, or older than we are.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::{Link, PATIENCE},
    disturbed::Disturbed,
    fixture::Fixture,
    program::until,
    server::install_crds,
};

use crate::{log, nobody_died, pids_of};

/// Every program says which kind is missing, waits for it, and needs no restart.
#[test]
fn missing_definitions_are_named_and_waited_for() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&[])?;
    let mut fixture = Fixture::started_on(disturbed.server(), Link::of_this_run(), 1, "xfs")?;
    let cluster = &fixture.run.cluster;
    for (program, kind) in [
        (cluster.coordinator()?, "clientmounts.dataworkflowservices.github.io"),
        (cluster.node("rabbit-1")?, "nnfnodestorages.nnf.cray.hpe.com"),
    ] {
        until("the missing kind to be named", PATIENCE, || {
            let told = log(program)?;
            ensure!(told.contains(kind), "{}: no word of {kind}:\n{told}", program.name());
            Ok(())
        })?;
    }
    let pids = pids_of(&fixture)?;
    disturbed.wait(install_crds(&disturbed.client()?, &api::crd_values()))?;
    fixture.run.describe_system()?;
    fixture.run.whole_life()?;
    nobody_died(&fixture, &pids)?;
    fixture.end()
}

/// A site's CRDs know less of a status than we write: what they know is there, and nobody writes it again and again.
#[test]
fn definitions_that_know_less_are_lived_with() -> anyhow::Result<()> {
    let mut crds = api::crd_values();
    for crd in &mut crds {
        forget(crd, "ClientMount", &["allReady"]);
        forget(crd, "NnfNodeStorage", &["health"]);
        forget(crd, "NnfNode", &["capacity", "capacityAllocated"]);
    }
    let disturbed = Disturbed::new(&crds)?;
    let mut fixture = disturbed.fixture(1, "xfs")?;
    fixture.run.whole_life()?;
    let writes = disturbed.plane.audit()?;
    let patches = writes.iter().filter(|event| {
        event.user == tests::disturbed::DAEMONS && event.verb == "patch" && event.code < 300
    });
    let mut of: std::collections::BTreeMap<(String, String), usize> = Default::default();
    for event in patches {
        *of.entry((event.resource.clone(), event.name.clone())).or_default() += 1;
    }
    ensure!(
        !of.is_empty() && of.values().all(|count| *count < 20),
        "written again and again: {of:?}"
    );
    fixture.end()
}

/// A cluster that serves another version only: the version that we need is named.
#[test]
fn definitions_of_another_version_are_named() -> anyhow::Result<()> {
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
            let told = log(program)?;
            ensure!(told.contains(version), "{}: no word of {version}:\n{told}", program.name());
            Ok(())
        })?;
    }
    fixture.end()
}

fn forget(crd: &mut Value, kind: &str, fields: &[&str]) {
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
