//! Chooses the rabbits and computes of a system storage.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    NnfSystemStorageSpec, RabbitLabels, ResourceError, Storage, SystemConfiguration,
    names::{STORAGE_LABEL_RABBIT, label},
    nnf_system_storage::ComputesTarget,
    storage::{ResourceStatus, StorageState},
    system_configuration::StorageNode,
};

use super::minor_error;
use crate::{objects::system_storage::SystemStorageView, progress::user_error};

/// The rabbits and computes of a system storage.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    /// Rabbits that get the storage, each with its computes in the SystemConfiguration.
    pub(super) rabbits: BTreeMap<&'a str, &'a StorageNode>,
    /// Rabbits that are left out only while they are disabled or not Ready.
    pub(super) resting: BTreeSet<&'a str>,
    /// Computes that see the storage.
    pub(super) clients: BTreeMap<&'a str, Client<'a>>,
    /// Names of the object that the system does not have, and the lack of rabbits.
    pub(super) problems: Vec<ResourceError>,
    /// The index in its chassis of the compute that each allocation of a rabbit is for; `None` with one allocation for
    /// all computes.
    pub(super) indices: Option<Vec<i64>>,
    /// Number of computes of a chassis that can see the storage.
    pub(super) hosts: usize,
}

/// A compute that sees the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client<'a> {
    pub(super) rabbit: &'a str,
    /// Number of its allocation on the rabbit.
    pub(super) index: i64,
}

impl<'a> Choice<'a> {
    pub(super) fn new(view: &'a SystemStorageView<'_>, system: &'a SystemConfiguration) -> Self {
        let spec = &view.object.spec;
        let targets = target_indices(spec);
        let mut choice = Self {
            rabbits: BTreeMap::new(),
            resting: BTreeSet::new(),
            clients: BTreeMap::new(),
            problems: Vec::new(),
            hosts: targets.len(),
            indices: (!spec.shared).then_some(targets),
        };
        choice.choose_rabbits(view, system);
        choice.choose_computes(spec);
        choice
    }

    /// Returns the number of allocations on each rabbit.
    pub(super) fn count(&self) -> i64 {
        let count = self.indices.as_ref().map_or(1, Vec::len);
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn choose_rabbits(&mut self, view: &'a SystemStorageView<'_>, system: &'a SystemConfiguration) {
        let spec = &view.object.spec;
        let nodes = system.spec.storage_nodes.iter();
        let rabbits: BTreeMap<&str, &StorageNode> = nodes
            .filter(|node| node.kind == STORAGE_LABEL_RABBIT)
            .map(|node| (node.name.as_str(), node))
            .collect();
        self.refuse_unknown("Rabbits", &spec.include_rabbits, |name| rabbits.contains_key(name));
        for (name, node) in rabbits {
            if !is_listed(name, &spec.include_rabbits, &spec.exclude_rabbits) {
                continue;
            }
            let storage = view.site.storages.get(name).map(|storage| &**storage);
            if spec.exclude_disabled_rabbits && !storage.is_some_and(is_ready) {
                self.resting.insert(name);
            } else {
                self.rabbits.insert(name, node);
            }
        }
        if self.rabbits.is_empty() {
            self.problems.push(minor_error(
                "no rabbit is left for the storage: see spec.includeRabbits, spec.excludeRabbits, spec.excludeDisabledRabbits, and the rabbits of the SystemConfiguration",
            ));
        }
    }

    fn choose_computes(&mut self, spec: &'a NnfSystemStorageSpec) {
        let targets = target_indices(spec);
        let mut seen = BTreeSet::new();
        for (rabbit, node) in &self.rabbits {
            for compute in &node.computes_access {
                let name = compute.name.as_str();
                let place = targets.iter().position(|index| *index == compute.index);
                let is_chosen = is_listed(name, &spec.include_computes, &spec.exclude_computes)
                    && (place.is_some() || !spec.include_computes.is_empty());
                if !is_chosen {
                    continue;
                }
                seen.insert(name);
                let index = if spec.shared { Some(0) } else { place.map(to_i64) };
                match index {
                    Some(index) => drop(self.clients.insert(name, Client { rabbit, index })),
                    None => self.problems.push(user_error(format!(
                        "spec.includeComputes names {name}, whose index {} is not among those of spec.computesTarget: each of these has an allocation of its own",
                        compute.index
                    ))),
                }
            }
        }
        // Whether a rabbit that rests serves a compute does not matter now.
        if self.resting.is_empty() {
            self.refuse_unknown("Computes", &spec.include_computes, |name| seen.contains(name));
        }
    }

    fn refuse_unknown(&mut self, field: &str, names: &[String], is_known: impl Fn(&str) -> bool) {
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let place = if field == "Rabbits" { "the SystemConfiguration" } else { "its rabbits" };
            self.problems.push(user_error(format!(
                "spec.include{field} names {name}, which is not among the {} of {place}: correct the name",
                field.to_lowercase()
            )));
        }
    }
}

/// Returns true if the lists of a spec admit a name.
fn is_listed(name: &str, include: &[String], exclude: &[String]) -> bool {
    let lists = |list: &[String]| list.iter().any(|listed| listed == name);
    (include.is_empty() || lists(include)) && !lists(exclude)
}

/// Returns true if a rabbit is enabled, labelled as a rabbit, and Ready.
fn is_ready(storage: &Storage) -> bool {
    let status = storage.status.as_ref().and_then(|status| status.status.as_ref());
    storage.spec.state != StorageState::Disabled
        && storage.label(label::STORAGE) == Some(STORAGE_LABEL_RABBIT)
        && status == Some(&ResourceStatus::Ready)
}

/// Returns the indices in their chassis of the computes that can see the storage, in the order of their allocations.
fn target_indices(spec: &NnfSystemStorageSpec) -> Vec<i64> {
    match &spec.computes_target {
        ComputesTarget::All | ComputesTarget::Other(_) => (0..16).collect(),
        ComputesTarget::Even => (0..16).step_by(2).collect(),
        ComputesTarget::Odd => (1..16).step_by(2).collect(),
        ComputesTarget::Pattern => {
            let mut seen = BTreeSet::new();
            spec.computes_pattern.iter().copied().filter(|index| seen.insert(*index)).collect()
        }
    }
}

fn to_i64(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
