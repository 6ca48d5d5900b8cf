//! Makes the directory into which a copy by `dcp` is written. The containers of the copy's launcher run it as the job's
//! user before `dcp`, so that the image needs no other program.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use movement::layout::{Kind, LayoutError, layout};
use thiserror::Error;

/// Why a copy's directory cannot be made.
#[derive(Debug, Error)]
pub(crate) enum DirectoryError {
    #[error("{path:?} is not UTF-8: rename it")]
    Name { path: PathBuf },
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("copy {} to {}", from.display(), to.display())]
    Layout {
        from: PathBuf,
        to: PathBuf,
        #[source]
        source: LayoutError,
    },
    #[error("make the directory {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Makes the directory that must exist before a copy from `from` to `to`, with its parents.
///
/// # Errors
/// The source is missing, source and destination do not fit, or the user may not make the directory.
pub(crate) fn make_directory(from: &Path, to: &Path) -> Result<(), DirectoryError> {
    let places = ((text(from)?, kind(from)?), (text(to)?, kind(to)?));
    let planned = layout(places.0, places.1, None).map_err(|source| DirectoryError::Layout {
        from: from.to_owned(),
        to: to.to_owned(),
        source,
    })?;
    let path = Path::new("/").join(planned.directory);
    fs::create_dir_all(&path).map_err(|source| DirectoryError::Make { path, source })
}

fn text(path: &Path) -> Result<&str, DirectoryError> {
    path.to_str().ok_or_else(|| DirectoryError::Name { path: path.to_owned() })
}

/// Returns the type of the entry at a path. Follows symbolic links, as `dcp` does with its arguments.
fn kind(path: &Path) -> Result<Kind, DirectoryError> {
    // Without the trailing slash: with one, the kernel answers ENOTDIR for a file.
    let entry: PathBuf = path.components().collect();
    match fs::metadata(&entry) {
        Ok(found) if found.is_dir() => Ok(Kind::Directory),
        Ok(_) => Ok(Kind::File),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::Absent),
        Err(source) => Err(DirectoryError::Read { path: entry, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_directory_makes_what_dcp_needs_for_its_source() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir(at("in")).unwrap();
        fs::write(at("in/a"), "").unwrap();
        for (from, to, made) in [
            ("in", "1/out", "1/out"),
            ("in/", "2/out", "2/out"),
            ("in/a", "3/out", "3"),
            ("in/a", "4/out/", "4/out"),
        ] {
            make_directory(&at(from), &at(to)).unwrap();
            let is_last = fs::read_dir(at(made)).unwrap().next().is_none();
            assert!(is_last, "{from} to {to} makes only {made}");
        }
        let error =
            |from: &str, to: &str| causes::chain(&make_directory(&at(from), &at(to)).unwrap_err());
        let missing = error("none", "5/out");
        assert!(missing.contains("none") && missing.contains("does not exist"), "{missing}");
        assert!(error("in/a/", "5/out").contains("is a file, and its path ends with /"));
        assert!(error("in", "in/a").contains("the destination is a file"));
        assert!(error("in", "in/a/out").contains("read "), "{}", error("in", "in/a/out"));
        assert!(!at("5").exists());
    }
}
