//! Facts about single objects of the API, and collections of these objects. `plan`, `report` and `world` use these
//! facts; nothing in this module uses them.

pub mod allocation;
pub mod block;
pub(crate) mod copy;
pub mod fs_names;
pub mod instance;
pub mod mgts;
pub mod mount;
pub(crate) mod part;
pub mod reservations;
pub mod sessions;
pub mod site;
pub mod system_storage;
pub mod view;
