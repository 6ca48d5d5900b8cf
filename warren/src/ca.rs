//! A site's own authority: names of hosts, certificates, and which of them to renew. It reads and writes no file.

pub(crate) mod authority;
pub(crate) mod names;
pub(crate) mod renewal;

pub(crate) use self::{
    authority::{Authority, AuthorityError, Certified, Validity, day},
    names::{HostNames, named_hosts},
    renewal::{Renewal, classify},
};

/// Name of the authority's files; no host can have it.
pub(crate) const AUTHORITY: &str = "ca";
