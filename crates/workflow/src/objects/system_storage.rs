//! A system storage and all objects that belong to it, as the planner sees them.

use std::sync::Arc;

use api::{NnfStorageProfile, NnfSystemStorage, Servers, SystemConfiguration};

use crate::{
    execute::Refusal,
    objects::{site::Site, view::Group},
};

/// One system storage.
#[derive(Debug)]
pub struct SystemStorageView<'a> {
    /// System, rabbits, profiles and rules, which all workflows share.
    pub site: &'a Site,
    pub object: Arc<NnfSystemStorage>,
    /// The SystemConfiguration that the storage names.
    pub system: Option<Arc<SystemConfiguration>>,
    /// The profile that the storage names.
    pub profile: Option<Arc<NnfStorageProfile>>,
    /// Objects of the storage on nodes.
    pub storage: Group,
    /// A Servers of other storage, with the name that this storage needs.
    pub foreign: Option<Arc<Servers>>,
    /// Objects on nodes whose Servers is not that of this storage.
    pub leftovers: Vec<Group>,
    /// Changes that the API refused in two plans in a row, and why.
    pub refused: Vec<Refusal>,
}
