//! Carries out what is planned for a run that coordinators claim ([`containers::claim`]): writes, Leases, and reads of this moment.
//!
//! The engine plans its writes with all else of a workflow; here is what it asks the API before it acts.

mod lease;

use std::collections::BTreeMap;

use api::ContainerRun;
use containers::claim::{
    Holder,
    leases::{self, EXPIRES_AFTER},
    plan::{Step, View, plan},
};
use controller::patch::{self, WriteError};
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

pub use self::lease::{Claims, Seen, SharedLease, keep};
use crate::change::Hold;

/// The label of coordinators' Leases.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "warren");

/// Why a step was not done.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// Another coordinator wrote the run, or the API says that this one may not. What the API has now is planned anew.
    #[error("the claim of a run is lost")]
    Lost(#[source] WriteError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("read ContainerRun {name}")]
    Read { name: String, source: Box<kube::Error> },
    #[error("renew Lease {name}")]
    Renew { name: String, source: Box<kube::Error> },
    #[error("list the Leases of coordinators")]
    List { source: Box<kube::Error> },
}

/// What became of a step.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// The run as the API stored it.
    Stored(Box<ContainerRun>),
    /// What to do on the rabbits. It was planned from what the API has.
    Act(Step),
    /// The run is not what it was read as.
    Moved,
}

/// Plans the next step for a run, and does it if it is a write.
///
/// # Errors
/// [`ClaimError`] when the API refused the write, or did not answer.
pub async fn next(
    client: &Client,
    run: &ContainerRun,
    view: &View<'_>,
) -> Result<Next, ClaimError> {
    match plan(run, view) {
        Step::Write(status) => {
            let mut after = run.clone();
            after.status = Some(status);
            let stored = patch::status(client, run, &after).await.map_err(explain)?;
            Ok(Next::Stored(Box::new(stored.unwrap_or(after))))
        }
        step if step.is_destructive() => {
            let now = read(client, run).await?;
            let is_still =
                now.is_some_and(|now| now.uid() == run.uid() && plan(&now, view) == step);
            Ok(if is_still { Next::Act(step) } else { Next::Moved })
        }
        step => Ok(Next::Act(step)),
    }
}

/// What the API has of a run, read from a quorum.
async fn read(client: &Client, run: &ContainerRun) -> Result<Option<ContainerRun>, ClaimError> {
    let name = run.name_any();
    let runs: Api<ContainerRun> =
        Api::namespaced(client.clone(), &run.namespace().unwrap_or_default());
    let read = runs.get_opt(&name).await;
    read.map_err(|source| ClaimError::Read { name, source: Box::new(source) })
}

/// Whether the API, asked now, has the claim by which something is to be changed.
pub(crate) async fn is_held(client: &Client, hold: &Hold) -> kube::Result<bool> {
    let runs: Api<ContainerRun> = Api::namespaced(client.clone(), &hold.namespace);
    let run = runs.get_opt(&hold.name).await?;
    let run = run.filter(|run| run.uid().as_ref() == Some(&hold.uid));
    let claim = run.and_then(|run| run.status).map(|status| status.claim);
    Ok(claim.is_some_and(|claim| (claim.holder, claim.epoch) == (hold.holder.clone(), hold.epoch)))
}

/// 409 is said to an old version, 422 to a write that the rules of a claim refuse.
fn explain(error: WriteError) -> ClaimError {
    let is_lost = match &error {
        WriteError::Conflict { .. } => true,
        WriteError::Api { source, .. } => {
            matches!(&**source, kube::Error::Api(status) if status.code == 422)
        }
        WriteError::Unknown { .. } | WriteError::Look { .. } => false,
    };
    if is_lost { ClaimError::Lost(error) } else { ClaimError::Write(error) }
}

/// Renews a coordinator's Lease; the first time it makes it.
///
/// # Errors
/// When the API refused or did not answer: the Lease then counts as not renewed.
pub async fn renew(client: &Client, namespace: &str, me: &Holder) -> Result<(), ClaimError> {
    let (leases, name): (Api<Lease>, _) =
        (Api::namespaced(client.clone(), namespace), leases::name(me));
    let now = MicroTime(Timestamp::now());
    let renewed = Patch::Merge(json!({"spec": {"renewTime": now}}));
    let answer = match leases.patch(&name, &PatchParams::default(), &renewed).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            leases.create(&PostParams::default(), &first(&name, me, now)).await
        }
        answer => answer,
    };
    answer.map(drop).map_err(|source| ClaimError::Renew { name, source: Box::new(source) })
}

fn first(name: &str, me: &Holder, now: MicroTime) -> Lease {
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

/// The version of each coordinator's Lease, by holder: that it changes is all that counts.
///
/// # Errors
/// When the API refused or did not answer.
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
