//! Which management target a file system has, its name there, and the site's commands on it.

use std::sync::Arc;

use api::{
    NnfLustreMgt, NnfLustreMgtSpec, NnfStorageProfile, RabbitLabels, ResourceError,
    nnf_lustre_mgt::{NnfLustreMgtSpecCommand, NnfLustreMgtStatusCommand},
};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{fs_name::given_name, pool};
use crate::{
    change::Change,
    fs_names::{first_name, taken_elsewhere},
    mgts::{EXTERNAL_NAMESPACE, normalized, place_of},
    names::{claim, of_storage},
    plan::{
        allocation::mgs_rabbit,
        setup::{Maker, of_node},
    },
    progress::{Progress, internal_error, transient_error, wlm_error},
    view::Group,
};

/// Before the name of a pool, where a profile would have addresses.
const POOL: &str = "pool:";

/// A file system's name, and where its clients and targets find the management server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// At most 8 characters.
    pub name: String,
    /// LNet addresses.
    pub address: String,
}

/// The name that the targets were made with.
#[must_use]
pub fn made_with(group: &Group) -> Option<Named> {
    let mut all = group.file_systems.values().map(|one| &one.spec.lustre_storage);
    let one = all.find(|one| !one.file_system_name.is_empty() && !one.mgs_address.is_empty())?;
    Some(Named { name: one.file_system_name.clone(), address: one.mgs_address.clone() })
}

/// Name and address, once a management target gave the name.
///
/// # Errors
/// How far that is.
pub fn named(maker: &Maker<'_>, profile: &NnfStorageProfile) -> Result<Named, Progress> {
    let mgt = match target(maker, profile) {
        Ok(Some(mgt)) => mgt,
        Ok(None) => return Err(own(maker)),
        Err(progress) => return Err(progress),
    };
    let name = given_name(maker, &mgt)?;
    let (node, mgt_name) = place_of(&mgt);
    let external = &profile.data().lustre_storage.mgt_options.external_mgs;
    let is_address = !external.is_empty() && !external.starts_with(POOL);
    let address = mgt.spec.addresses.first().filter(|_| !is_address).unwrap_or(external);
    let named = Named { name, address: normalized(address) };
    match made_with(maker.group()) {
        Some(earlier) if earlier.name != named.name => {
            Err(Progress::failed(internal_error(format!(
                "NnfLustreMGT {node}/{mgt_name} names the file system {}, and its targets were made as {}: tear the workflow down",
                named.name, earlier.name
            ))))
        }
        Some(earlier) => Ok(earlier),
        None => Ok(named),
    }
}

/// The management target to ask; none where the file system has one of its own, which does not exist yet.
fn target(
    maker: &Maker<'_>,
    profile: &NnfStorageProfile,
) -> Result<Option<Arc<NnfLustreMgt>>, Progress> {
    // One that was chosen stays, whatever the profile says or others do.
    if let Some(mgt) = maker.group().mgts.values().next() {
        return Ok(Some(mgt.clone()));
    }
    let external = &profile.data().lustre_storage.mgt_options.external_mgs;
    match external.strip_prefix(POOL) {
        Some(pool) => pool::member(maker, pool).map(Some),
        None if !external.is_empty() => {
            with_address(maker, external).map(Some).map_err(Progress::failed)
        }
        None => Ok(None),
    }
}

fn with_address(maker: &Maker<'_>, external: &str) -> Result<Arc<NnfLustreMgt>, ResourceError> {
    let mut found = maker.view.site.mgts.with_address(external);
    match (found.next(), found.next()) {
        (Some(mgt), None) => Ok(mgt.clone()),
        (None, _) => Err(transient_error(format!(
            "no NnfLustreMGT resource found for MGS address {external} (lustreStorage.mgtOptions.externalMgs of the profile): the administrator creates one in {EXTERNAL_NAMESPACE} with that address"
        ))),
        (Some(one), Some(other)) => Err(wlm_error(format!(
            "multiple MGTs found for address {external}: NnfLustreMGT {}/{} and {}/{}: the administrator leaves one of them",
            one.namespace().unwrap_or_default(),
            one.name_any(),
            other.namespace().unwrap_or_default(),
            other.name_any()
        ))),
    }
}

/// The file system's own target: the object first, which gives the name that a combined target is formatted with.
fn own(maker: &Maker<'_>) -> Progress {
    let Some(rabbit) = mgs_rabbit(maker.servers) else {
        return Progress::failed(wlm_error(
            "Servers names no rabbit for the management target: fill the set with label mgt or mgtmdt",
        ));
    };
    let at: ObjectKey = (rabbit.to_owned(), maker.servers.name_any());
    if maker.view.site.mgts.get(&at).is_some() {
        return Progress::wait(format!(
            "removal of NnfLustreMGT {rabbit}/{} of other storage",
            at.1
        ));
    }
    let status = maker.view.site.nodes.get(rabbit).and_then(|node| node.status.as_ref());
    let address = status.map(|status| normalized(&status.lnet_nid)).unwrap_or_default();
    if address.is_empty() {
        return Progress::failed(transient_error(format!(
            "{rabbit} has told no LNet address (NnfNode {rabbit}/nnf-nlc, status.lnetNid): load Lustre's modules there, or place the management target elsewhere"
        )));
    }
    let taken = taken_elsewhere(maker.view.site, &at);
    let object = NnfLustreMgt {
        metadata: ObjectMeta {
            name: Some(at.1),
            namespace: Some(at.0),
            labels: Some(of_storage(&maker.view.workflow, maker.index, maker.servers)),
            ..ObjectMeta::default()
        },
        spec: NnfLustreMgtSpec {
            addresses: vec![address],
            fs_name_start: first_name(&maker.servers.uid().unwrap_or_default(), &taken).to_string(),
            claim_list: vec![claim(maker.servers)],
            ..NnfLustreMgtSpec::default()
        },
        status: None,
    };
    Progress::default().with([Change::create(&object)])
}

/// The site's commands on the management target, once all targets serve. The site's own targets run none: nobody of ours is
/// on their hosts.
pub fn commands(maker: &Maker<'_>, profile: &NnfStorageProfile, named: &Named) -> Progress {
    let lines = &profile.data().lustre_storage.mgt_options.pre_mount_commands;
    let Some(mgt) = maker.group().mgts.values().next().filter(|_| !lines.is_empty()) else {
        return Progress::default();
    };
    let rabbit = mgt.namespace().unwrap_or_default();
    if rabbit == EXTERNAL_NAMESPACE {
        return Progress::default();
    }
    let claim = claim(maker.servers);
    let mut asked = mgt.spec.command_list.iter();
    if !asked.any(|entry| *entry.reference == claim) {
        let commands = lines.iter().map(|line| expanded(maker, named, line)).collect();
        let mut after = NnfLustreMgt::clone(mgt);
        after.spec.command_list.push(NnfLustreMgtSpecCommand { reference: claim.into(), commands });
        return Progress::default().with(Change::patch(&**mgt, &after));
    }
    let mut reported = mgt.status.iter().flat_map(|status| &status.command_list);
    match reported.find(|reported| *reported.reference == claim) {
        Some(reported) if reported.ready => Progress::default(),
        Some(NnfLustreMgtStatusCommand { error: Some(error), .. }) => {
            Progress::failed(of_node(&rabbit, error))
        }
        _ => Progress::wait(format!("the site's commands on the management target of {rabbit}")),
    }
}

/// Values hold nothing that a shell reads.
fn expanded(maker: &Maker<'_>, named: &Named, line: &str) -> String {
    let spec = &maker.view.workflow.spec;
    [
        ("$MGS_NID", named.address.clone()),
        ("$FS_NAME", named.name.clone()),
        ("$GROUPID", spec.group_id.to_string()),
        ("$USERID", spec.user_id.to_string()),
    ]
    .into_iter()
    .fold(line.to_owned(), |line, (name, value)| line.replace(name, &value))
}

/// Withdraws claim and commands; done when the target has erased the name.
pub fn released(group: &Group) -> Progress {
    let Some(servers) = &group.servers else { return Progress::default() };
    let claim = claim(servers);
    let mut progress = Progress::default();
    for ((node, name), mgt) in &group.mgts {
        let mut after = NnfLustreMgt::clone(mgt);
        after.spec.claim_list.retain(|other| *other != claim);
        after.spec.command_list.retain(|other| *other.reference != claim);
        let status = mgt.status.as_ref();
        let mut given = status.into_iter().flat_map(|status| &status.claim_list);
        let waits = given.any(|given| *given.reference == claim);
        let error = status.and_then(|status| status.error.as_ref());
        progress = progress.with(Change::patch(&**mgt, &after));
        if waits {
            progress = progress.and(match error {
                Some(error) => Progress::failed(of_node(node, error)),
                None => Progress::wait(format!(
                    "erasure of the file system's name on NnfLustreMGT {node}/{name}"
                )),
            });
        }
    }
    progress
}

/// Whether a management target is the storage's own.
#[must_use]
pub fn is_own(group: &Group, mgt: &NnfLustreMgt) -> bool {
    let is_owner = |uid: String| mgt.owner().is_some_and(|owner| owner.uid == uid);
    group.servers.as_ref().is_none_or(|servers| servers.uid().is_some_and(is_owner))
}
