//! What a rabbit's agent does with a management target, and what must never happen to Lustre.

use serde_json::{Value, json};
use workflow::change::Change;

use crate::site::{At, Site, at};

const UID: &str = "dataworkflowservices.github.io/owner.uid";
const FINALIZER: &str = "nnf.cray.hpe.com/nnf_lustre_mgt";

fn list<'a>(object: &'a Value, part: &str, name: &str) -> &'a [Value] {
    object[part][name].as_array().map_or(&[], Vec::as_slice)
}

/// When a target comes up.
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
    /// Gives names to claims, erases what is claimed no more, and runs commands, all in one pass.
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

    /// What must never happen to a Lustre file system.
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
                    let waits = self.of_same(&object).find(|one| one["status"]["ready"] != true);
                    assert!(waits.is_none(), "{change} before {waits:?} serves");
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
                let claims = list(object, "status", "claimList");
                assert!(claims.is_empty(), "{change} while it has {claims:?}");
            }
            _ => {}
        }
    }

    /// Targets of the same file system.
    fn of_same<'a>(&'a self, object: &Value) -> impl Iterator<Item = &'a Value> {
        let uid = object["metadata"]["labels"][UID].clone();
        let all = self.objects.iter().filter(|((kind, ..), _)| kind == "NnfNodeStorage");
        all.map(|(_, one)| &**one).filter(move |one| one["metadata"]["labels"][UID] == uid)
    }

    fn check_target(&self, object: &Value) {
        let lustre = &object["spec"]["lustreStorage"];
        let (name, mgs) = (&lustre["fileSystemName"], &lustre["mgsAddress"]);
        assert!(name.as_str().is_some_and(|name| name.len() == 8) && mgs.is_string(), "{object:#}");
        let earlier = self.of_same(object).filter(|one| stage(one) < stage(object));
        let late: Vec<&Value> =
            earlier.filter(|one| one["status"]["ready"] != true || is_going(one)).collect();
        assert!(late.is_empty(), "{object:#} is made before {late:#?} serve");
        let others = self.objects.iter().filter(|((kind, ..), one)| {
            kind == "NnfNodeStorage"
                && one["spec"]["lustreStorage"]["fileSystemName"] == *name
                && one["metadata"]["labels"][UID] != object["metadata"]["labels"][UID]
        });
        assert_eq!(others.count(), 0, "{name} is another's: a node serves each name once");
    }

    fn check_end(&self, change: &Change, object: &Value) {
        let later = self.of_same(object).find(|one| stage(one) > stage(object));
        assert!(later.is_none(), "{change} before {later:?} is gone");
        if stage(object) > 0 {
            return;
        }
        let uid = &object["metadata"]["labels"][UID];
        for one in self.objects.values().filter(|one| one["kind"] == "NnfLustreMGT") {
            let mut claims = list(one, "status", "claimList").iter();
            let claim = claims.find(|claim| claim["reference"]["uid"] == *uid);
            assert!(claim.is_none(), "{change} before its name {claim:?} is erased");
        }
    }

    /// What a site lends to workflows: management targets of its own, and persistent ones of other controllers.
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

    /// Nothing lent is held or claimed by anybody.
    pub(crate) fn nothing_is_claimed(&self) {
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
    let claims = list(object, "spec", "claimList");
    let given = status["claimList"].as_array_mut().unwrap();
    given.retain(|given| claims.contains(&given["reference"]));
    let missing: Vec<&Value> = claims
        .iter()
        .filter(|claim| !given.iter().any(|given| given["reference"] == **claim))
        .collect();
    for claim in missing {
        let avoided = list(object, "spec", "fsNameBlackList").iter();
        let avoided = avoided.map(|name| name.as_str().unwrap().to_owned()).collect();
        let name = status["fsNameNext"].as_str().unwrap().parse::<api::fs_name::FsName>().unwrap();
        let name = name.first_free(&avoided);
        let (name, next) = (name.to_string(), name.next().to_string());
        let given = status["claimList"].as_array_mut().unwrap();
        given.push(json!({"reference": claim, "fsname": name}));
        status["fsNameNext"] = json!(next);
    }
}

fn run(object: &Value, status: &mut Value) {
    let ready = |entry: &Value| json!({"reference": entry["reference"], "ready": true});
    status["commandList"] = list(object, "spec", "commandList").iter().map(ready).collect();
}

#[test]
fn the_invariants_see_what_must_not_happen() {
    let mut site = super::two_rabbits();
    site.bring("w", &[super::LUSTRE.to_owned()], "Setup", &["c1"]);
    let targets = site.targets("w");
    let of = |kind: &str| {
        let target = targets.iter().find(|target| target.contains(kind)).unwrap();
        let (rabbit, name) = target.split(' ').next().unwrap().split_once('/').unwrap();
        at("NnfNodeStorage", rabbit, name)
    };
    let delete = |place: &At| {
        let object = serde_json::from_value::<api::NnfNodeStorage>((*site.objects[place]).clone());
        let change = Change::delete(&object.unwrap()).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| site.check_lustre(&change, place)))
    };
    assert!(delete(&of(" mgtmdt ")).is_err(), "the management target first");
    assert!(delete(&of(" ost ")).is_ok(), "the object target first");
}
