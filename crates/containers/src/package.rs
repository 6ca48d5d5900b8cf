//! Job packages: files that a run's containers find on each of the run's rabbits. Each rabbit checks
//! a job package once.

use std::path::{Component, Path, PathBuf};

use http::Uri;
use thiserror::Error;

use crate::names::is_label;

/// Directory of the job packages in a container.
pub const DIRECTORY: &str = "/nnf/packages";
/// Default limit of a decompressed archive's size, as a multiple of the archive's own size.
const DEFAULT_EXPANSION: u64 = 10;
/// Bytes that are added to the default limit, because tar pads archives.
const TAR_PADDING: u64 = 1 << 20;

/// A job package whose fields are valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobPackage {
    pub name: String,
    /// The source from which the file is fetched.
    pub source: Source,
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    pub sha256: String,
    /// Size of the file, in bytes.
    pub size: u64,
    /// Maximum bytes of the decompressed archive; `None` if the file is not unpacked.
    pub unpacked: Option<u64>,
}

/// The source from which a job package is fetched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The http or https address on a server.
    Server(String),
    /// The path of a file in a file system that the rabbit mounts.
    File(PathBuf),
}

/// An invalid field of a job package.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value:?}, {remedy}")]
pub struct JobPackageFault {
    pub field: &'static str,
    pub value: String,
    /// Text that says what the field must be.
    pub remedy: &'static str,
}

impl JobPackage {
    /// Checks the fields of a job package.
    ///
    /// # Errors
    /// An error for the first field that is invalid.
    pub fn parse(package: &api::package::Package) -> Result<Self, JobPackageFault> {
        let fault =
            |field, value: &str, remedy| JobPackageFault { field, value: value.to_owned(), remedy };
        if !is_label(&package.name) {
            let remedy = "and must have a-z, 0-9 and - and at most 63 characters";
            return Err(fault("name", &package.name, remedy));
        }
        let source =
            Source::parse(&package.url).map_err(|remedy| fault("url", &package.url, remedy))?;
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if package.sha256.len() != 64 || !package.sha256.chars().all(is_digit) {
            let remedy = "and must be the 64 digits that sha256sum prints of the file";
            return Err(fault("sha256", &package.sha256, remedy));
        }
        let bytes = |field, number: i64| {
            let remedy = "and must be a number of bytes, 1 or more";
            let bytes = u64::try_from(number).ok().filter(|bytes| *bytes > 0);
            bytes.ok_or_else(|| fault(field, &number.to_string(), remedy))
        };
        let size = bytes("size", package.size)?;
        let limit = package.unpacked_size.map(|limit| bytes("unpackedSize", limit)).transpose()?;
        if let (false, Some(limit)) = (package.unpack, limit) {
            let remedy = "and is for archives only: set unpack to true, or remove the field";
            return Err(fault("unpackedSize", &limit.to_string(), remedy));
        }
        let unpacked = package.unpack.then(|| {
            limit.unwrap_or(size.saturating_mul(DEFAULT_EXPANSION).saturating_add(TAR_PADDING))
        });
        Ok(Self {
            name: package.name.clone(),
            source,
            sha256: package.sha256.clone(),
            size,
            unpacked,
        })
    }
}

impl Source {
    /// Parses the source of a job package. The error says what the field must be.
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('/') {
            return if is_plain(text) {
                Ok(Self::File(text.into()))
            } else {
                Err(
                    "and must name a file by its whole path, without . and .. and without / at its end",
                )
            };
        }
        let address: Option<Uri> = text.parse().ok();
        let address = address.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        match address.as_ref().and_then(Uri::authority) {
            None => Err(
                "and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees",
            ),
            Some(authority) if authority.as_str().contains('@') => Err(
                "and must not have a user name or password, because every user may read a profile",
            ),
            Some(_) => Ok(Self::Server(text.to_owned())),
        }
    }
}

fn is_plain(text: &str) -> bool {
    let path = Path::new(text);
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    // `components` leaves out redundant parts of the path, such as a slash at the end.
    let again: PathBuf = path.components().collect();
    path.components().all(is_plain)
        && again.as_os_str() == text
        && text.len() > 1
        && !text.contains('\0')
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(address) => f.write_str(address),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> api::package::Package {
        api::package::Package {
            name: "data".to_owned(),
            url: "https://packages.example/data.tar.gz?version=2".to_owned(),
            sha256: "0123456789abcdef".repeat(4),
            size: 100,
            unpack: true,
            unpacked_size: None,
        }
    }

    fn fault(edit: impl FnOnce(&mut api::package::Package)) -> String {
        let mut package = package();
        edit(&mut package);
        JobPackage::parse(&package).unwrap_err().to_string()
    }

    #[test]
    fn an_archive_may_be_ten_times_as_large_unpacked_unless_its_profile_gives_a_limit() {
        assert_eq!(JobPackage::parse(&package()).unwrap().unpacked, Some(1000 + TAR_PADDING));
        let limited = api::package::Package { unpacked_size: Some(7), ..package() };
        assert_eq!(JobPackage::parse(&limited).unwrap().unpacked, Some(7));
        let file = api::package::Package { unpack: false, ..package() };
        assert_eq!(JobPackage::parse(&file).unwrap().unpacked, None);
    }

    #[test]
    fn an_invalid_field_is_reported_with_its_value() {
        assert!(
            fault(|package| package.name = "../x".to_owned()).starts_with(r#"name is "../x", "#)
        );
        for digest in ["", "0", &"A".repeat(64), &"g".repeat(64)] {
            let text = fault(|package| package.sha256 = digest.to_owned());
            assert!(text.contains("sha256sum"), "{text}");
        }
        for size in [0, -1] {
            assert!(
                fault(|package| package.size = size).starts_with(&format!("size is \"{size}\""))
            );
        }
        assert!(fault(|package| package.unpacked_size = Some(0)).starts_with("unpackedSize is"));
        let text = fault(|package| (package.unpack, package.unpacked_size) = (false, Some(1)));
        assert!(text.contains("archives only"), "{text}");
    }

    #[test]
    fn the_url_of_a_job_package_is_an_http_address_or_an_absolute_path() {
        assert_eq!(Source::parse("/lus/p/data.tar"), Ok(Source::File("/lus/p/data.tar".into())));
        assert!(matches!(Source::parse("http://10.0.0.1:8080/data"), Ok(Source::Server(_))));
        for bad in ["/", "/lus/", "/lus//p", "/lus/./p", "/lus/../etc/shadow", "/lus/p\0"] {
            assert!(Source::parse(bad).unwrap_err().contains("whole path"), "{bad}");
        }
        for bad in
            ["", "data.tar", "ftp://server/data", "file:///etc/shadow", "http:///data", "https:"]
        {
            assert!(Source::parse(bad).unwrap_err().contains("https://"), "{bad}");
        }
        assert!(Source::parse("https://user:secret@server/data").unwrap_err().contains("password"));
    }
}
