//! PersistentVolumes and PersistentVolumeClaims, as kube-apiserver and its controllers were observed
//! to keep them: a PersistentVolumeClaim stays while a pod uses it, and a PersistentVolume stays
//! while its PersistentVolumeClaim exists.

use serde_json::{Value, json};
use workflow::change::Change;

use crate::site::{At, Site, at};

/// Adds the finalizer that the API server gives to new objects of these kinds.
pub(crate) fn protect(kind: &str, object: &mut Value) {
    let finalizer = match kind {
        "PersistentVolume" => "kubernetes.io/pv-protection",
        "PersistentVolumeClaim" => "kubernetes.io/pvc-protection",
        _ => return,
    };
    object["metadata"]["finalizers"] = json!([finalizer]);
}

/// Returns the names of the PersistentVolumeClaims by which a Job's pods get devices.
fn claims(job: &Value) -> impl Iterator<Item = &str> {
    let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().into_iter().flatten();
    let is_device = |volume: &&Value| {
        volume["name"].as_str().is_some_and(|name| name.starts_with("storage-device-"))
    };
    let claims = volumes.filter(is_device).map(|volume| &volume["persistentVolumeClaim"]);
    claims.filter_map(|claim| claim["claimName"].as_str())
}

impl Site {
    fn has_pods_of(&self, claim: &str) -> bool {
        let mut jobs = self.objects.iter().filter(|((kind, ..), _)| kind == "Job");
        jobs.any(|(_, job)| claims(job).any(|used| used == claim))
    }

    /// Removes the protection finalizer of a deleted PersistentVolume or PersistentVolumeClaim that is no longer used.
    pub(crate) fn act_on_volume(&mut self, place: &At) -> bool {
        let Some(object) = self.objects.get(place) else { return false };
        let is_in_use = if place.0 == "PersistentVolume" {
            let claim = &object["spec"]["claimRef"];
            let text = |field: &str| claim[field].as_str().unwrap();
            self.objects.contains_key(&at("PersistentVolumeClaim", text("namespace"), text("name")))
        } else {
            self.has_pods_of(&place.2)
        };
        let held = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let is_other =
            |name: &&Value| name.as_str().is_some_and(|name| !name.ends_with("-protection"));
        let others: Vec<Value> = held.iter().filter(is_other).cloned().collect();
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        if !is_going || is_in_use || others == held {
            return false;
        }
        let others = json!(others);
        self.edit(&place.0, &place.1, &place.2, |object| object["metadata"]["finalizers"] = others);
        self.collect();
        true
    }

    /// Panics if a Job is created before its volumes, or a mount is deleted while a PersistentVolume names a
    /// path in the mount.
    pub(crate) fn check_volumes(&self, change: &Change, place: &At) {
        match (change, &*place.0) {
            (Change::Create(_, object), "Job") => {
                for claim in claims(&serde_json::to_value(object).unwrap()) {
                    for (kind, namespace) in
                        [("PersistentVolume", ""), ("PersistentVolumeClaim", "default")]
                    {
                        let at = at(kind, namespace, claim);
                        assert!(self.objects.contains_key(&at), "{change} without {at:?}");
                    }
                }
            }
            (Change::Delete(..), "ClientMount") => {
                let mounts = self.objects[place]["spec"]["mounts"].as_array().unwrap();
                let paths: Vec<&Value> = mounts.iter().map(|mount| &mount["mountPath"]).collect();
                let volumes =
                    self.objects.iter().filter(|((kind, ..), _)| kind == "PersistentVolume");
                let mut here = volumes.filter(|(_, volume)| {
                    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
                    terms[0]["matchExpressions"][0]["values"][0] == place.1
                });
                let named =
                    here.find(|(_, volume)| paths.contains(&&volume["spec"]["local"]["path"]));
                assert!(named.is_none(), "{change} while there is {named:?}");
            }
            _ => {}
        }
    }
}
