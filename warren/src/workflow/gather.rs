//! Everything of one workflow: itself, and whatever object of whatever kind carries its labels.

use api::names::{DWS_GROUP, NNF_GROUP};
use kube::Client;
use workload::Objects;

use crate::failure::{self, Failure};
use crate::kinds::Kinds;

/// Lists them all, of whatever kinds the API serves.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn gather(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Objects, Failure> {
    let kinds = Kinds::discover(client).await?;
    let kinds: Vec<_> =
        kinds.of_groups(&[DWS_GROUP, NNF_GROUP]).map(|kind| kind.resource.clone()).collect();
    workload::gather(client, &kinds, namespace, name).await.map_err(|refused| failure::of(&refused))
}
