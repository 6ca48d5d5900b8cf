//! Packages: files that a run's containers find on each of its rabbits, checked once.

use std::path::{Component, Path, PathBuf};

use http::Uri;
use thiserror::Error;

use crate::names::is_label;

/// Where packages are in a container, by name.
pub const DIRECTORY: &str = "/nnf/packages";
/// How many times larger an archive may be once it is decompressed, when a profile says nothing.
const LARGER: u64 = 10;
/// And so many bytes more: tar fills archives up.
const FILLED: u64 = 1 << 20;

/// A package that can be had, as far as its words say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub source: Source,
    /// SHA-256, in lower-case hexadecimal digits.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// Bytes that it may have decompressed, where it is an archive to be unpacked.
    pub unpacked: Option<u64>,
}

/// Where a package is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// At a server: an address with http or https.
    Server(String),
    /// In a file system that the rabbit sees.
    File(PathBuf),
}

/// A field of a package that nobody can carry out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value:?}, {remedy}")]
pub struct PackageFault {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What may stand there.
    pub remedy: &'static str,
}

impl Package {
    /// Checks a package.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn of(told: &api::package::Package) -> Result<Self, PackageFault> {
        let fault =
            |field, value: &str, remedy| PackageFault { field, value: value.to_owned(), remedy };
        if !is_label(&told.name) {
            let remedy = "and must have a-z, 0-9 and - and at most 63 characters";
            return Err(fault("name", &told.name, remedy));
        }
        let source = Source::of(&told.url).map_err(|remedy| fault("url", &told.url, remedy))?;
        let is_digit = |one: char| one.is_ascii_digit() || ('a'..='f').contains(&one);
        if told.sha256.len() != 64 || !told.sha256.chars().all(is_digit) {
            let remedy = "and must be the 64 digits that sha256sum prints of the file";
            return Err(fault("sha256", &told.sha256, remedy));
        }
        let bytes = |field, number: i64| {
            let remedy = "and must be a number of bytes, 1 or more";
            let bytes = u64::try_from(number).ok().filter(|bytes| *bytes > 0);
            bytes.ok_or_else(|| fault(field, &number.to_string(), remedy))
        };
        let size = bytes("size", told.size)?;
        let limit = told.unpacked_size.map(|limit| bytes("unpackedSize", limit)).transpose()?;
        if let (false, Some(limit)) = (told.unpack, limit) {
            let remedy = "and is for archives only: set unpack to true, or leave it out";
            return Err(fault("unpackedSize", &limit.to_string(), remedy));
        }
        let unpacked = told
            .unpack
            .then(|| limit.unwrap_or(size.saturating_mul(LARGER).saturating_add(FILLED)));
        Ok(Self { name: told.name.clone(), source, sha256: told.sha256.clone(), size, unpacked })
    }
}

impl Source {
    /// Reads where a package is; what may stand there, where nobody can get it from.
    fn of(text: &str) -> Result<Self, &'static str> {
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
        let address = address.filter(|one| matches!(one.scheme_str(), Some("http" | "https")));
        match address.as_ref().and_then(Uri::authority) {
            None => Err(
                "and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees",
            ),
            Some(authority) if authority.as_str().contains('@') => {
                Err("and may have no user name or password: everybody may read a profile")
            }
            Some(_) => Ok(Self::Server(text.to_owned())),
        }
    }
}

fn is_plain(text: &str) -> bool {
    let path = Path::new(text);
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    // The components leave out what says nothing, such as a slash at the end.
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

    fn told() -> api::package::Package {
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
        let mut told = told();
        edit(&mut told);
        Package::of(&told).unwrap_err().to_string()
    }

    #[test]
    fn an_archive_may_be_ten_times_as_large_unpacked_unless_its_profile_says_otherwise() {
        assert_eq!(Package::of(&told()).unwrap().unpacked, Some(1000 + FILLED));
        let limited = api::package::Package { unpacked_size: Some(7), ..told() };
        assert_eq!(Package::of(&limited).unwrap().unpacked, Some(7));
        let file = api::package::Package { unpack: false, ..told() };
        assert_eq!(Package::of(&file).unwrap().unpacked, None);
    }

    #[test]
    fn a_field_that_nobody_can_carry_out_is_told_with_its_value() {
        assert!(fault(|told| told.name = "../x".to_owned()).starts_with(r#"name is "../x", "#));
        for digest in ["", "0", &"A".repeat(64), &"g".repeat(64)] {
            let text = fault(|told| told.sha256 = digest.to_owned());
            assert!(text.contains("sha256sum"), "{text}");
        }
        for size in [0, -1] {
            assert!(fault(|told| told.size = size).starts_with(&format!("size is \"{size}\"")));
        }
        assert!(fault(|told| told.unpacked_size = Some(0)).starts_with("unpackedSize is"));
        let text = fault(|told| (told.unpack, told.unpacked_size) = (false, Some(1)));
        assert!(text.contains("archives only"), "{text}");
    }

    #[test]
    fn a_package_is_at_a_server_or_a_plain_path() {
        let of = |text: &str| Source::of(text);
        assert_eq!(of("/lus/p/data.tar"), Ok(Source::File("/lus/p/data.tar".into())));
        assert!(matches!(of("http://10.0.0.1:8080/data"), Ok(Source::Server(_))));
        for bad in ["/", "/lus/", "/lus//p", "/lus/./p", "/lus/../etc/shadow", "/lus/p\0"] {
            assert!(of(bad).unwrap_err().contains("whole path"), "{bad}");
        }
        for bad in
            ["", "data.tar", "ftp://server/data", "file:///etc/shadow", "http:///data", "https:"]
        {
            assert!(of(bad).unwrap_err().contains("https://"), "{bad}");
        }
        assert!(of("https://user:secret@server/data").unwrap_err().contains("password"));
    }
}
