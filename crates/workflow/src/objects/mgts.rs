//! Lustre management targets (MGTs), and which storage has a file system name on which target.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{NnfLustreMgt, RabbitLabels, nnf_lustre_mgt::NnfLustreMgtStatusCommand};
use controller::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

/// Namespace of the site's own management targets, which are outside of the rabbits.
pub const EXTERNAL_NAMESPACE: &str = "nnf-system";

/// All Lustre management targets.
#[derive(Clone, Debug, Default)]
pub struct Mgts {
    all: BTreeMap<ObjectKey, Arc<NnfLustreMgt>>,
    /// Targets by storage: the targets from which the storage requests a name, or that have given it a name.
    by_storage: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl Mgts {
    /// Takes in the present state of a target, or its deletion. Returns the storages whose requests, names
    /// or command results changed.
    pub fn take(&mut self, at: &ObjectKey, new: Option<&Arc<NnfLustreMgt>>) -> BTreeSet<ObjectKey> {
        let old = match new {
            Some(new) => self.all.insert(at.clone(), new.clone()),
            None => self.all.remove(at),
        };
        let old = old.as_ref();
        let [before, after] = [old, new]
            .map(|target| target.map(|target| records_by_storage(target)).unwrap_or_default());
        for lost in before.keys().filter(|storage| !after.contains_key(*storage)) {
            let mut targets = self.by_storage.remove(lost).unwrap_or_default();
            targets.remove(at);
            if !targets.is_empty() {
                self.by_storage.insert(lost.clone(), targets);
            }
        }
        for storage in after.keys().filter(|storage| !before.contains_key(*storage)) {
            self.by_storage.entry(storage.clone()).or_default().insert(at.clone());
        }
        let error = |target: Option<&Arc<NnfLustreMgt>>| {
            target.and_then(|target| target.status.as_ref()).and_then(|status| status.error.clone())
        };
        let for_all = error(old) != error(new);
        let all: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
        let differs = |storage: &&ObjectKey| for_all || before.get(*storage) != after.get(*storage);
        all.into_iter().filter(differs).cloned().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        self.all.values()
    }

    /// Returns the target with this key.
    #[must_use]
    pub fn get(&self, at: &ObjectKey) -> Option<&Arc<NnfLustreMgt>> {
        self.all.get(at)
    }

    /// Returns the targets from which the storage requests a name, or that have given it a name.
    pub fn of_storage(&self, storage: &ObjectKey) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let targets = self.by_storage.get(storage).into_iter().flatten();
        targets.filter_map(|at| self.all.get(at))
    }

    /// Returns the targets with this LNet address.
    pub fn with_address(&self, address: &str) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let wanted = normalize_nids(address);
        self.all.values().filter(move |mgt| {
            mgt.spec.addresses.iter().any(|address| normalize_nids(address) == wanted)
        })
    }

    /// Returns the targets that belong to the Servers or PersistentStorageInstance with this key.
    pub fn of_owner(
        &self,
        (namespace, name): &ObjectKey,
    ) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        self.all.values().filter(move |mgt| {
            mgt.owner().is_some_and(|owner| owner.name == name && owner.namespace == namespace)
        })
    }

    /// Returns the targets on a rabbit.
    pub fn on_rabbit(&self, rabbit: &str) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let first = (rabbit.to_owned(), String::new());
        let rabbit = rabbit.to_owned();
        let all =
            self.all.range(first..).take_while(move |((namespace, _), _)| *namespace == rabbit);
        all.map(|(_, mgt)| mgt)
    }

    /// Returns the keys of the targets outside of the rabbits.
    pub fn external(&self) -> impl Iterator<Item = &ObjectKey> {
        self.all.keys().filter(|(namespace, _)| namespace == EXTERNAL_NAMESPACE)
    }
}

/// Returns the key of a target: the name of its rabbit (of an external target, [`EXTERNAL_NAMESPACE`]),
/// and the target's name.
#[must_use]
pub fn mgt_key(mgt: &NnfLustreMgt) -> ObjectKey {
    (mgt.namespace().unwrap_or_default(), mgt.name_any())
}

/// Returns true if a target's spec or status still lists this holder: the holder requests a name, or the target has not
/// erased the holder's name yet.
#[must_use]
pub fn has_holder(mgt: &NnfLustreMgt, holder: &ObjectReference) -> bool {
    let mut entries = mgt.status.iter().flat_map(|status| &status.claim_list);
    mgt.spec.claim_list.contains(holder) || entries.any(|entry| *entry.reference == *holder)
}

/// Requests, names and command results of one storage on one target.
#[derive(Clone, Debug, Default, PartialEq)]
struct Record {
    requests: usize,
    names: Vec<String>,
    commands: Vec<NnfLustreMgtStatusCommand>,
}

fn records_by_storage(mgt: &NnfLustreMgt) -> BTreeMap<ObjectKey, Record> {
    let mut records: BTreeMap<ObjectKey, Record> = BTreeMap::new();
    for storage in mgt.spec.claim_list.iter().filter_map(storage_of) {
        records.entry(storage).or_default().requests += 1;
    }
    let status = mgt.status.as_ref();
    for entry in status.into_iter().flat_map(|status| &status.claim_list) {
        if let Some(storage) = storage_of(&entry.reference) {
            records.entry(storage).or_default().names.push(entry.fs_name.clone());
        }
    }
    for command in status.into_iter().flat_map(|status| &status.command_list) {
        if let Some(known) =
            storage_of(&command.reference).and_then(|storage| records.get_mut(&storage))
        {
            known.commands.push(command.clone());
        }
    }
    records
}

fn storage_of(holder: &ObjectReference) -> Option<ObjectKey> {
    Some((holder.namespace.clone()?, holder.name.clone()?))
}

/// Normalizes LNet addresses to the form that Lustre prints: `@tcp0` is `@tcp`.
#[must_use]
pub fn normalize_nids(addresses: &str) -> String {
    let normalize = |address: &str| match address.strip_suffix('0') {
        Some(short)
            if address.contains('@') && short.ends_with(|end: char| !end.is_ascii_digit()) =>
        {
            short.to_owned()
        }
        _ => address.to_owned(),
    };
    let of_server = |server: &str| server.split(',').map(normalize).collect::<Vec<_>>().join(",");
    addresses.split(':').map(of_server).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn place(namespace: &str, name: &str) -> ObjectKey {
        (namespace.to_owned(), name.to_owned())
    }

    fn mgt(requested: &[&str], granted: &[&str]) -> Arc<NnfLustreMgt> {
        let reference =
            |name: &&str| json!({"kind": "Servers", "name": name, "namespace": "default"});
        let spec: Vec<_> = requested.iter().map(reference).collect();
        let status: Vec<_> = granted
            .iter()
            .map(|name| json!({"reference": reference(name), "fsname": "aaaaaaaa"}))
            .collect();
        let object: NnfLustreMgt = from_value(json!({
            "metadata": {"name": "m", "namespace": "nnf-system"},
            "spec": {"addresses": ["10.0.0.1@tcp0"], "claimList": spec}, "status": {"claimList": status},
        }))
        .unwrap();
        Arc::new(object)
    }

    #[test]
    fn normalize_nids_omits_network_number_0() {
        for (address, normalized) in [
            ("10.0.0.1@tcp0", "10.0.0.1@tcp"),
            ("10.0.0.1@tcp", "10.0.0.1@tcp"),
            ("10.0.0.1@o2ib10", "10.0.0.1@o2ib10"),
            ("10.0.0.1@o2ib0:10.0.0.2@o2ib0", "10.0.0.1@o2ib:10.0.0.2@o2ib"),
            ("10.0.0.10,10.0.0.1@kfi0", "10.0.0.10,10.0.0.1@kfi"),
        ] {
            assert_eq!(normalize_nids(address), normalized);
        }
    }

    #[test]
    fn of_storage_returns_a_target_while_its_spec_or_status_names_the_storage() {
        let (mut all, at, a, b) = (
            Mgts::default(),
            place("nnf-system", "m"),
            place("default", "a"),
            place("default", "b"),
        );
        assert_eq!(all.take(&at, Some(&mgt(&["a"], &[]))), [a.clone()].into());
        assert_eq!(all.take(&at, Some(&mgt(&["b"], &["a"]))), [a.clone(), b.clone()].into());
        assert_eq!((all.of_storage(&a).count(), all.of_storage(&b).count()), (1, 1));
        assert_eq!(all.with_address("10.0.0.1@tcp").count(), 1);
        assert_eq!(
            all.take(&at, Some(&mgt(&["b"], &[]))),
            [a.clone()].into(),
            "nothing changes for b"
        );
        assert_eq!((all.of_storage(&a).count(), all.of_storage(&b).count()), (0, 1));
        all.take(&at, None);
        assert_eq!((all.of_storage(&b).count(), all.external().count()), (0, 0));
    }
}
