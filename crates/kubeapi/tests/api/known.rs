//! Where the embedded server answers otherwise than the real one recorded in `recorded/`, on purpose: no client asks that. A
//! request that answers alike again must be taken off, or its test fails.

/// Transcript, numbers of its exchanges, and what differs.
const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    ("forms", &[6, 9], "metadata of a list and of an object are one form"),
    ("merge-patch", &[21], "a patch that changes the apiVersion is refused as a patch"),
    (
        "namespaces",
        &[6, 7, 8, 9, 10, 14],
        "one revision more: a patch that changes nothing changes who manages the field, of which the embedded server keeps no account",
    ),
    ("paths", &[26], "an object cannot be made with its name in the path"),
];

/// Whether an answer of the embedded server is known to differ.
pub(crate) fn differs(transcript: &str, exchange: usize) -> bool {
    DIFFERENCES
        .iter()
        .any(|(name, exchanges, _)| *name == transcript && exchanges.contains(&exchange))
}
