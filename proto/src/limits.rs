//! How large what is said may be, in bytes. Both ends keep to it: an agent shortens what people read before it sends it, and
//! the coordinator takes nothing larger from anybody.

pub use causes::shortened;
use thiserror::Error;

use crate::v1::{Health, Hello, MountReport};

/// A name: of a node (RFC 1123) or of an API object.
pub const NAME: usize = 253;
/// What tells one of its kind from another: a uid, a resourceVersion, a boot, a version of Warren.
pub const TOKEN: usize = 128;
/// A text for people: a node's health, a reason.
pub const TEXT: usize = causes::MESSAGE;
/// The texts of an error in a ClientMount's status.
pub const ERROR_TEXT: usize = 16 << 10;
/// The status of one ClientMount, JSON: 20,000 mounts, which is more than an object may have, make 800 KiB.
pub const STATUS: usize = 1 << 20;
/// A whole message of a node: a report with its names.
pub const FROM_NODE: usize = STATUS + (8 << 10);
/// A whole answer about the machine: what a gRPC client accepts unless it is told otherwise is 4 MiB.
pub const ANSWER: usize = (4 << 20) - (64 << 10);

/// A field that is larger than it may be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{field} has {bytes} bytes, and {limit} are allowed: this is no agent of this version of Warren"
)]
pub struct TooLong {
    /// Which, as the protocol names it.
    pub field: &'static str,
    /// How long it is.
    pub bytes: usize,
    /// How long it may be.
    pub limit: usize,
}

/// Checks what a node says first.
///
/// # Errors
/// Names the first field that is too long.
pub fn check_hello(hello: &Hello) -> Result<(), TooLong> {
    // Taken apart, so that a field that is added is not forgotten here.
    let Hello { node, role: _, boot_id, started_at: _, booted_at: _, version } = hello;
    fits("hello.node", node.len(), NAME)?;
    fits("hello.boot_id", boot_id.len(), TOKEN)?;
    fits("hello.version", version.len(), TOKEN)
}

/// Checks what became of one ClientMount.
///
/// # Errors
/// Names the first field that is too long.
pub fn check_report(report: &MountReport) -> Result<(), TooLong> {
    let MountReport { namespace, name, uid, observed_resource_version, status, released: _ } =
        report;
    fits("report.namespace", namespace.len(), NAME)?;
    fits("report.name", name.len(), NAME)?;
    fits("report.uid", uid.len(), TOKEN)?;
    fits("report.observed_resource_version", observed_resource_version.len(), TOKEN)?;
    fits("report.status", status.len(), STATUS)
}

/// A node's health with a text that fits.
#[must_use]
pub fn bounded(health: Health) -> Health {
    let Health { state, message, capacity_total, capacity_allocated } = health;
    Health { state, message: shortened(message, TEXT), capacity_total, capacity_allocated }
}

fn fits(field: &'static str, bytes: usize, limit: usize) -> Result<(), TooLong> {
    if bytes > limit { Err(TooLong { field, bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{FromNode, from_node};

    fn long(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[test]
    fn every_field_of_variable_length_is_bounded() {
        let hellos = [
            ("hello.node", Hello { node: long(100_000), ..Hello::default() }),
            ("hello.boot_id", Hello { boot_id: long(TOKEN + 1), ..Hello::default() }),
            ("hello.version", Hello { version: long(TOKEN + 1), ..Hello::default() }),
        ];
        let status = vec![b' '; STATUS + 1];
        let version = long(TOKEN + 1);
        let reports = [
            (
                "report.namespace",
                MountReport { namespace: long(NAME + 1), ..MountReport::default() },
            ),
            ("report.name", MountReport { name: long(NAME + 1), ..MountReport::default() }),
            ("report.uid", MountReport { uid: long(TOKEN + 1), ..MountReport::default() }),
            (
                "report.observed_resource_version",
                MountReport { observed_resource_version: version, ..MountReport::default() },
            ),
            ("report.status", MountReport { status, ..MountReport::default() }),
        ];
        let hellos = hellos.map(|(field, hello)| (field, check_hello(&hello)));
        let reports = reports.map(|(field, report)| (field, check_report(&report)));
        for (field, checked) in hellos.into_iter().chain(reports) {
            let error = checked.unwrap_err();
            assert_eq!(error.field, field);
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }

    #[test]
    fn the_longest_report_fits_into_a_message() {
        let longest = MountReport {
            namespace: long(NAME),
            name: long(NAME),
            uid: long(TOKEN),
            observed_resource_version: long(TOKEN),
            status: vec![b' '; STATUS],
            released: true,
        };
        assert_eq!(check_report(&longest), Ok(()));
        let message = FromNode { message: Some(from_node::Message::Report(longest)) };
        assert!(prost::Message::encoded_len(&message) <= FROM_NODE);
    }
}
