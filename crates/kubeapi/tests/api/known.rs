//! The intended differences between the answers of the embedded server ("here" in the texts below) and the answers of
//! the real server ("there"), which are in `recorded/`. No client of Warren sends the requests that get these answers.
//! If the two answers of an entry become equal, a test fails; the entry has to be removed then.

/// Each entry: the transcript, the numbers of its exchanges, and the difference.
const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    (
        "create",
        &[9],
        "an object of a namespaced kind is created outside a namespace: 405 here, 404 there",
    ),
    ("delete", &[26], "the deprecated query option orphanDependents is ignored here"),
    (
        "delete-collection",
        &[17],
        "a collection is deleted outside a namespace: 405 here, 404 there",
    ),
    ("discovery", &[4], "the 404 for an unknown document has a body here"),
    (
        "forms",
        &[6, 9],
        "PartialObjectMetadata and PartialObjectMetadataList are the same form here",
    ),
    ("leases", &[9], "fields of a feature that is off by default are stored here"),
    (
        "leases",
        &[15],
        "the holder's cell of a lease without a holder has no value here, an empty text there",
    ),
    ("list", &[19, 20, 21], "sendInitialEvents is an option of watches: a list ignores it here"),
    (
        "list",
        &[39, 54],
        "label selectors with < and >, and field selectors with backslashes, are refused here",
    ),
    ("merge-patch", &[14], "a patch with another uid is a conflict here"),
    (
        "merge-patch",
        &[21],
        "the refusal of a patch that changes apiVersion names the patch here, the field there",
    ),
    ("merge-patch", &[35], "force is an option of server-side apply: other patches ignore it here"),
    ("namespaces", &[3, 5], "only the server sets spec.finalizers of a namespace here"),
    (
        "namespaces",
        &[6, 7, 8, 9, 10, 14],
        "one revision more there: a patch that changes no value changes the manager of a field, which is not recorded here",
    ),
    ("paths", &[4], "the 404 for an unknown version is plain text here"),
    ("watch-beginnings", &[18], "continue is an option of lists: a watch ignores it here"),
    ("watch-beginnings", &[20], "a bookmark has no row here, even between tables"),
    ("paths", &[26], "a POST to the path of an object is not allowed here"),
];

/// Returns whether an answer of the embedded server is an intended difference.
pub(crate) fn differs(transcript: &str, exchange: usize) -> bool {
    DIFFERENCES
        .iter()
        .any(|(name, exchanges, _)| *name == transcript && exchanges.contains(&exchange))
}
