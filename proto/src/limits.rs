//! Largest sizes of messages and their fields, in bytes. Both ends keep to these limits: an agent shortens its texts
//! before it sends them, and the coordinator refuses larger fields.

pub use causes::shortened;
use thiserror::Error;

use crate::v1::{Health, Hello, MountReport};

/// Longest name of a node (RFC 1123) or an API object.
pub const NAME: usize = 253;
/// Longest identifier: a uid, a resourceVersion, a boot ID, a version of Warren.
pub const TOKEN: usize = 128;
/// Longest text for users: a node's health, a reason.
pub const TEXT: usize = causes::MESSAGE;
/// Longest text of an error in a ClientMount's status.
pub const ERROR_TEXT: usize = 16 << 10;
/// Longest status of one ClientMount, as JSON. A status with 20,000 mounts needs 800 KiB, and no object may have that
/// many mounts.
pub const STATUS: usize = 1 << 20;
/// Largest message from a node: a report with a status of the largest size, and its names.
pub const FROM_NODE: usize = STATUS + (8 << 10);
/// Largest answer about the whole machine: gRPC clients accept 4 MiB by default.
pub const ANSWER: usize = (4 << 20) - (64 << 10);

/// A field that exceeds its limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{field} has {bytes} bytes, and {limit} are allowed: install the coordinator's version of Warren on this node"
)]
pub struct TooLong {
    /// The field's name in the protocol.
    pub field: &'static str,
    /// Size of the field in bytes.
    pub bytes: usize,
    /// Limit of the field in bytes.
    pub limit: usize,
}

/// Checks the sizes of a node's hello.
///
/// # Errors
/// Names the first field that is too long.
pub fn check_hello(hello: &Hello) -> Result<(), TooLong> {
    // Destructured, so that the compiler reports a new field here.
    let Hello {
        node,
        role: _,
        boot_id,
        started_at: _,
        booted_at: _,
        version,
        alive_every: _,
        resident: _,
    } = hello;
    fits("hello.node", node.len(), NAME)?;
    fits("hello.boot_id", boot_id.len(), TOKEN)?;
    fits("hello.version", version.len(), TOKEN)
}

/// Checks the sizes of a report on a ClientMount.
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

/// Most findings of worsening drives and links that are kept of one rabbit: the first ones are the worst.
const WORSENING: usize = 8;

/// Shortens the texts of a node's health to their limits.
#[must_use]
pub fn bounded(health: Health) -> Health {
    let Health { state, message, capacity_total, capacity_allocated, worsening } = health;
    let message = shortened(message, TEXT);
    let worsening =
        worsening.into_iter().take(WORSENING).map(|text| shortened(text, TEXT)).collect();
    Health { state, message, capacity_total, capacity_allocated, worsening }
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
