//! Resolves source and destination of a copy to paths on each rabbit.

use std::collections::BTreeSet;

use api::Servers;
use directive::{Command, Copy, FileSystem, Jobdw, location::Location};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use super::Direction;
use crate::{
    names::{OWNER_KIND, directive_object_name, reference},
    plan::{
        allocation::{Allocation, allocations},
        global_lustre,
        mounts::{MountMaker, is_mounted, mount_path},
        proposal::wait_for_servers,
    },
    progress::{Outcome, user_error, wlm_error},
    view::View,
};

/// Source and destination of a copy. One of them is storage of the job, which is copied allocation by allocation (the
/// copied storage); the other one is `other`.
#[derive(Debug)]
pub(super) struct Sides<'a> {
    /// Index of the directive that makes the copied storage.
    storage: usize,
    /// The allocations of the copied storage, each with the mount point of `other` on the allocation's rabbit.
    pub(super) places: Vec<(Place, String)>,
    /// Path to copy within each allocation, relative to the allocation's mount point.
    pub(super) path: &'a str,
    pub(super) storage_reference: ObjectReference,
    pub(super) other: Other<'a>,
    /// True if each allocation has its own directory in the destination of a copy_out.
    pub(super) has_index_directories: bool,
}

/// One allocation on its rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rabbit: String,
    /// Index of the allocation among the storage's allocations on this rabbit.
    pub(super) index: i64,
    /// Mount point of the allocation on the rabbit.
    pub(super) root: String,
}

/// The side of a copy that is not the copied storage ([`Sides`]).
#[derive(Debug)]
pub(super) enum Other<'a> {
    /// Another storage of the job.
    Job { places: Vec<Place>, path: &'a str, reference: ObjectReference, storage: usize },
    /// A path on a file system of the site. `reference.field_path` is the mount point of this file system.
    Site { path: &'a str, reference: ObjectReference },
}

impl Other<'_> {
    /// Returns the mount point of this side for an allocation of the copied storage. `None` if this side is storage of
    /// the job that has no allocation of the same index on the same rabbit.
    fn root_at(&self, place: &Place) -> Option<&str> {
        match self {
            Self::Site { reference, .. } => reference.field_path.as_deref(),
            Self::Job { places, .. } => {
                let same =
                    |other: &&Place| (&other.rabbit, other.index) == (&place.rabbit, place.index);
                places.iter().find(same).map(|other| other.root.as_str())
            }
        }
    }
}

/// Finds source and destination of a copy.
///
/// # Errors
/// A wait for a Servers, or an error if the storage or file system does not exist.
pub(super) fn resolve<'a>(
    view: &View<'_>,
    copy: &'a Copy,
    direction: Direction,
) -> Result<Sides<'a>, Outcome> {
    let (side, other) = match direction {
        Direction::In => (&copy.destination, &copy.source),
        Direction::Out => (&copy.source, &copy.destination),
    };
    let Location::Job(inside) = side else {
        return Err(user_error("neither source nor destination of the copy is storage of the job: name $DW_JOB_NAME in one of them").into());
    };
    let (storage, jobdw) = find_storage(view, &inside.name)?;
    let servers = servers_of(view, storage)?;
    let places = places(view, storage, &jobdw, servers);
    if places.is_empty() {
        return Err(wlm_error("the Servers of the copied storage has no allocation").into());
    }
    let other = other_side(view, other)?;
    let places = places.into_iter().map(|place| match other.root_at(&place) {
        Some(root) => Ok((place.clone(), root.to_owned())),
        None => Err(Outcome::from(user_error(format!(
            "the other storage of the copy has no allocation {} on rabbit {}: give both storages the same type and computes, or copy by way of a global file system",
            place.index, place.rabbit
        )))),
    });
    let places = places.collect::<Result<_, _>>()?;
    let has_index_directories =
        direction == Direction::Out && jobdw.file_system != FileSystem::Lustre;
    Ok(Sides {
        storage,
        places,
        path: &inside.path,
        storage_reference: servers_reference(servers),
        other,
        has_index_directories,
    })
}

fn other_side<'a>(view: &View<'_>, other: &'a Location) -> Result<Other<'a>, Outcome> {
    match other {
        Location::Job(inside) => {
            let (storage, jobdw) = find_storage(view, &inside.name)?;
            let servers = servers_of(view, storage)?;
            let places = places(view, storage, &jobdw, servers);
            let (path, reference) = (inside.path.as_str(), servers_reference(servers));
            Ok(Other::Job { places, path, reference, storage })
        }
        Location::Global(path) => match global_lustre::reference_of(view.site, path) {
            Some(reference) => Ok(Other::Site { path, reference }),
            None => Err(user_error(format!(
                "no LustreFileSystem has a mountRoot above {path} any more: ask the administrator to create it again"
            ))
            .into()),
        },
        Location::Persistent(_) => Err(user_error(
            "the copy names persistent storage, which Warren does not copy: name storage of the job or a path on a global file system",
        ).into()),
    }
}

/// Returns the index and command of the directive that owns a storage of the job.
fn find_storage(view: &View<'_>, name: &str) -> Result<(usize, Jobdw), Outcome> {
    let mut commands =
        view.workflow.spec.directives.iter().map(|line| Command::read(line)).enumerate();
    let found = commands.find_map(|(index, command)| match command? {
        Command::Jobdw(jobdw) if jobdw.name == name => Some((index, jobdw)),
        _ => None,
    });
    found.ok_or_else(|| {
        user_error(format!("this workflow has no directive jobdw name={name}")).into()
    })
}

fn servers_of<'a>(view: &'a View<'_>, storage: usize) -> Result<&'a Servers, Outcome> {
    view.directives[storage].storage.servers.as_deref().ok_or_else(|| {
        let at = (view.namespace(), directive_object_name(&view.workflow, storage));
        wait_for_servers(view.site, &at).outcome
    })
}

fn servers_reference(servers: &Servers) -> ObjectReference {
    reference(OWNER_KIND, &servers.name_any(), &servers.namespace().unwrap_or_default())
}

/// Returns the allocations of a storage. A Lustre counts as a single allocation, on the first rabbit that has an object
/// target.
pub(super) fn places(
    view: &View<'_>,
    storage: usize,
    jobdw: &Jobdw,
    servers: &Servers,
) -> Vec<Place> {
    let all = allocations(servers);
    if jobdw.file_system == FileSystem::Lustre {
        let root = mount_path(view, storage, FileSystem::Lustre);
        let mut targets = all.iter().filter(|allocation| allocation.label == "ost");
        let first =
            targets.next().map(|target| Place { rabbit: target.rabbit.clone(), index: 0, root });
        return first.into_iter().collect();
    }
    let group = &view.directives[storage].storage;
    let maker = MountMaker { view, index: storage, file_system: jobdw.file_system, group };
    let place = |allocation: &Allocation, index: i64| Place {
        rabbit: allocation.rabbit.clone(),
        index: allocation.first + index,
        root: maker.path_on_rabbit(allocation, index),
    };
    let indexes = |allocation: &Allocation| 0..allocation.count;
    all.iter()
        .flat_map(|allocation| {
            indexes(allocation).map(|index| place(allocation, index)).collect::<Vec<_>>()
        })
        .collect()
}

impl Sides<'_> {
    /// Returns the rabbits that have not yet mounted all storage of the job that the copy reads or writes.
    pub(super) fn rabbits_without_mount<'a>(&'a self, view: &View<'_>) -> BTreeSet<&'a str> {
        let rabbits = self.places.iter().map(|(place, _)| place.rabbit.as_str());
        let other = match &self.other {
            Other::Job { storage, .. } => Some(*storage),
            Other::Site { .. } => None,
        };
        let lacks = |rabbit: &&str| {
            let storages = [Some(self.storage), other];
            !storages.into_iter().flatten().all(|storage| has_mounted(view, storage, rabbit))
        };
        rabbits.filter(lacks).collect()
    }
}

fn has_mounted(view: &View<'_>, storage: usize, rabbit: &str) -> bool {
    let mut mounts = view.directives[storage].storage.mounts.values();
    mounts.any(|mount| mount.spec.node == rabbit && is_mounted(mount))
}
