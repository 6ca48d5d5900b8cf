//! Lustre management targets (MGTs), and which storage has a name on which.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{NnfLustreMgt, RabbitLabels, nnf_lustre_mgt::NnfLustreMgtStatusCommand};
use controller::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

/// Namespace of the targets that no rabbit holds: the site's own.
pub const EXTERNAL_NAMESPACE: &str = "nnf-system";

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Mgts {
    all: BTreeMap<ObjectKey, Arc<NnfLustreMgt>>,
    /// By storage: the targets that know a claim of it.
    claimed: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl Mgts {
    /// Takes in a target as it is now, and says for which storages something changed there.
    pub fn take(&mut self, at: &ObjectKey, new: Option<&Arc<NnfLustreMgt>>) -> BTreeSet<ObjectKey> {
        let old = match new {
            Some(new) => self.all.insert(at.clone(), new.clone()),
            None => self.all.remove(at),
        };
        let old = old.as_ref();
        let [before, after] =
            [old, new].map(|one| one.map(|one| by_storage(one)).unwrap_or_default());
        for lost in before.keys().filter(|of| !after.contains_key(*of)) {
            let mut targets = self.claimed.remove(lost).unwrap_or_default();
            targets.remove(at);
            if !targets.is_empty() {
                self.claimed.insert(lost.clone(), targets);
            }
        }
        for claimed in after.keys().filter(|of| !before.contains_key(*of)) {
            self.claimed.entry(claimed.clone()).or_default().insert(at.clone());
        }
        let error = |one: Option<&Arc<NnfLustreMgt>>| {
            one.and_then(|one| one.status.as_ref()).and_then(|status| status.error.clone())
        };
        let for_all = error(old) != error(new);
        let all: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
        let differs = |of: &&ObjectKey| for_all || before.get(*of) != after.get(*of);
        all.into_iter().filter(differs).cloned().collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        self.all.values()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, at: &ObjectKey) -> Option<&Arc<NnfLustreMgt>> {
        self.all.get(at)
    }

    /// The targets that know a claim of the storage with this place.
    pub fn claimed_by(&self, storage: &ObjectKey) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let targets = self.claimed.get(storage).into_iter().flatten();
        targets.filter_map(|at| self.all.get(at))
    }

    /// The targets with this address.
    pub fn with_address(&self, address: &str) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let wanted = normalized(address);
        self.all.values().filter(move |one| {
            one.spec.addresses.iter().any(|address| normalized(address) == wanted)
        })
    }

    /// The targets that the storage with this place is.
    pub fn of_owner(
        &self,
        (namespace, name): &ObjectKey,
    ) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        self.all.values().filter(move |one| {
            one.owner().is_some_and(|of| of.name == name && of.namespace == namespace)
        })
    }

    /// The targets on a rabbit.
    pub fn on(&self, rabbit: &str) -> impl Iterator<Item = &Arc<NnfLustreMgt>> {
        let first = (rabbit.to_owned(), String::new());
        let rabbit = rabbit.to_owned();
        let all = self.all.range(first..).take_while(move |((of, _), _)| *of == rabbit);
        all.map(|(_, one)| one)
    }

    /// The targets that no rabbit holds.
    pub fn external(&self) -> impl Iterator<Item = &ObjectKey> {
        self.all.keys().filter(|(namespace, _)| namespace == EXTERNAL_NAMESPACE)
    }
}

/// Where a target is: its rabbit, or the namespace of the site's own, and its name.
#[must_use]
pub fn place_of(mgt: &NnfLustreMgt) -> ObjectKey {
    (mgt.namespace().unwrap_or_default(), mgt.name_any())
}

/// Whether a target knows a claim: asked for, or not erased yet.
#[must_use]
pub fn has_claim(mgt: &NnfLustreMgt, claim: &ObjectReference) -> bool {
    let mut given = mgt.status.iter().flat_map(|status| &status.claim_list);
    mgt.spec.claim_list.contains(claim) || given.any(|one| *one.reference == *claim)
}

/// What a target has of one storage.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    asked: usize,
    names: Vec<String>,
    commands: Vec<NnfLustreMgtStatusCommand>,
}

fn by_storage(mgt: &NnfLustreMgt) -> BTreeMap<ObjectKey, Known> {
    let mut all: BTreeMap<ObjectKey, Known> = BTreeMap::new();
    for of in mgt.spec.claim_list.iter().filter_map(storage_of) {
        all.entry(of).or_default().asked += 1;
    }
    let status = mgt.status.as_ref();
    for claim in status.into_iter().flat_map(|status| &status.claim_list) {
        if let Some(of) = storage_of(&claim.reference) {
            all.entry(of).or_default().names.push(claim.fs_name.clone());
        }
    }
    for command in status.into_iter().flat_map(|status| &status.command_list) {
        if let Some(known) = storage_of(&command.reference).and_then(|of| all.get_mut(&of)) {
            known.commands.push(command.clone());
        }
    }
    all
}

fn storage_of(claim: &ObjectReference) -> Option<ObjectKey> {
    Some((claim.namespace.clone()?, claim.name.clone()?))
}

/// LNet addresses in the one way that Lustre prints them: `@tcp0` is `@tcp`.
#[must_use]
pub fn normalized(addresses: &str) -> String {
    let one = |address: &str| match address.strip_suffix('0') {
        Some(short)
            if address.contains('@') && short.ends_with(|end: char| !end.is_ascii_digit()) =>
        {
            short.to_owned()
        }
        _ => address.to_owned(),
    };
    let of_server = |server: &str| server.split(',').map(one).collect::<Vec<_>>().join(",");
    addresses.split(':').map(of_server).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn place(namespace: &str, name: &str) -> ObjectKey {
        (namespace.to_owned(), name.to_owned())
    }

    fn mgt(claimed: &[&str], given: &[&str]) -> Arc<NnfLustreMgt> {
        let reference =
            |name: &&str| json!({"kind": "Servers", "name": name, "namespace": "default"});
        let spec: Vec<_> = claimed.iter().map(reference).collect();
        let status: Vec<_> = given
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
    fn a_network_without_a_number_is_its_first() {
        for (given, told) in [
            ("10.0.0.1@tcp0", "10.0.0.1@tcp"),
            ("10.0.0.1@tcp", "10.0.0.1@tcp"),
            ("10.0.0.1@o2ib10", "10.0.0.1@o2ib10"),
            ("10.0.0.1@o2ib0:10.0.0.2@o2ib0", "10.0.0.1@o2ib:10.0.0.2@o2ib"),
            ("10.0.0.10,10.0.0.1@kfi0", "10.0.0.10,10.0.0.1@kfi"),
        ] {
            assert_eq!(normalized(given), told);
        }
    }

    #[test]
    fn a_claim_is_known_until_neither_side_has_it() {
        let (mut all, at, a, b) = (
            Mgts::default(),
            place("nnf-system", "m"),
            place("default", "a"),
            place("default", "b"),
        );
        assert_eq!(all.take(&at, Some(&mgt(&["a"], &[]))), [a.clone()].into());
        assert_eq!(all.take(&at, Some(&mgt(&["b"], &["a"]))), [a.clone(), b.clone()].into());
        assert_eq!((all.claimed_by(&a).count(), all.claimed_by(&b).count()), (1, 1));
        assert_eq!(all.with_address("10.0.0.1@tcp").count(), 1);
        assert_eq!(all.take(&at, Some(&mgt(&["b"], &[]))), [a.clone()].into(), "b hears nothing");
        assert_eq!((all.claimed_by(&a).count(), all.claimed_by(&b).count()), (0, 1));
        all.take(&at, None);
        assert_eq!((all.claimed_by(&b).count(), all.external().count()), (0, 0));
    }
}
