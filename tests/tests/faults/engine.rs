//! Tests in which the cluster's API has faults, or newer CRDs, while the engine drives a workflow.

use std::{env, time::Duration};

use anyhow::{Context, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    disturbed::Disturbed,
    fixture::Fixture,
    gate,
    program::pause,
    workflow::{AFTER_PROPOSAL, Flow},
};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";
const RAW: &str = "#DW jobdw type=raw capacity=64MiB name=other";

/// Returns how long the API is away in each state: `WARREN_TEST_AWAY` seconds; the default is one second.
fn time_away() -> Duration {
    let seconds = env::var("WARREN_TEST_AWAY").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(Duration::from_secs(1), Duration::from_secs)
}

/// After each request for a new state, the API server is killed or, in every second state, etcd is stopped.
#[test]
fn the_engine_waits_for_an_api_that_is_away_in_any_state() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut disturbed = Disturbed::new(&api::crd_values())?;
    let mut flow = Flow::on(Fixture::with_engine_on(disturbed.server(), 2)?, "away")?;
    for (turn, state) in ["Proposal"].into_iter().chain(AFTER_PROPOSAL).enumerate() {
        match state {
            "Proposal" => flow.create(&[XFS])?,
            _ => flow.request_state(state)?,
        }
        if turn % 2 == 0 {
            disturbed.plane.kill_apiserver();
            pause(time_away());
            disturbed.plane.start_apiserver()?;
        } else {
            let etcd = disturbed.plane.etcd().context("etcd")?;
            etcd.pause()?;
            pause(time_away());
            etcd.resume()?;
        }
        flow.wait(state, "Completed")?;
        if state == "Proposal" {
            flow.fill_computes()?;
        }
    }
    flow.delete()?;
    flow.end()
}

/// Name of a field that only a newer version of the site's controllers knows.
const FIELD: &str = "fieldOfTomorrow";

/// Kinds that the engine writes, each with the parts (such as `spec`) that it writes. Agents write the other statuses.
/// Pinned profiles are not in the list, since the API refuses changes of them.
const KINDS: [(&str, &[&str]); 7] = [
    ("Workflow", &["spec", "status"]),
    ("Computes", &["data"]),
    ("DirectiveBreakdown", &["spec", "status"]),
    ("Servers", &["spec", "status"]),
    ("ClientMount", &["spec"]),
    ("NnfNodeBlockStorage", &["spec"]),
    ("NnfNodeStorage", &["spec"]),
];

/// The CRDs preserve unknown fields, as CRDs of a newer version would, and the test adds an unknown field to every
/// structure of the objects. The engine drives the workflow to its end, and every added field must still exist.
#[test]
fn the_engine_keeps_fields_that_it_does_not_know() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut crds = api::crd_values();
    for crd in &mut crds {
        for version in crd["spec"]["versions"].as_array_mut().context("versions")? {
            preserve_unknown_fields(&mut version["schema"]["openAPIV3Schema"]);
        }
    }
    let disturbed = Disturbed::new(&crds)?;
    let mut flow = Flow::on(Fixture::with_engine_on(disturbed.server(), 2)?, "fields")?;
    let client = disturbed.client()?;
    let mut checked = 0;
    for state in ["Proposal"].into_iter().chain(AFTER_PROPOSAL) {
        match state {
            "Proposal" => flow.create(&[XFS, RAW])?,
            _ => flow.request_state(state)?,
        }
        flow.wait(state, "Completed")?;
        if state == "Proposal" {
            flow.fill_computes()?;
        }
        for (kind, parts) in KINDS {
            let schema = schema(&crds, kind)?;
            let found = disturbed.wait(check_and_add_fields(&client, kind, parts, &schema))?;
            checked += found.fields;
            ensure!(found.missing.is_empty(), "{state}: lost in {:?}", found.missing);
        }
    }
    ensure!(checked > 100, "only {checked} fields were looked for");
    flow.delete()?;
    flow.end()
}

/// Makes every structure of the schema preserve unknown fields.
fn preserve_unknown_fields(schema: &mut Value) {
    if schema["properties"].is_object() {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    for key in ["properties", "items", "additionalProperties"] {
        match (key, schema.get_mut(key)) {
            ("properties", Some(Value::Object(fields))) => {
                fields.values_mut().for_each(preserve_unknown_fields);
            }
            (_, Some(inner @ Value::Object(_))) => preserve_unknown_fields(inner),
            _ => {}
        }
    }
}

fn schema(crds: &[Value], kind: &str) -> anyhow::Result<(ApiResource, Value)> {
    let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).context("a CRD")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = &crd["spec"]["versions"][0];
    let (group, name) = (text(&crd["spec"]["group"]), text(&version["name"]));
    let resource = ApiResource {
        api_version: format!("{group}/{name}"),
        group,
        version: name,
        kind: kind.to_owned(),
        plural: text(&crd["spec"]["names"]["plural"]),
    };
    Ok((resource, version["schema"]["openAPIV3Schema"].clone()))
}

/// Result of the search for fields that were added in earlier states.
#[derive(Default)]
struct FoundFields {
    fields: usize,
    /// Objects that lost fields, as messages.
    missing: Vec<String>,
}

/// Annotation that records how many fields were added to an object.
const COUNT: &str = "tests.warren/fields";

/// Counts the fields that earlier states added to the objects of a kind, and adds the unknown field to structures that
/// do not have it.
async fn check_and_add_fields(
    client: &Client,
    kind: &str,
    parts: &[&str],
    (resource, schema): &(ApiResource, Value),
) -> anyhow::Result<FoundFields> {
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut found = FoundFields::default();
    for object in objects.list(&ListParams::default()).await?.items {
        let namespace = object.namespace().unwrap_or_default();
        if namespace == "nnf-system" {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
        let name = object.name_any();
        let there: usize = parts.iter().map(|part| count(&object.data[*part])).sum();
        let known = object.annotations().get(COUNT).and_then(|count| count.parse().ok());
        if known.is_some_and(|known: usize| there < known) {
            found.missing.push(format!("{kind} {namespace}/{name}: {there} of {known:?}"));
        }
        found.fields += there;
        let added = add_fields(&api, &name, parts, schema).await;
        added.with_context(|| format!("{kind} {namespace}/{name}"))?;
    }
    Ok(found)
}

/// Adds the unknown field to all structures of an object. Tries again after a conflict with another writer.
async fn add_fields(
    api: &Api<DynamicObject>,
    name: &str,
    parts: &[&str],
    schema: &Value,
) -> anyhow::Result<()> {
    loop {
        let mut object = api.get(name).await?;
        for part in parts {
            if let Some(value) = object.data.get_mut(*part) {
                add_field(&schema["properties"][*part], value);
            }
        }
        let added: usize = parts.iter().map(|part| count(&object.data[*part])).sum();
        object.annotations_mut().insert(COUNT.to_owned(), added.to_string());
        let stored = match api.replace(name, &PostParams::default(), &object).await {
            Ok(stored) => stored,
            Err(kube::Error::Api(status)) if status.code == 409 => continue,
            Err(error) => return Err(error.into()),
        };
        if !parts.contains(&"status") || stored.data["status"] == object.data["status"] {
            return Ok(());
        }
        object.metadata = stored.metadata;
        match api.replace_status(name, &PostParams::default(), &object).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn add_field(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let known = &schema["properties"][name];
                let inner = if known.is_null() { &schema["additionalProperties"] } else { known };
                add_field(inner, field);
            }
            if schema["properties"].is_object() {
                fields.insert(FIELD.to_owned(), json!("kept"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| add_field(&schema["items"], item)),
        _ => {}
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key(FIELD)) + fields.values().map(count).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}
