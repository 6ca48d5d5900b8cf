//! The text of a change in a table: the changed object, and the fields for which tables exist.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::At;
use crate::change::Change;

/// Returns a change as text, with the fields that the object has after the change.
pub(super) fn describe(change: &Change, all: &BTreeMap<At, Value>) -> String {
    let target = change.target();
    let at = (target.resource.kind.clone(), target.namespace.clone(), target.name.clone());
    let after = match change.inner() {
        Change::Create(_, object) | Change::CreateKeys(_, object) => json!(object),
        Change::Patch(_, patch) | Change::Status(_, patch) => {
            let mut object = all[&at].clone();
            json_patch::patch(&mut object, patch).unwrap();
            object
        }
        Change::Delete(..) | Change::IfClaimed(..) => return change.to_string(),
    };
    if at.0 == "Workflow" {
        return format!("{}: {}", at.2, workflow(&after["status"]));
    }
    let fields = fields_of(&at.0, &after);
    if fields.is_empty() { change.to_string() } else { format!("{change}: {fields}") }
}

/// Returns the fields of an object that tables check, as text.
fn fields_of(kind: &str, object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    match kind {
        "NnfNodeBlockStorage" => join(&spec["allocations"], ", ", |allocation| {
            format!("{} for {}", allocation["capacity"], words(&allocation["access"]))
        }),
        "NnfNodeStorage" => file_system(spec),
        "ClientMount" => {
            let mounts = join(&spec["mounts"], ", ", mount);
            format!("{} {mounts}", text(&spec["desiredState"]))
        }
        "Servers" => servers(object),
        "NnfDataMovement" => {
            let path = |side: &str| text(&spec[side]["path"]);
            let end = status["status"].as_str().or(status["state"].as_str());
            let end = end.map(|end| format!(", {end}")).unwrap_or_default();
            format!("{} to {}{end}", path("source"), path("destination"))
        }
        "PersistentStorageInstance" => {
            let users = join(&spec["consumerReferences"], " ", |entry| text(&entry["name"]));
            let reported = status["state"].as_str().unwrap_or("unknown");
            format!("{}, used by [{users}], status {reported}", text(&spec["state"]))
        }
        "NnfSystemStorage" => match (&status["ready"], &status["error"]) {
            (Value::Null, _) => text(&object["metadata"]["finalizers"][0]),
            (ready, Value::Null) => format!("ready {ready}"),
            (_, error) => {
                format!("{} {}", text(&error["severity"]), text(&error["debugMessage"]))
            }
        },
        "NnfLustreMGT" => format!(
            "for [{}], not [{}], {} commands",
            join(&spec["claimList"], " ", |holder| text(&holder["name"])),
            words(&spec["fsNameBlackList"]),
            spec["commandList"].as_array().map_or(0, Vec::len)
        ),
        "Storage" => text(&status["status"]),
        "Job" | "NodeContainers" => run(spec),
        _ => String::new(),
    }
}

fn workflow(status: &Value) -> String {
    let ready = if status["ready"] == true { ", ready" } else { "" };
    let message = text(&status["message"]);
    let separator = if message.is_empty() { "" } else { ": " };
    format!("{} {}{ready}{separator}{message}", text(&status["state"]), text(&status["status"]))
}

fn file_system(spec: &Value) -> String {
    let lustre = &spec["lustreStorage"];
    let kind = text(&spec["fileSystemType"]);
    match lustre["targetType"].as_str() {
        Some(target) => {
            let name = text(&lustre["fileSystemName"]);
            let start = lustre["startIndex"].as_i64().unwrap_or(0);
            format!("{target} {start} of {name} at {}", text(&lustre["mgsAddress"]))
        }
        None => format!("{} {kind} of {}", spec["count"], spec["capacity"]),
    }
}

fn mount(mount: &Value) -> String {
    let device = &mount["device"];
    let path = text(&mount["mountPath"]);
    let compute = mount["compute"].as_str().map(|name| format!(" for {name}")).unwrap_or_default();
    if device["lustre"].is_object() {
        let lustre = &device["lustre"];
        let (name, address) = (text(&lustre["fileSystemName"]), text(&lustre["mgsAddresses"]));
        return format!("{name} of {address} at {path}{compute}");
    }
    let reference = &device["deviceReference"];
    let index = reference["data"].as_i64().unwrap_or(0);
    let storage = &reference["objectReference"];
    let (rabbit, name) = (text(&storage["namespace"]), text(&storage["name"]));
    format!("{rabbit}/{name}[{index}] at {path}{compute}")
}

fn servers(object: &Value) -> String {
    let sets = join(&object["spec"]["allocationSets"], "; ", |set| {
        let on = join(&set["storage"], ", ", |part| {
            format!("{} on {}", part["allocationCount"], text(&part["name"]))
        });
        format!("{} {} x {on}", text(&set["label"]), set["allocationSize"])
    });
    let ready = join(&object["status"]["allocationSets"], "; ", |set| {
        let storage = set["storage"].as_object().into_iter().flatten();
        let ready = storage.filter(|(_, rabbit)| rabbit["ready"] == true);
        ready.map(|(rabbit, _)| rabbit.clone()).collect::<Vec<_>>().join(" ")
    });
    if object["status"].is_null() { sets } else { format!("{sets}, ready [{ready}]") }
}

fn run(spec: &Value) -> String {
    let suspend = if spec["suspend"] == true { ", suspended" } else { "" };
    let ttl = spec["ttlSecondsAfterFinished"].as_i64();
    let ttl = ttl.map(|ttl| format!(", kept for {ttl} s")).unwrap_or_default();
    format!("deadline {}{suspend}{ttl}", spec["activeDeadlineSeconds"])
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(
        || if value.is_null() { String::new() } else { value.to_string() },
        str::to_owned,
    )
}

fn words(list: &Value) -> String {
    join(list, " ", text)
}

fn join(list: &Value, separator: &str, to_text: impl Fn(&Value) -> String) -> String {
    let items = list.as_array().into_iter().flatten();
    items.map(to_text).collect::<Vec<_>>().join(separator)
}
