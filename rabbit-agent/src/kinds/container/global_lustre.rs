//! Checks the mount points of global Lustre file systems. The site mounts these file systems; the agent only
//! passes them to containers.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use storage::desired::AllowedRoots;

use super::host::HostError;

/// File system type in the mount table.
const LUSTRE: &str = "lustre";

/// Returns whether an object may name this path: it must be absolute and normalised, and neither within nor above a
/// directory for jobs' storage.
pub(super) fn is_allowed_path(path: &str, roots: &AllowedRoots) -> bool {
    let mount_point = Path::new(path);
    let mut parts = mount_point.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let clean: PathBuf = mount_point.components().collect();
    is_absolute
        && parts.clone().next().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && clean.as_os_str() == mount_point.as_os_str()
        && !path.contains([':', '\0'])
        && !roots.iter().any(|root| mount_point.starts_with(root) || root.starts_with(mount_point))
}

/// Checks that exactly at each of these paths a Lustre file system is mounted. `kind_at` returns the type of the file
/// system that is mounted at a path.
///
/// # Errors
/// The first path without a Lustre mount.
pub(super) fn check(
    places: &[String],
    kind_at: impl Fn(&Path) -> io::Result<Option<String>>,
) -> Result<(), HostError> {
    for place in places {
        let path = PathBuf::from(place);
        match kind_at(&path) {
            Ok(Some(kind)) if kind == LUSTRE => {}
            Ok(found) => return Err(HostError::NoLustre { path, found }),
            Err(source) => return Err(HostError::File { path, source }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> AllowedRoots {
        AllowedRoots::new(["/mnt/nnf".into()]).unwrap()
    }

    #[test]
    fn a_path_must_be_normalised_and_apart_from_the_roots() {
        for good in ["/lus/polly", "/lus", "/mnt/lus"] {
            assert!(is_allowed_path(good, &roots()), "{good}");
        }
        for bad in [
            "",
            "/",
            "lus",
            "./lus",
            "/lus/",
            "//lus",
            "/lus/./a",
            "/lus/../etc",
            "/lus:/etc",
            "/mnt",
            "/mnt/nnf",
            "/mnt/nnf/3f6c2d1e-0",
        ] {
            assert!(!is_allowed_path(bad, &roots()), "{bad}");
        }
    }

    #[test]
    fn check_accepts_only_a_lustre_mounted_at_exactly_the_path() {
        let table = |path: &Path| {
            let kind = match path.to_str() {
                Some("/lus/polly" | "/lus/zenith") => Some("lustre"),
                Some("/home") => Some("nfs4"),
                Some("/lus/away") => return Err(io::Error::other("no table")),
                _ => None,
            };
            Ok(kind.map(str::to_owned))
        };
        let check_paths = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
            check(&places, table).map_err(|error| daemon::chain(&error))
        };
        assert_eq!(check_paths(&["/lus/polly", "/lus/zenith"]), Ok(()));
        for (place, part) in [
            ("/lus/polly/a", "there is no mount"),
            ("/home", "there is a mount of nfs4"),
            ("/lus/away", "no table"),
        ] {
            let error = check_paths(&["/lus/polly", place]).unwrap_err();
            assert!(error.contains(part) && error.contains(place), "{error}");
        }
    }
}
