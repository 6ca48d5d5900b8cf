//! The Leases of coordinators, and the check of a claim before the engine acts on a run ([`containers::claim`]).

mod lease;

use std::collections::BTreeMap;

use api::ContainerRun;
use containers::claim::{
    Holder,
    leases::{self, EXPIRES_AFTER},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use thiserror::Error;

pub use self::lease::{Claims, LeaseStates, SharedLease, renew_and_watch};
use crate::change::ClaimRef;

/// The label of coordinators' Leases.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "warren");

/// The error of renewing or listing Leases.
#[derive(Debug, Error)]
pub enum ClaimError {
    #[error("renew Lease {name}")]
    Renew { name: String, source: Box<kube::Error> },
    #[error("list the Leases of coordinators")]
    List { source: Box<kube::Error> },
}

/// Asks the API whether it still has a claim.
pub(crate) async fn is_held(client: &Client, claim_ref: &ClaimRef) -> kube::Result<bool> {
    let runs: Api<ContainerRun> = Api::namespaced(client.clone(), &claim_ref.namespace);
    let run = runs.get_opt(&claim_ref.name).await?;
    let run = run.filter(|run| run.uid().as_ref() == Some(&claim_ref.uid));
    let claim = run.and_then(|run| run.status).map(|status| status.claim);
    Ok(claim.is_some_and(|claim| {
        (claim.holder, claim.epoch) == (claim_ref.holder.clone(), claim_ref.epoch)
    }))
}

/// Renews a coordinator's Lease, or creates it the first time.
///
/// # Errors
/// When the API refuses or does not answer: the Lease then counts as not renewed.
pub async fn renew(client: &Client, namespace: &str, me: &Holder) -> Result<(), ClaimError> {
    let (leases, name): (Api<Lease>, _) =
        (Api::namespaced(client.clone(), namespace), leases::name(me));
    let now = MicroTime(Timestamp::now());
    let renewed = Patch::Merge(json!({"spec": {"renewTime": now}}));
    let answer = match leases.patch(&name, &PatchParams::default(), &renewed).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            leases.create(&PostParams::default(), &new_lease(&name, me, now)).await
        }
        answer => answer,
    };
    answer.map(drop).map_err(|source| ClaimError::Renew { name, source: Box::new(source) })
}

fn new_lease(name: &str, me: &Holder, now: MicroTime) -> Lease {
    let labels = BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())]);
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let spec = LeaseSpec {
        holder_identity: Some(me.to_string()),
        lease_duration_seconds: i32::try_from(EXPIRES_AFTER.as_secs()).ok(),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        ..LeaseSpec::default()
    };
    Lease { metadata, spec: Some(spec) }
}

/// Returns the resource version of each coordinator's Lease, by holder. A holder lives while its version changes.
///
/// # Errors
/// When the API refuses or does not answer.
pub async fn leases(
    client: &Client,
    namespace: &str,
) -> Result<BTreeMap<String, String>, ClaimError> {
    let all: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
    let listed = all.list(&ours).await;
    let listed = listed.map_err(|source| ClaimError::List { source: Box::new(source) })?;
    let version = |lease: Lease| {
        let holder = lease.spec.as_ref()?.holder_identity.clone()?;
        Some((holder, lease.resource_version()?))
    };
    Ok(listed.items.into_iter().filter_map(version).collect())
}
