//! Lustre file systems of the site's own, which containers see where their rabbit has them mounted. This agent mounts none of them.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use storage::desired::AllowedRoots;

use super::host::HostError;

/// What the type of such a mount is in the mount table.
const LUSTRE: &str = "lustre";

/// Whether an object may name this place: what is mounted for jobs is neither there, nor beneath, nor above.
pub(super) fn is_place(path: &str, roots: &AllowedRoots) -> bool {
    let place = Path::new(path);
    let mut parts = place.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let clean: PathBuf = place.components().collect();
    is_absolute
        && parts.clone().next().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && clean.as_os_str() == place.as_os_str()
        && !path.contains([':', '\0'])
        && !roots.iter().any(|root| place.starts_with(root) || root.starts_with(place))
}

/// Checks that a Lustre is mounted at exactly each of these places. `kind_at` is the type of what is mounted there.
///
/// # Errors
/// With the place where there is none.
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
    fn no_place_has_anything_of_jobs_or_another_spelling() {
        for good in ["/lus/polly", "/lus", "/mnt/lus"] {
            assert!(is_place(good, &roots()), "{good}");
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
            assert!(!is_place(bad, &roots()), "{bad}");
        }
    }

    #[test]
    fn only_a_lustre_at_exactly_this_place_will_do() {
        let table = |path: &Path| {
            let kind = match path.to_str() {
                Some("/lus/polly" | "/lus/zenith") => Some("lustre"),
                Some("/home") => Some("nfs4"),
                Some("/lus/away") => return Err(io::Error::other("no table")),
                _ => None,
            };
            Ok(kind.map(str::to_owned))
        };
        let told = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
            check(&places, table).map_err(|error| daemon::chain(&error))
        };
        assert_eq!(told(&["/lus/polly", "/lus/zenith"]), Ok(()));
        for (place, part) in [
            ("/lus/polly/a", "there is no mount"),
            ("/home", "there is a mount of nfs4"),
            ("/lus/away", "no table"),
        ] {
            let error = told(&["/lus/polly", place]).unwrap_err();
            assert!(error.contains(part) && error.contains(place), "{error}");
        }
    }
}
