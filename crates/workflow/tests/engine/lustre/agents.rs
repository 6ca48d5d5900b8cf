//! Acts as a rabbit's agent on a management target, and checks the invariants of Lustre.

use serde_json::{Value, json};
use workflow::change::Change;

use crate::site::{At, Site, at};

const UID: &str = "dataworkflowservices.github.io/owner.uid";
const FINALIZER: &str = "nnf.cray.hpe.com/nnf_lustre_mgt";

fn list<'a>(object: &'a Value, part: &str, name: &str) -> &'a [Value] {
    object[part][name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the number of the stage in which a target is created.
fn stage(object: &Value) -> u8 {
    let lustre = &object["spec"]["lustreStorage"];
    match lustre["targetType"].as_str() {
        Some("mgt" | "mgtmdt") => 0,
        Some("mdt") => 1,
        _ if lustre["startIndex"].as_i64().unwrap_or(0) > 0 => 2,
        _ => 3,
    }
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

impl Site {
    /// Does what an agent does in one pass: gives out names, erases names without a holder, and runs commands.
    pub(crate) fn act_on_mgt(&mut self, place: &At) -> bool {
        let object = &self.objects[place];
        if is_going(object) {
            self.edit(&place.0, &place.1, &place.2, |object| {
                object["metadata"]["finalizers"] = json!([]);
            });
            self.collect();
            return true;
        }
        let mut status = object["status"].clone();
        if status["claimList"].is_null() {
            status = json!({"fsNameNext": object["spec"]["fsNameStart"], "claimList": [], "commandList": []});
        }
        status["error"] = self.errors.get("NnfLustreMGT").cloned().unwrap_or_default();
        if status["error"].is_null() {
            give_out(object, &mut status);
            run(object, &mut status);
        }
        let is_same =
            object["status"] == status && object["metadata"]["finalizers"][0] == FINALIZER;
        if is_same {
            return false;
        }
        self.edit(&place.0, &place.1, &place.2, |object| {
            object["status"] = status;
            object["metadata"]["finalizers"] = json!([FINALIZER]);
        });
        true
    }

    /// Panics if a change breaks an invariant of Lustre.
    pub(crate) fn check_lustre(&self, change: &Change, place: &At) {
        match change {
            Change::Create(_, object) if place.0 == "NnfNodeStorage" => {
                let object = serde_json::to_value(object).unwrap();
                if object["spec"]["fileSystemType"] == "lustre" {
                    self.check_target(&object);
                }
            }
            Change::Create(_, object) if place.0 == "ClientMount" => {
                let object = serde_json::to_value(object).unwrap();
                if object["spec"]["mounts"][0]["type"] == "lustre" {
                    let not_ready = self
                        .targets_beside(&object)
                        .find(|target| target["status"]["ready"] != true);
                    assert!(not_ready.is_none(), "{change} before {not_ready:?} is ready");
                }
            }
            Change::Delete(..) if place.0 == "NnfNodeStorage" => {
                let Some(object) = self.objects.get(place) else { return };
                if object["spec"]["fileSystemType"] == "lustre" && !is_going(object) {
                    self.check_end(change, object);
                }
            }
            Change::Delete(..) if place.0 == "NnfLustreMGT" => {
                let object = &self.objects[place];
                let holders = list(object, "status", "claimList");
                assert!(
                    holders.is_empty(),
                    "{change} while the management target has names for {holders:?}"
                );
            }
            _ => {}
        }
    }

    /// Returns the targets of the same file system.
    fn targets_beside<'a>(&'a self, object: &Value) -> impl Iterator<Item = &'a Value> {
        let uid = object["metadata"]["labels"][UID].clone();
        let all = self.objects.iter().filter(|((kind, ..), _)| kind == "NnfNodeStorage");
        all.map(|(_, target)| &**target)
            .filter(move |target| target["metadata"]["labels"][UID] == uid)
    }

    fn check_target(&self, object: &Value) {
        let lustre = &object["spec"]["lustreStorage"];
        let (name, mgs) = (&lustre["fileSystemName"], &lustre["mgsAddress"]);
        assert!(name.as_str().is_some_and(|name| name.len() == 8) && mgs.is_string(), "{object:#}");
        let earlier = self.targets_beside(object).filter(|target| stage(target) < stage(object));
        let late: Vec<&Value> = earlier
            .filter(|target| target["status"]["ready"] != true || is_going(target))
            .collect();
        assert!(late.is_empty(), "{object:#} is created before {late:#?} are ready");
        let others = self.objects.iter().filter(|((kind, ..), target)| {
            kind == "NnfNodeStorage"
                && target["spec"]["lustreStorage"]["fileSystemName"] == *name
                && target["metadata"]["labels"][UID] != object["metadata"]["labels"][UID]
        });
        assert_eq!(
            others.count(),
            0,
            "{name} belongs to another file system: a node serves each name only once"
        );
    }

    fn check_end(&self, change: &Change, object: &Value) {
        let later = self.targets_beside(object).find(|target| stage(target) > stage(object));
        assert!(later.is_none(), "{change} before {later:?} is gone");
        if stage(object) > 0 {
            return;
        }
        let uid = &object["metadata"]["labels"][UID];
        for mgt in self.objects.values().filter(|mgt| mgt["kind"] == "NnfLustreMGT") {
            let mut entries = list(mgt, "status", "claimList").iter();
            let entry = entries.find(|entry| entry["reference"]["uid"] == *uid);
            assert!(entry.is_none(), "{change} before its name {entry:?} is erased");
        }
    }

    /// Returns true for objects that workflows use but did not make: management targets outside of the rabbits, and
    /// persistent management targets of the Go controllers.
    pub(crate) fn is_lent(&self, place: &At) -> bool {
        let labels = &self.objects[place]["metadata"]["labels"];
        match &*place.0 {
            "PersistentStorageInstance" => {
                labels["dataworkflowservices.github.io/workflow.uid"].is_null()
            }
            "NnfLustreMGT" => {
                place.1 == "nnf-system"
                    || labels["dataworkflowservices.github.io/owner.kind"] == "NnfStorage"
            }
            _ => false,
        }
    }

    /// Checks that no workflow uses an object for which [`Self::is_lent`] returns true.
    pub(crate) fn assert_nothing_lent_is_used(&self) {
        for ((kind, ..), object) in &self.objects {
            if kind == "NnfLustreMGT" {
                for (part, name) in
                    [("spec", "claimList"), ("spec", "commandList"), ("status", "claimList")]
                {
                    assert!(list(object, part, name).is_empty(), "{object:#}");
                }
            }
            if kind == "PersistentStorageInstance" {
                assert!(list(object, "spec", "consumerReferences").is_empty(), "{object:#}");
            }
        }
    }
}

fn give_out(object: &Value, status: &mut Value) {
    let holders = list(object, "spec", "claimList");
    let granted = status["claimList"].as_array_mut().unwrap();
    granted.retain(|granted| holders.contains(&granted["reference"]));
    let unnamed: Vec<&Value> = holders
        .iter()
        .filter(|holder| !granted.iter().any(|granted| granted["reference"] == **holder))
        .collect();
    for holder in unnamed {
        let avoided = list(object, "spec", "fsNameBlackList").iter();
        let avoided = avoided.map(|name| name.as_str().unwrap().to_owned()).collect();
        let name = status["fsNameNext"].as_str().unwrap().parse::<api::fs_name::FsName>().unwrap();
        let name = name.first_free(&avoided);
        let (name, next) = (name.to_string(), name.next().to_string());
        let granted = status["claimList"].as_array_mut().unwrap();
        granted.push(json!({"reference": holder, "fsname": name}));
        status["fsNameNext"] = json!(next);
    }
}

fn run(object: &Value, status: &mut Value) {
    let ready = |entry: &Value| json!({"reference": entry["reference"], "ready": true});
    status["commandList"] = list(object, "spec", "commandList").iter().map(ready).collect();
}

#[test]
fn check_lustre_panics_when_a_management_target_is_deleted_first() {
    let mut site = super::two_rabbits();
    site.bring("w", &[super::LUSTRE.to_owned()], "Setup", &["c1"]);
    let targets = site.targets("w");
    let target_key = |kind: &str| {
        let target = targets.iter().find(|target| target.contains(kind)).unwrap();
        let (rabbit, name) = target.split(' ').next().unwrap().split_once('/').unwrap();
        at("NnfNodeStorage", rabbit, name)
    };
    let delete = |place: &At| {
        let object = serde_json::from_value::<api::NnfNodeStorage>((*site.objects[place]).clone());
        let change = Change::delete(&object.unwrap()).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| site.check_lustre(&change, place)))
    };
    assert!(
        delete(&target_key(" mgtmdt ")).is_err(),
        "the management target must not be deleted first"
    );
    assert!(delete(&target_key(" ost ")).is_ok(), "the object target may be deleted first");
}
