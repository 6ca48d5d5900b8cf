//! `copy_in` and `copy_out`: paths and mounts of the movements, and failed and deleted movements.

mod mpi;

use api::names::movement;
use serde_json::json;
use workflow::change::Change;

use crate::site::{At, Site};

impl Site {
    /// Sets the status of a movement, or removes the finalizer of a deleted movement, as a rabbit's agent does. Returns
    /// true if the movement changed.
    pub(crate) fn act_on_movement(&mut self, place: &At) -> bool {
        let Some(object) = self.objects.get(place) else { return false };
        if object["metadata"]["labels"][movement::MPI_RUN].is_string() {
            return false;
        }
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let is_held =
            object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let verdict = self.errors.get("NnfDataMovement").cloned();
        let verdict = verdict.unwrap_or_else(|| json!({"state": "Finished", "status": "Success"}));
        if is_going == is_held && is_going {
            self.edit(&place.0, &place.1, &place.2, |object| {
                object["metadata"]["finalizers"] = json!([]);
            });
            self.collect();
            return true;
        }
        if is_going || object["status"] == verdict {
            return false;
        }
        self.edit(&place.0, &place.1, &place.2, |object| {
            object["metadata"]["finalizers"] = json!([movement::FINALIZER]);
            object["status"] = verdict;
        });
        true
    }

    /// Panics if a change unmounts storage on a rabbit with a running movement, or creates a movement before its
    /// storage is mounted.
    pub(crate) fn check_movements(&self, change: &Change, place: &At) {
        let is_mount = place.0 == "ClientMount" && place.2.ends_with("-servers");
        let unmounts = match change {
            Change::Delete(..) => true,
            Change::Patch(_, patch) => {
                serde_json::to_string(patch).unwrap().contains("\"unmounted\"")
            }
            _ => false,
        };
        let copies = |(at, object): (&At, &crate::stored::Stored)| {
            at.0 == "NnfDataMovement" && at.1 == place.1 && object["status"]["state"] != "Finished"
        };
        if is_mount && unmounts {
            assert!(
                !self.objects.iter().any(copies),
                "{change} unmounts storage on a rabbit while a movement runs there"
            );
        }
        if matches!(change, Change::Create(..)) && place.0 == "NnfDataMovement" {
            let is_mounted = |(at, object): (&At, &crate::stored::Stored)| {
                at.0 == "ClientMount"
                    && at.1 == place.1
                    && object["status"]["mounts"][0]["state"] == "mounted"
            };
            assert!(
                self.objects.iter().any(is_mounted),
                "{change} creates a movement before its storage is mounted"
            );
        }
    }

    /// Adds a default profile for copies, and the global Lustre /lus/global.
    pub(crate) fn add_global_lustre(&mut self) {
        self.put(json!({
            "kind": "NnfDataMovementProfile", "metadata": {"name": "default", "namespace": "nnf-system"},
            "data": {"default": true},
        }));
        self.put(json!({
            "kind": "LustreFileSystem", "metadata": {"name": "global", "namespace": "default"},
            "spec": {"name": "global", "mgsNids": "10.0.0.9@tcp", "mountRoot": "/lus/global"},
        }));
    }
}

fn directives(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn go_to(site: &mut Site, state: &str) {
    site.request_state("w", state);
    site.settle();
    assert!(site.is_ready("w", state), "{state}: {:?}", site.status_of("w"));
}
