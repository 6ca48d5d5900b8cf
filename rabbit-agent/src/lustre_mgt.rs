//! Tells that a NnfLustreMGT is not served here.
//!
//! Its claims could be counted without Lustre, but a name that is given out must one day be erased from the management
//! target, and a command must be run on it, both with Lustre's own tools. Half of that would leave names behind that nobody
//! erases. So nothing is given out, no finalizer is put on, and one that nnf-node-manager put on is not taken off: it stands
//! for names that are still to be erased.

use api::{NnfLustreMgt, NnfLustreMgtStatus, ResourceError};
use clientmount_agent::error::Failure;

use crate::{
    pass::{Context, Pass},
    write::WriteError,
};

/// Says in the status that nobody works on the object.
///
/// # Errors
/// When it could not be written.
pub async fn reconcile(
    context: &Context,
    object: &NnfLustreMgt,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    pass.refuse(context, object, &failure(), refused).await
}

fn failure() -> Failure {
    let mut failure = Failure::input(
        "this rabbit's agent serves no Lustre management target: use a rabbit on which nnf-node-manager runs, or an external one"
            .to_owned(),
    );
    failure.error_type = api::ErrorType::Internal;
    failure
}

fn refused(object: &NnfLustreMgt, error: ResourceError) -> NnfLustreMgtStatus {
    NnfLustreMgtStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_were_given_out_stay() {
        let object: NnfLustreMgt = serde_json::from_value(json!({
            "metadata": {"name": "mgt"}, "spec": {"addresses": ["10.0.0.1@tcp"]},
            "status": {"fsNameNext": "aaaaaaab", "claimList": [{"fsname": "aaaaaaaa"}]}
        }))
        .unwrap();
        let error = failure().to_resource_error("rabbit-1", "");
        let status = refused(&object, error);
        assert_eq!((&*status.fs_name_next, status.claim_list.len()), ("aaaaaaab", 1));
        let told = status.error.unwrap();
        assert_eq!(told.severity, api::Severity::Fatal);
        assert!(told.user_message.unwrap().contains("nnf-node-manager"));
    }
}
