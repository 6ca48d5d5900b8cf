//! Resolves source and destination of a copy to paths on each rabbit.

use std::collections::BTreeSet;

use api::Servers;
use directive::{Command, Copy, FileSystem, Jobdw, location::Location};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    names::{OWNER_KIND, directive_object_name, instance_object_name, reference},
    objects::{
        allocation::{Allocation, Slot, allocations},
        copy::Direction,
        instance::as_jobdw,
        mount::{is_mounted, mount_path},
        view::View,
    },
    plan::{
        assign::assign,
        global_lustre,
        mounts::{MountMaker, by_slot},
        proposal::wait_for_servers,
    },
    progress::{Outcome, user_error, wlm_error},
};

/// Source and destination of a copy. One of them is storage on rabbits, which is copied allocation by allocation (the
/// copied storage); the other one is `other`.
#[derive(Debug)]
pub(super) struct Sides {
    /// Index of the `jobdw` or `persistentdw` directive of the copied storage.
    pub(super) storage: usize,
    /// The allocations of the copied storage, each with the mount point of `other` on the allocation's rabbit.
    pub(super) places: Vec<(Place, String)>,
    /// Path to copy within each allocation, relative to the allocation's mount point.
    pub(super) path: String,
    pub(super) storage_reference: ObjectReference,
    pub(super) other: Other,
    /// True if the rabbits divide the source among themselves: each of them has mounted all of both sides.
    pub(super) is_divided: bool,
    /// True if each allocation has its own directory in the destination of a copy_out.
    pub(super) has_index_directories: bool,
    /// The rabbits of a copy by MPI; empty for copies by `datamover`.
    pub(super) mpi_rabbits: Vec<String>,
}

/// One allocation on its rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rabbit: String,
    /// Index of the allocation among the storage's allocations on this rabbit.
    pub(super) index: i64,
    /// Mount point of the allocation on the rabbit.
    pub(super) root: String,
    /// The compute that has the allocation, if its storage has one allocation for each compute.
    pub(super) compute: Option<String>,
}

/// The side of a copy that is not the copied storage ([`Sides`]).
#[derive(Debug)]
pub(super) enum Other {
    /// Other storage on rabbits: `storage` is the index of its directive.
    Storage { places: Vec<Place>, path: String, reference: ObjectReference, storage: usize },
    /// A Lustre on rabbits, which every rabbit can mount at `root`; `storage` is the index of its directive.
    Lustre { root: String, path: String, reference: ObjectReference, storage: usize },
    /// A path on a file system of the site. `reference.field_path` is the mount point of this file system.
    Site { path: String, reference: ObjectReference },
}

impl Other {
    /// Returns the mount point of this side for an allocation of the copied storage. `None` if this side is storage
    /// that has no allocation of the same index on the same rabbit.
    fn root_at(&self, place: &Place) -> Option<&str> {
        match self {
            Self::Site { reference, .. } => reference.field_path.as_deref(),
            Self::Lustre { root, .. } => Some(root),
            Self::Storage { places, .. } => {
                let same =
                    |other: &&Place| (&other.rabbit, other.index) == (&place.rabbit, place.index);
                places.iter().find(same).map(|other| other.root.as_str())
            }
        }
    }

    /// Returns the index of the directive of this side, if this side is storage on rabbits.
    fn storage(&self) -> Option<usize> {
        match self {
            Self::Storage { storage, .. } | Self::Lustre { storage, .. } => Some(*storage),
            Self::Site { .. } => None,
        }
    }
}

/// Finds source and destination of a copy.
///
/// # Errors
/// A wait for a Servers, or an error if the storage or file system does not exist.
pub(super) fn resolve(
    view: &View<'_>,
    copy: &Copy,
    direction: Direction,
) -> Result<Sides, Outcome> {
    let (side, other) = match direction {
        Direction::In => (&copy.destination, &copy.source),
        Direction::Out => (&copy.source, &copy.destination),
    };
    let (Location::Job(inside) | Location::Persistent(inside)) = side else {
        return Err(user_error(format!(
            "the {} of {} is no storage on rabbits: write $DW_JOB_NAME or $DW_PERSISTENT_NAME",
            direction.storage_side(),
            direction.command()
        ))
        .into());
    };
    let (storage, jobdw) = find_storage(view, side, &inside.name)?;
    let servers = servers_of(view, storage, &jobdw)?;
    let mut places = places(view, storage, &jobdw, servers);
    if places.is_empty() {
        return Err(wlm_error("the Servers of the copied storage has no allocation").into());
    }
    let other = other_side(view, other)?;
    let is_lustre = jobdw.file_system == FileSystem::Lustre;
    if is_lustre && matches!(other, Other::Storage { .. }) {
        places.truncate(1);
    }
    let is_divided = is_lustre && places.len() > 1;
    let places = places.into_iter().map(|place| match other.root_at(&place) {
        Some(root) => Ok((place.clone(), root.to_owned())),
        None => Err(Outcome::from(user_error(format!(
            "the other storage of the copy has no allocation {} on rabbit {}: give both storages the same type and computes, or copy by way of a global file system",
            place.index, place.rabbit
        )))),
    });
    let places = places.collect::<Result<_, _>>()?;
    let has_index_directories = direction == Direction::Out && !is_lustre;
    Ok(Sides {
        storage,
        places,
        path: inside.path.clone(),
        storage_reference: servers_reference(servers),
        other,
        is_divided,
        has_index_directories,
        mpi_rabbits: Vec::new(),
    })
}

fn other_side(view: &View<'_>, other: &Location) -> Result<Other, Outcome> {
    match other {
        Location::Job(inside) | Location::Persistent(inside) => {
            let (storage, jobdw) = find_storage(view, other, &inside.name)?;
            let servers = servers_of(view, storage, &jobdw)?;
            let (path, reference) = (inside.path.clone(), servers_reference(servers));
            Ok(if jobdw.file_system == FileSystem::Lustre {
                let root = mount_path(view, storage, FileSystem::Lustre);
                Other::Lustre { root, path, reference, storage }
            } else {
                let places = places(view, storage, &jobdw, servers);
                Other::Storage { places, path, reference, storage }
            })
        }
        Location::Global(path) => match global_lustre::reference_of(view.site, path) {
            Some(reference) => Ok(Other::Site { path: path.clone(), reference }),
            None => Err(user_error(format!(
                "no LustreFileSystem has a mountRoot above {path} any more: ask the administrator to create it again"
            ))
            .into()),
        },
    }
}

/// Returns the index of the directive that names a storage, and the storage as a `jobdw` command. `side` tells storage
/// of the job from persistent storage.
pub(super) fn find_storage(
    view: &View<'_>,
    side: &Location,
    name: &str,
) -> Result<(usize, Jobdw), Outcome> {
    let is_job = matches!(side, Location::Job(_));
    let mut commands =
        view.workflow.spec.directives.iter().map(|line| Command::read(line)).enumerate();
    let found = commands.find_map(|(index, command)| match command? {
        Command::Jobdw(jobdw) if is_job && jobdw.name == name => Some((index, Some(jobdw))),
        Command::Persistentdw(used) if !is_job && used.name == name => {
            let named = view.directives[index].persistent.as_ref();
            Some((index, named.and_then(|named| as_jobdw(named.object.as_deref()?))))
        }
        _ => None,
    });
    match found {
        Some((index, Some(jobdw))) => Ok((index, jobdw)),
        Some((_, None)) => {
            Err(user_error(format!("persistent storage {name} does not exist any more")).into())
        }
        None => {
            let command = if is_job { "jobdw" } else { "persistentdw" };
            Err(user_error(format!("this workflow has no directive {command} name={name}")).into())
        }
    }
}

fn servers_of<'a>(
    view: &'a View<'_>,
    storage: usize,
    jobdw: &Jobdw,
) -> Result<&'a Servers, Outcome> {
    let directive = &view.directives[storage];
    directive.storage.servers.as_deref().ok_or_else(|| {
        let name = match &directive.persistent {
            Some(_) => instance_object_name(&jobdw.name),
            None => directive_object_name(&view.workflow, storage),
        };
        wait_for_servers(view.site, &(view.namespace(), name)).outcome
    })
}

fn servers_reference(servers: &Servers) -> ObjectReference {
    reference(OWNER_KIND, &servers.name_any(), &servers.namespace().unwrap_or_default())
}

/// Returns the allocations of a storage. A Lustre counts as one allocation on each rabbit that has an object target: all
/// of them are the whole file system.
pub(super) fn places(
    view: &View<'_>,
    storage: usize,
    jobdw: &Jobdw,
    servers: &Servers,
) -> Vec<Place> {
    let all = allocations(servers);
    if jobdw.file_system == FileSystem::Lustre {
        let root = mount_path(view, storage, FileSystem::Lustre);
        let targets = all.iter().filter(|allocation| allocation.label == "ost");
        let rabbits: BTreeSet<&str> = targets.map(|target| target.rabbit.as_str()).collect();
        let place = |rabbit: &str| Place {
            rabbit: rabbit.to_owned(),
            index: 0,
            root: root.clone(),
            compute: None,
        };
        return rabbits.into_iter().map(place).collect();
    }
    let group = &view.directives[storage].storage;
    let maker = MountMaker { view, index: storage, file_system: jobdw.file_system, group };
    let slots = assign(view.site, group, &all, view.computes()).unwrap_or_default();
    let computes_of = by_slot(&slots);
    let place = |allocation: &Allocation, index: i64| {
        let (rabbit, name) = (allocation.rabbit.clone(), allocation.name.clone());
        let compute = computes_of.get(&Slot { rabbit: rabbit.clone(), name, index });
        Place {
            rabbit,
            index: allocation.first + index,
            root: maker.path_on_rabbit(allocation, index),
            compute: compute.map(|compute| (*compute).to_owned()),
        }
    };
    let indexes = |allocation: &Allocation| 0..allocation.count;
    all.iter()
        .flat_map(|allocation| {
            indexes(allocation).map(|index| place(allocation, index)).collect::<Vec<_>>()
        })
        .collect()
}

impl Sides {
    /// Returns the indexes of the directives whose storage is source or destination.
    pub(super) fn storages(&self) -> impl Iterator<Item = usize> {
        [Some(self.storage), self.other.storage()].into_iter().flatten()
    }

    /// Returns the rabbits that copy.
    pub(super) fn rabbits(&self) -> impl Iterator<Item = &str> {
        let places = self.places.iter().map(|(place, _)| place.rabbit.as_str());
        places.chain(self.mpi_rabbits.iter().map(String::as_str))
    }

    /// Returns true if MPI carries out the copy.
    pub(super) fn is_by_mpi(&self) -> bool {
        !self.mpi_rabbits.is_empty()
    }

    /// Returns true if the rabbits that copy have mounted all storage on rabbits that the copy reads or writes.
    pub(super) fn are_mounted(&self, view: &View<'_>) -> bool {
        let have_mounted =
            |storage| self.rabbits().all(|rabbit| has_mounted(view, storage, rabbit));
        self.storages().all(have_mounted)
    }
}

fn has_mounted(view: &View<'_>, storage: usize, rabbit: &str) -> bool {
    let mut mounts = view.directives[storage].storage.mounts.values();
    mounts.any(|mount| mount.spec.node == rabbit && is_mounted(mount))
}
