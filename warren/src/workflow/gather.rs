//! Gathers a workflow and all objects, of any kind, that carry its labels.

use api::names::{DWS_GROUP, NNF_GROUP};
use kube::Client;
use workload::Objects;

use crate::failure::{self, Failure};
use crate::kinds::Kinds;

/// Lists the objects of a workflow, of all DWS and NNF kinds that the API serves.
///
/// # Errors
/// If the API does not answer.
pub(crate) async fn gather(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Objects, Failure> {
    let kinds = Kinds::discover(client).await?;
    let kinds: Vec<_> =
        kinds.in_groups(&[DWS_GROUP, NNF_GROUP]).map(|kind| kind.resource.clone()).collect();
    workload::gather(client, &kinds, namespace, name)
        .await
        .map_err(|refused| failure::from_refused(&refused))
}
