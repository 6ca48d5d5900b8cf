//! The intended differences between the embedded server and the real one recorded in `recorded/`: requests that no
//! client sends. An entry whose answers agree again must be removed, or its test fails.

/// Transcript, numbers of its exchanges, and the difference.
const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    (
        "create",
        &[9],
        "a kind that lies in namespaces is made in none: 405, not a page that is not there",
    ),
    ("delete", &[26], "orphanDependents in the query, which Kubernetes has given up"),
    (
        "delete-collection",
        &[17],
        "in no namespace nothing is deleted: 405, not a page that is not there",
    ),
    ("discovery", &[4], "a document that is not there has a body"),
    ("forms", &[6, 9], "metadata of a list and of an object are one form"),
    ("leases", &[9], "fields of a feature that is off by default are kept"),
    ("leases", &[15], "a lease that nobody holds shows no holder instead of an empty one"),
    ("list", &[19, 20, 21], "sendInitialEvents is an option of watches, and ignored in a list"),
    (
        "list",
        &[39, 54],
        "conditions with < and >, and backslashes in conditions on fields, are refused",
    ),
    ("merge-patch", &[14], "another uid is a conflict in a patch too"),
    ("merge-patch", &[21], "a patch that changes the apiVersion is refused as a patch"),
    ("merge-patch", &[35], "force is an option of server-side apply, and ignored otherwise"),
    ("namespaces", &[3, 5], "spec.finalizers of a namespace is the server's"),
    (
        "namespaces",
        &[6, 7, 8, 9, 10, 14],
        "one revision more: a patch that changes nothing changes who manages the field, of which the embedded server keeps no account",
    ),
    ("paths", &[4], "a version that is not there is a page that is not there"),
    ("watch-beginnings", &[18], "continue is an option of lists, and ignored in a watch"),
    ("watch-beginnings", &[20], "a bookmark has no row, also among tables"),
    ("paths", &[26], "an object cannot be made with its name in the path"),
];

/// Returns whether an answer of the embedded server is an intended difference.
pub(crate) fn differs(transcript: &str, exchange: usize) -> bool {
    DIFFERENCES
        .iter()
        .any(|(name, exchanges, _)| *name == transcript && exchanges.contains(&exchange))
}
