//! Tests that the CRDs in `crds/` match the types, and that a Kubernetes API server accepts the form of these CRDs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")
}

fn file_name(crd: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{}_{}.yaml", text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]))
}

/// `UPDATE_CRDS=1 cargo test -p api --test crds` regenerates the files.
#[test]
fn the_crd_files_equal_the_generated_definitions() {
    let mut expected = BTreeSet::new();
    for crd in api::crd::ruled_crd_values() {
        let path = folder().join(file_name(&crd));
        let text = serde_saphyr::to_string(&crd).unwrap();
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == text,
            "{} is stale: run UPDATE_CRDS=1 cargo test -p api --test crds",
            path.display()
        );
        let read: Value = serde_saphyr::from_str(&stored).unwrap();
        assert_eq!(read, crd, "{} reads back as something else", path.display());
        expected.insert(file_name(&crd));
    }
    let stored: BTreeSet<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(stored, expected, "crds/ holds a file that no kind generates");
}

fn root(kind: &str) -> Value {
    let crd = api::crd::ruled_crd_values()
        .into_iter()
        .find(|crd| crd["spec"]["names"]["kind"] == kind)
        .unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn node<'a>(root: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(root, |schema, name| match name {
        "[]" => &schema["items"],
        "{}" => &schema["additionalProperties"],
        name => &schema["properties"][name],
    })
}

#[test]
fn schemas_are_structural() {
    fn check(schema: &Value, at: &str) {
        let known = [
            "additionalProperties",
            "default",
            "description",
            "enum",
            "format",
            "items",
            "maxItems",
            "maxLength",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "pattern",
            "properties",
            "required",
            "type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-map-type",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-validations",
        ];
        let members =
            schema.as_object().unwrap_or_else(|| panic!("{at} is not a schema: {schema}"));
        for member in members.keys() {
            assert!(known.contains(&member.as_str()), "{at} has {member}");
        }
        let kind = schema["type"].as_str();
        assert!(
            kind.is_some() != members.contains_key("x-kubernetes-int-or-string"),
            "{at} has no single type"
        );
        assert_eq!(kind == Some("array"), members.contains_key("items"), "{at}: items");
        assert!(
            !schema["enum"].as_array().is_some_and(|values| values.contains(&Value::Null)),
            "{at} admits null"
        );
        assert_ne!(members.get("default"), Some(&Value::Null), "{at} defaults to null");
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(
                !schema["properties"][required.as_str().unwrap()].is_null(),
                "{at} requires unknown {required}"
            );
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check(property, &format!("{at}.{name}"));
        }
        for nested in ["items", "additionalProperties"] {
            members.get(nested).into_iter().for_each(|nested| check(nested, &format!("{at}[]")));
        }
    }
    for crd in api::crd::ruled_crd_values() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        check(&root(kind), kind);
    }
}

#[test]
fn every_status_but_the_workflows_is_a_subresource() {
    let without = [
        "Computes",
        "DWDirectiveRule",
        "NnfContainerProfile",
        "NnfDataMovementProfile",
        "NnfStorageProfile",
        "SystemStatus",
        "Workflow",
    ];
    for crd in api::crd::crd_values() {
        let version = &crd["spec"]["versions"][0];
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let expected = if without.contains(&kind) { Value::Null } else { json!({}) };
        assert_eq!(version["subresources"]["status"], expected, "{kind}");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
    }
}

#[test]
fn names_and_versions_are_those_of_upstream_except_for_warrens_own_kinds() {
    let names: Vec<_> = api::crd::crds()
        .into_iter()
        .map(|crd| {
            format!(
                "{}/{} {}",
                crd.metadata.name.unwrap(),
                crd.spec.versions[0].name,
                crd.spec.names.kind
            )
        })
        .collect();
    let expected = [
        "clientmounts.dataworkflowservices.github.io/v1alpha7 ClientMount",
        "computes.dataworkflowservices.github.io/v1alpha7 Computes",
        "containerruns.warren.nnf.cray.hpe.com/v1alpha1 ContainerRun",
        "directivebreakdowns.dataworkflowservices.github.io/v1alpha7 DirectiveBreakdown",
        "dwdirectiverules.dataworkflowservices.github.io/v1alpha7 DWDirectiveRule",
        "lustrefilesystems.lus.cray.hpe.com/v1beta1 LustreFileSystem",
        "nnfcontainerprofiles.nnf.cray.hpe.com/v1alpha11 NnfContainerProfile",
        "nnfdatamovementprofiles.nnf.cray.hpe.com/v1alpha11 NnfDataMovementProfile",
        "nnfdatamovements.nnf.cray.hpe.com/v1alpha11 NnfDataMovement",
        "nnflustremgts.nnf.cray.hpe.com/v1alpha11 NnfLustreMGT",
        "nnfnodeblockstorages.nnf.cray.hpe.com/v1alpha11 NnfNodeBlockStorage",
        "nnfnodes.nnf.cray.hpe.com/v1alpha11 NnfNode",
        "nnfnodestorages.nnf.cray.hpe.com/v1alpha11 NnfNodeStorage",
        "nnfportmanagers.nnf.cray.hpe.com/v1alpha11 NnfPortManager",
        "nnfstorageprofiles.nnf.cray.hpe.com/v1alpha11 NnfStorageProfile",
        "nnfsystemstorages.nnf.cray.hpe.com/v1alpha11 NnfSystemStorage",
        "nodecontainers.warren.nnf.cray.hpe.com/v1alpha1 NodeContainers",
        "persistentstorageinstances.dataworkflowservices.github.io/v1alpha7 PersistentStorageInstance",
        "servers.dataworkflowservices.github.io/v1alpha7 Servers",
        "storages.dataworkflowservices.github.io/v1alpha7 Storage",
        "systemconfigurations.dataworkflowservices.github.io/v1alpha7 SystemConfiguration",
        "systemstatuses.dataworkflowservices.github.io/v1alpha7 SystemStatus",
        "workflows.dataworkflowservices.github.io/v1alpha7 Workflow",
    ];
    assert_eq!(names, expected);
}

/// The embedded API refuses CRDs with CEL rules, because it does not evaluate CEL.
#[test]
fn only_the_crds_of_clusters_have_rules() {
    let has_rules = |crds: Vec<Value>| {
        let has = |crd: &&Value| crd.to_string().contains("x-kubernetes-validations");
        crds.iter().filter(has).map(|crd| crd["spec"]["names"]["kind"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(has_rules(api::ruled_crd_values()), ["ContainerRun"]);
    assert!(has_rules(api::crd_values()).is_empty());
}

/// The test vectors in the crate `containers` were written for exactly these rules, bounds and enumerations.
#[test]
fn the_schema_of_a_runs_status_equals_the_golden_schema() {
    fn without_descriptions(value: &mut Value) {
        if let Some(members) = value.as_object_mut() {
            members.remove("description");
            members.values_mut().for_each(without_descriptions);
            members.get_mut("required").and_then(Value::as_array_mut).into_iter().for_each(
                |names| {
                    names.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
                },
            );
        }
    }
    let golden = include_str!("../../containers/golden/claim/crd-schema-fragment.json");
    let mut golden: Value = serde_json::from_str(golden).unwrap();
    let mut ours = root("ContainerRun");
    without_descriptions(&mut golden);
    without_descriptions(&mut ours);
    assert_eq!(ours["properties"]["status"], golden["properties"]["status"]);
    assert_eq!(ours["x-kubernetes-validations"], golden["x-kubernetes-validations"]);
}

#[test]
fn required_fields_are_those_of_upstream() {
    let cases = [
        ("ClientMount", "spec", json!(["desiredState", "mounts", "node"])),
        (
            "ClientMount",
            "spec.mounts.[]",
            json!(["device", "mountPath", "options", "setPermissions", "targetType", "type"]),
        ),
        ("ClientMount", "spec.mounts.[].device", json!(["type"])),
        ("ClientMount", "spec.mounts.[].device.lustre", json!(["fileSystemName", "mgsAddresses"])),
        ("ClientMount", "spec.mounts.[].device.lvm", json!(["deviceType"])),
        (
            "ClientMount",
            "spec.mounts.[].device.lvm.nvmeInfo.[]",
            json!(["deviceSerial", "namespaceGUID", "namespaceID"]),
        ),
        ("ClientMount", "spec.mounts.[].device.deviceReference", json!(["objectReference"])),
        ("ClientMount", "status", json!(["allReady", "mounts"])),
        ("ClientMount", "status.mounts.[]", json!(["ready", "state"])),
        ("ClientMount", "status.error", json!(["debugMessage", "severity", "type"])),
        ("Computes", "data.[]", json!(["name"])),
        ("DirectiveBreakdown", "spec", json!(["directive", "userID"])),
        ("DirectiveBreakdown", "status", json!(["ready"])),
        (
            "DirectiveBreakdown",
            "status.storage.allocationSets.[]",
            json!(["allocationStrategy", "constraints", "label", "minimumCapacity"]),
        ),
        ("DWDirectiveRule", "spec.[]", json!(["command", "ruleDefs"])),
        ("DWDirectiveRule", "spec.[].ruleDefs.[]", json!(["key", "type"])),
        (
            "PersistentStorageInstance",
            "spec",
            json!(["dwDirective", "fsType", "name", "state", "userID"]),
        ),
        ("Servers", "spec.allocationSets.[]", json!(["allocationSize", "label", "storage"])),
        ("Servers", "spec.allocationSets.[].storage.[]", json!(["allocationCount", "name"])),
        ("Servers", "status", json!(["ready"])),
        (
            "Workflow",
            "spec",
            json!([
                "desiredState",
                "dwDirectives",
                "forceReady",
                "groupID",
                "hurry",
                "jobID",
                "userID",
                "wlmID"
            ]),
        ),
        ("Workflow", "status", json!(["ready"])),
        (
            "Workflow",
            "status.drivers.[]",
            json!([
                "completed",
                "driverID",
                "dwdIndex",
                "lastHB",
                "status",
                "taskID",
                "watchState"
            ]),
        ),
        ("Storage", "spec", Value::Null),
        ("Storage", "status", json!(["capacity"])),
        ("SystemConfiguration", "spec", json!(["portsCooldownInSeconds"])),
        ("SystemConfiguration", "spec.storageNodes.[]", json!(["name", "type"])),
        ("SystemConfiguration", "spec.storageNodes.[].computesAccess.[]", json!(["index", "name"])),
        ("SystemConfiguration", "status", json!(["ready"])),
        ("NnfNode", "spec", json!(["state"])),
        ("NnfNode", "status", Value::Null),
        ("NnfNodeStorage", "spec", json!(["count", "groupID", "sharedAllocation", "userID"])),
        ("NnfNodeStorage", "status", Value::Null),
        ("NnfNodeBlockStorage", "spec", json!(["sharedAllocation"])),
        ("NnfNodeBlockStorage", "status", json!(["ready"])),
        ("NnfNodeBlockStorage", "status.allocations.[].devices.[]", json!(["NQN", "namespaceId"])),
        ("LustreFileSystem", "spec", json!(["mgsNids", "mountRoot", "name"])),
        ("LustreFileSystem", "status.namespaces.{}.modes.{}", json!(["state"])),
        ("NnfLustreMGT", "spec", json!(["addresses"])),
        ("NnfLustreMGT", "status.commandList.[]", json!(["ready"])),
        ("NnfStorageProfile", "data", Value::Null),
        ("NnfSystemStorage", "spec", json!(["storageProfile"])),
        ("NnfSystemStorage", "status", json!(["ready"])),
        ("NnfStorageProfile", "data.lustreStorage.ostOptions", json!(["colocateComputes"])),
    ];
    for (kind, path, expected) in cases {
        let root = root(kind);
        assert_eq!(node(&root, path)["required"], expected, "{kind} {path}");
    }
}

#[test]
fn formats_bounds_and_defaults_are_those_of_upstream() {
    let text = |default: &str| json!({ "type": "string", "default": default });
    let cases = [
        ("ClientMount", "spec.mounts", json!({ "type": "array", "minItems": 1 })),
        ("ClientMount", "spec.mounts.[].userID", json!({ "type": "integer", "format": "int32" })),
        ("ClientMount", "spec.mounts.[].device.deviceReference.data", json!({ "type": "integer" })),
        (
            "ClientMount",
            "spec.mounts.[].type",
            json!({ "type": "string", "enum": ["lustre", "xfs", "gfs2", "none"] }),
        ),
        ("Workflow", "spec.jobID", json!({ "x-kubernetes-int-or-string": true })),
        ("Workflow", "spec.hurry", json!({ "type": "boolean", "default": false })),
        ("Workflow", "status.readyChange", json!({ "type": "string", "format": "date-time" })),
        (
            "DirectiveBreakdown",
            "status.storage.allocationSets.[].minimumCapacity",
            json!({ "type": "integer", "format": "int64", "minimum": 1 }),
        ),
        (
            "Storage",
            "spec.state",
            json!({ "type": "string", "default": "Enabled", "enum": ["Enabled", "Disabled"] }),
        ),
        (
            "Storage",
            "spec.mode",
            json!({ "type": "string", "default": "Live", "enum": ["Live", "Testing"] }),
        ),
        (
            "Storage",
            "status.capacity",
            json!({ "type": "integer", "format": "int64", "default": 0 }),
        ),
        ("Storage", "status.devices.[].wearLevel", json!({ "type": "integer", "format": "int64" })),
        (
            "SystemConfiguration",
            "spec.portsCooldownInSeconds",
            json!({ "type": "integer", "default": 60 }),
        ),
        ("SystemConfiguration", "spec.ports.[]", json!({ "x-kubernetes-int-or-string": true })),
        ("NnfNode", "status.health", json!({ "type": "string" })),
        ("NnfNodeStorage", "spec.count", json!({ "type": "integer", "minimum": 0 })),
        ("NnfNodeStorage", "spec.capacity", json!({ "type": "integer", "format": "int64" })),
        (
            "NnfNodeStorage",
            "spec.fileSystemType",
            json!({
                "type": "string", "default": "raw", "enum": ["raw", "lvm", "zfs", "xfs", "gfs2", "lustre"],
            }),
        ),
        (
            "NnfNodeStorage",
            "spec.lustreStorage.fileSystemName",
            json!({ "type": "string", "maxLength": 8 }),
        ),
        (
            "NnfNodeStorage",
            "spec.lustreStorage.startIndex",
            json!({ "type": "integer", "minimum": 0 }),
        ),
        (
            "NnfNodeStorage",
            "status.health",
            json!({ "type": "string", "enum": ["Healthy", "Degraded", "Faulted"] }),
        ),
        (
            "NnfNodeBlockStorage",
            "status.podStartTime",
            json!({ "type": "string", "format": "date-time" }),
        ),
        (
            "NnfLustreMGT",
            "spec.fsNameStart",
            json!({ "type": "string", "minLength": 8, "maxLength": 8 }),
        ),
        ("NnfStorageProfile", "data.pinned", json!({ "type": "boolean", "default": false })),
        ("NnfStorageProfile", "data.xfsStorage.capacityScalingFactor", text("1.0")),
        (
            "NnfSystemStorage",
            "spec.capacity",
            json!({ "type": "integer", "format": "int64", "default": 1 << 30 }),
        ),
        (
            "NnfSystemStorage",
            "spec.type",
            json!({ "type": "string", "default": "raw", "enum": ["raw", "xfs", "gfs2"] }),
        ),
        ("NnfSystemStorage", "spec.shared", json!({ "type": "boolean", "default": true })),
        ("NnfSystemStorage", "spec.computesPattern", json!({ "type": "array", "maxItems": 16 })),
        (
            "NnfSystemStorage",
            "spec.computesPattern.[]",
            json!({ "type": "integer", "minimum": 0, "maximum": 15 }),
        ),
        (
            "NnfStorageProfile",
            "data.lustreStorage.ostOptions.scale",
            json!({ "type": "integer", "minimum": 1, "maximum": 10 }),
        ),
    ];
    for (kind, path, expected) in cases {
        let root = root(kind);
        let mut found = node(&root, path).clone();
        let members = found.as_object_mut().unwrap_or_else(|| panic!("{kind} has no {path}"));
        members.retain(|member, _| member != "description" && member != "items");
        assert_eq!(found, expected, "{kind} {path}");
    }
}

#[test]
fn columns_are_those_of_upstream() {
    let columns = |kind: &str| -> Vec<String> {
        let crd = api::crd::crd_values()
            .into_iter()
            .find(|crd| crd["spec"]["names"]["kind"] == kind)
            .unwrap();
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        columns
            .iter()
            .map(|column| {
                let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
                let wide = if column["priority"] == 1 { " wide" } else { "" };
                format!("{} {} {}{wide}", text("name"), text("type"), text("jsonPath"))
            })
            .collect()
    };
    let age = "AGE date .metadata.creationTimestamp";
    let error = "ERROR string .status.error.severity";
    let ready = "READY string .status.ready";
    assert_eq!(
        columns("ClientMount"),
        ["DESIREDSTATE string .spec.desiredState", "READY boolean .status.allReady", error, age]
    );
    assert_eq!(
        columns("Storage"),
        [
            "State string .spec.state",
            "Status string .status.status",
            "Mode string .spec.mode",
            "Age date .metadata.creationTimestamp"
        ]
    );
    assert_eq!(columns("SystemConfiguration"), ["READY boolean .status.ready", age]);
    assert_eq!(
        columns("NnfNode"),
        [
            "STATE string .spec.state",
            "HEALTH string .status.health",
            "STATUS string .status.status",
            age,
            "POD string .spec.pod wide"
        ]
    );
    assert_eq!(columns("NnfNodeStorage"), [ready, error, age]);
    assert_eq!(columns("NnfNodeBlockStorage"), [ready, error, age]);
    assert_eq!(columns("NnfStorageProfile"), ["DEFAULT boolean .data.default", age]);
    assert!(columns("NnfLustreMGT").is_empty());
}
