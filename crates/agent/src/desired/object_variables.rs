//! The `$VARIABLES` that a ClientMount defines for every type of device.

use std::collections::BTreeMap;

use api::{ClientMount, RabbitLabels, client_mount::ClientMountInfo, names::label};

/// Returns the variables from the object's labels and the mount's owner.
pub(super) fn table(
    client_mount: &ClientMount,
    info: &ClientMountInfo,
) -> BTreeMap<String, String> {
    let from_labels = [
        ("$JOBID", label::JOB_ID),
        ("$WORKFLOW_UID", label::WORKFLOW_UID),
        ("$DIRECTIVE_INDEX", label::DIRECTIVE_INDEX),
        // If the object has this label too, its value replaces that of the label above. The value is the index of the
        // directive that created the storage; for persistent storage, which many jobs mount, this index differs from
        // the index of the job's own directive.
        ("$DIRECTIVE_INDEX", label::TARGET_DIRECTIVE_INDEX),
    ];
    let mut table = BTreeMap::new();
    for (name, key) in from_labels {
        if let Some(value) = client_mount.label(key) {
            table.insert(name.to_owned(), value.to_owned());
        }
    }
    table.insert("$USERID".to_owned(), info.user_id.unwrap_or(0).to_string());
    table.insert("$GROUPID".to_owned(), info.group_id.unwrap_or(0).to_string());
    table
}
