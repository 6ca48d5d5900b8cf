//! Mount points: paths from API objects. The rest of the crate trusts only paths that this module has checked.

use std::{
    ffi::OsStr,
    fmt,
    path::{Component, Path, PathBuf},
};

use thiserror::Error;

/// Maximum number of names in a path beneath an allowed root. A path that the sites' controllers choose has two names.
const MOST_LEVELS: usize = 32;

/// The reason why a path cannot be a mount point.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MountPointError {
    #[error("{0:?} is not absolute: begin it with '/'")]
    NotAbsolute(String),
    #[error("{0:?} contains '..': write the path without '..'")]
    ParentComponent(String),
    #[error("{0:?} contains a control character: use printable characters")]
    ControlCharacter(String),
    /// The path is longer than PATH_MAX (4096, limits.h) allows.
    #[error("the path has {0} bytes: use at most 4095")]
    TooLong(usize),
    /// A name in the path is longer than NAME_MAX (255, limits.h) allows.
    #[error("a name in the path has {0} bytes: use at most 255")]
    NameTooLong(usize),
    /// The path has too many directories beneath the root: the agent would have to make, check and remove each of them.
    #[error(
        "the path leads through {levels} directories beneath {root}: use at most {MOST_LEVELS}"
    )]
    TooDeep { levels: usize, root: String },
    #[error("{path:?} is not beneath an allowed root: use a path under {roots}")]
    OutsideRoots { path: String, roots: String },
}

/// Directories beneath which mounts are allowed, for example `/mnt/nnf`. None of them is `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedRoots(Vec<PathBuf>);

impl AllowedRoots {
    /// Checks the roots from the configuration.
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Result<Self, MountPointError> {
        let mut clean = Vec::new();
        for root in roots {
            let root = normal(&root.to_string_lossy())?;
            if root == Path::new("/") {
                return Err(MountPointError::OutsideRoots {
                    path: "/".into(),
                    roots: "another directory than /".into(),
                });
            }
            clean.push(root);
        }
        Ok(Self(clean))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

impl fmt::Display for AllowedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots: Vec<_> = self.0.iter().map(|root| root.display().to_string()).collect();
        f.write_str(&roots.join(" or "))
    }
}

/// A path strictly beneath an allowed root, without `.`, `..`, doubled or trailing slashes.
///
/// The check does not read the node: symbolic links in the path are found later, by an observation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountPoint {
    root: PathBuf,
    below: PathBuf,
}

impl MountPoint {
    /// Checks a path from an object.
    pub fn parse(text: &str, roots: &AllowedRoots) -> Result<Self, MountPointError> {
        let path = normal(text)?;
        for root in roots.iter() {
            if let Ok(below) = path.strip_prefix(root)
                && !below.as_os_str().is_empty()
            {
                let levels = below.components().count();
                if levels > MOST_LEVELS {
                    let root = root.display().to_string();
                    return Err(MountPointError::TooDeep { levels, root });
                }
                return Ok(Self { root: root.to_owned(), below: below.to_owned() });
            }
        }
        Err(MountPointError::OutsideRoots { path: text.to_owned(), roots: roots.to_string() })
    }

    /// Returns the allowed root above the path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path relative to the root; never empty.
    pub fn below(&self) -> &Path {
        &self.below
    }

    /// Returns the whole path, with the root.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// Returns the parent directory, when it is beneath the root too.
    pub fn parent(&self) -> Option<Self> {
        let below = self.below.parent().filter(|parent| !parent.as_os_str().is_empty())?;
        Some(Self { root: self.root.clone(), below: below.to_owned() })
    }
}

impl fmt::Display for MountPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path().display())
    }
}

fn normal(text: &str) -> Result<PathBuf, MountPointError> {
    if !text.starts_with('/') {
        return Err(MountPointError::NotAbsolute(text.to_owned()));
    }
    if text.len() > 4095 {
        return Err(MountPointError::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(MountPointError::ControlCharacter(text.to_owned()));
    }
    let path = Path::new(text);
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(MountPointError::ParentComponent(text.to_owned()));
    }
    match path.iter().map(OsStr::len).max() {
        Some(longest) if longest > 255 => Err(MountPointError::NameTooLong(longest)),
        _ => Ok(path.components().collect()),
    }
}
