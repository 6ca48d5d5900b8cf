//! Names and identities. This module checks each of them once; the other modules trust them.

use std::{fmt, str::FromStr};

use thiserror::Error;
use uuid::Uuid;

/// A text that is not a valid name or identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is not a DNS name of RFC 1123.
    #[error("{0:?} is not a host name: use letters, digits, '-' and '.', at most 253 characters")]
    NotHostName(String),
    #[error("{0:?} is not an NVMe qualified name: 1 to 256 printable ASCII characters")]
    NotNqn(String),
    #[error("{0:?} is not an NVMe namespace identifier: use a number from 1 to 4294967294")]
    NotNsid(String),
    #[error(
        "{0:?} is not a pool and a dataset: use letters, digits, '_', '-', '.' and ':', a letter first, no word of ZFS' own \
         at the beginning, at most 255 bytes"
    )]
    NotDataset(String),
    #[error("{0:?} is not an object's uid")]
    NotUid(String),
}

/// Name of a rabbit or compute, as in the SystemConfiguration: an RFC 1123 host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if hostname_validator::is_valid(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::NotHostName(text.to_owned()))
        }
    }
}

impl NodeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `metadata.uid` of a Kubernetes object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectUid(Uuid);

impl ObjectUid {
    /// Returns a UUID for the part of the object that is called `name`: the version 5 UUID (RFC 9562) of the object's
    /// uid and `name`.
    pub(super) fn name(self, name: &str) -> Uuid {
        Uuid::new_v5(&self.0, name.as_bytes())
    }
}

impl From<ObjectUid> for Uuid {
    fn from(uid: ObjectUid) -> Self {
        uid.0
    }
}

impl From<Uuid> for ObjectUid {
    fn from(uid: Uuid) -> Self {
        Self(uid)
    }
}

impl FromStr for ObjectUid {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Uuid::parse_str(text).map(Self).map_err(|_| NameError::NotUid(text.to_owned()))
    }
}

impl fmt::Display for ObjectUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// NVMe qualified name of a subsystem (NVM Express Base Specification 2.0, 4.7).
///
/// The specification limits a name to 223 bytes, but its field in Identify Controller (SUBNQN) has 256 bytes. Some
/// drives use all 256, and such names are accepted. For a drive without a name, Linux makes a name from the drive's
/// serial and model numbers (drivers/nvme/host/core.c, `nvme_init_subnqn`), with blanks in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn(String);

impl FromStr for Nqn {
    type Err = NameError;

    /// Parses a name without its padding: drives pad the field with NULs, and Linux pads the name with blanks.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let name = text.trim_matches(['\0', ' ']);
        let fits = (1..=256).contains(&name.len());
        if fits && name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            Ok(Self(name.to_owned()))
        } else {
            Err(NameError::NotNqn(text.to_owned()))
        }
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of an NVMe namespace: unlike a device name, it is the same on every host that reaches the namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId {
    pub subsystem: Nqn,
    /// Namespace identifier within the subsystem.
    pub nsid: u32,
}

impl NamespaceId {
    /// Parses the two texts that API objects contain.
    pub fn parse(nqn: &str, nsid: &str) -> Result<Self, NameError> {
        let subsystem = nqn.parse()?;
        match nsid.parse() {
            Ok(number) if (1..u32::MAX).contains(&number) => Ok(Self { subsystem, nsid: number }),
            _ => Err(NameError::NotNsid(nsid.to_owned())),
        }
    }
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.subsystem, self.nsid)
    }
}
