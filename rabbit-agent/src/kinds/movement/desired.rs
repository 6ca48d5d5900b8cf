//! Parses and checks a NnfDataMovement.

use std::path::{Component, Path, PathBuf};

use api::{
    NnfDataMovement,
    names::{
        annotation,
        movement::{INDEX_DIRECTORY, INITIATOR, SHARE},
    },
    nnf_data_movement::DataMovementPlace,
};
use kube::ResourceExt;
use movement::order::{self, Share, ShareError};
use storage::desired::{AllowedRoots, MountPoint, MountPointError, ObjectUid};
use thiserror::Error;

/// Why a NnfDataMovement is invalid. A retry cannot succeed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MovementError {
    #[error("metadata.uid {0:?} is not a UUID")]
    Uid(String),
    #[error(
        "spec.userId is {0}, but data is never copied as root: set it to the user's number, 1 or more"
    )]
    User(i64),
    #[error("spec.groupId is {0}: set it to the group's number, 0 or more")]
    Group(i64),
    #[error("{field} is {value:?}, {problem}")]
    Field {
        field: String,
        value: String,
        /// The rule that the value breaks, and thereby the remedy.
        problem: String,
    },
    #[error(
        "annotation {key} is {0:?}: set it to a number of bytes per second, 1 or more, or remove it",
        key = annotation::BYTES_PER_SECOND
    )]
    Limit(String),
    #[error("{field}")]
    Mount {
        field: String,
        #[source]
        source: MountPointError,
    },
}

/// The kind of object that names the root of a source or destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideKind {
    /// A Servers: storage of a workflow.
    Servers,
    /// A global Lustre.
    Lustre,
    /// A directory that the coordinator's configuration names.
    Directory,
}

/// The source or destination of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub kind: SideKind,
    /// The root and the path beneath it.
    pub place: order::Place,
}

impl Side {
    /// Whether the root has to be a mount point when the copy starts.
    #[must_use]
    pub fn needs_mount(&self) -> bool {
        self.kind != SideKind::Directory
    }
}

/// One movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    pub uid: ObjectUid,
    pub user: u32,
    pub group: u32,
    pub source: Side,
    pub destination: Side,
    /// Name of a directory for this movement beneath the destination's directory.
    pub index_directory: Option<String>,
    /// The part of the source to copy; `None` for all of it.
    pub share: Option<Share>,
    /// Whether this is a copy_out, whose copy outlives its source.
    pub is_copy_out: bool,
}

impl Desired {
    /// Checks an object. `roots` are the directories beneath which jobs' storage is mounted.
    ///
    /// # Errors
    /// When the object is invalid, so that no agent can carry it out.
    pub fn from_object(
        object: &NnfDataMovement,
        roots: &AllowedRoots,
    ) -> Result<Self, MovementError> {
        let spec = &object.spec;
        Ok(Self {
            uid: uid_of(object)?,
            user: user(spec.user_id)?,
            group: u32::try_from(spec.group_id).map_err(|_| MovementError::Group(spec.group_id))?,
            source: side("spec.source", &spec.source, roots)?,
            destination: side("spec.destination", &spec.destination, roots)?,
            index_directory: index_directory(object)?,
            share: share(object)?,
            is_copy_out: object
                .labels()
                .get(INITIATOR)
                .is_some_and(|command| command == "copy_out"),
        })
    }
}

/// Returns the uid of an object.
///
/// # Errors
/// When the uid is not a UUID.
pub fn uid_of(object: &NnfDataMovement) -> Result<ObjectUid, MovementError> {
    let uid = object.uid().unwrap_or_default();
    uid.parse().map_err(|_| MovementError::Uid(uid))
}

/// Returns the limit, in bytes per second, that an object sets for its copy; `None` for no limit.
///
/// # Errors
/// When the annotation is not a number above 0. The copy then keeps its previous limit.
pub fn limit(object: &NnfDataMovement) -> Result<Option<u64>, MovementError> {
    let Some(text) = object.annotations().get(annotation::BYTES_PER_SECOND) else {
        return Ok(None);
    };
    let number = text.parse().ok().filter(|rate| *rate > 0);
    number.map(Some).ok_or_else(|| MovementError::Limit(text.clone()))
}

fn user(number: i64) -> Result<u32, MovementError> {
    u32::try_from(number).ok().filter(|user| *user > 0).ok_or(MovementError::User(number))
}

/// Reads the label that names the directory beneath the destination: a single path component.
fn index_directory(object: &NnfDataMovement) -> Result<Option<String>, MovementError> {
    let Some(name) = object.labels().get(INDEX_DIRECTORY) else { return Ok(None) };
    if matches!(name.as_str(), "" | "." | "..") || name.contains('/') {
        let problem = "and must be the name of a directory, such as rabbit-1-0".to_owned();
        return Err(field(&format!("label {INDEX_DIRECTORY}"), name, problem));
    }
    Ok(Some(name.clone()))
}

fn share(object: &NnfDataMovement) -> Result<Option<Share>, MovementError> {
    let Some(text) = object.labels().get(SHARE) else { return Ok(None) };
    let share = text.parse().map(Some);
    share.map_err(|error: ShareError| field(&format!("label {SHARE}"), text, error.to_string()))
}

fn side(name: &str, side: &DataMovementPlace, roots: &AllowedRoots) -> Result<Side, MovementError> {
    let reference = &side.storage_reference;
    let kind = kind(name, reference.kind.as_deref().unwrap_or_default())?;
    let root = reference.field_path.as_deref().unwrap_or_default();
    let root_name = format!("{name}.storageReference.fieldPath");
    let root = match kind {
        SideKind::Servers => MountPoint::parse(root, roots)
            .map(|point| point.path())
            .map_err(|source| MovementError::Mount { field: root_name, source })?,
        SideKind::Lustre | SideKind::Directory => outside_job_storage(&root_name, root, roots)?,
    };
    let path = path_beneath_root(&format!("{name}.path"), &side.path, &root)?;
    Ok(Side { kind, place: order::Place { root, path } })
}

fn kind(name: &str, kind: &str) -> Result<SideKind, MovementError> {
    match kind {
        "Servers" => Ok(SideKind::Servers),
        "LustreFileSystem" => Ok(SideKind::Lustre),
        "Directory" => Ok(SideKind::Directory),
        _ => Err(field(
            &format!("{name}.storageReference.kind"),
            kind,
            "and must be Servers, LustreFileSystem or Directory".to_owned(),
        )),
    }
}

/// Parses the root of a file system that is not jobs' storage: it must be neither within nor above the directories of
/// jobs' storage.
fn outside_job_storage(
    name: &str,
    root: &str,
    roots: &AllowedRoots,
) -> Result<PathBuf, MovementError> {
    let path = Path::new(root);
    let is_plain = |path: &Path| {
        let mut parts = path.components();
        parts.next() == Some(Component::RootDir)
            && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    if !is_plain(path) || path == Path::new("/") {
        let problem = "and must be an absolute path without .., other than /";
        return Err(field(name, root, problem.to_owned()));
    }
    if roots.iter().any(|jobs| path.starts_with(jobs) || jobs.starts_with(path)) {
        let problem = format!("and must be neither within nor above jobs' storage in {roots}");
        return Err(field(name, root, problem));
    }
    Ok(path.components().collect())
}

/// Returns the part of a path beneath a root. Keeps a trailing `/`, and removes `.`.
fn path_beneath_root(name: &str, path: &str, root: &Path) -> Result<String, MovementError> {
    if Path::new(path).components().any(|part| part == Component::ParentDir) {
        return Err(field(name, path, "and must not contain ..".to_owned()));
    }
    let rest = Path::new(path).strip_prefix(root).map_err(|_| {
        field(name, path, format!("and must be beneath the mount point {}", root.display()))
    })?;
    let parts: Vec<_> = rest.iter().filter_map(|part| part.to_str()).collect();
    let has_slash = path.ends_with('/') || path.ends_with("/.");
    let end = if has_slash && !parts.is_empty() { "/" } else { "" };
    Ok(parts.join("/") + end)
}

fn field(field: &str, value: &str, problem: String) -> MovementError {
    MovementError::Field { field: field.to_owned(), value: value.to_owned(), problem }
}

#[cfg(test)]
mod tests;
