//! Chooses the management target of a file system, gets the file system's name from the target, and runs the profile's
//! commands on the target.

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
    names::{fs_name_holder, storage_labels, storage_uid},
    objects::{
        allocation::mgs_rabbit,
        fs_names::{first_name, taken_elsewhere},
        mgts::{EXTERNAL_NAMESPACE, mgt_key, normalize_nids},
        view::Group,
    },
    plan::storage::{StorageMaker, errors::name_node},
    progress::{Progress, internal_error, transient_error, wlm_error},
};

/// Prefix of the name of a pool in `externalMgs`, which otherwise has addresses.
const POOL: &str = "pool:";

/// Name and management server of a file system, by which clients and targets mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LustreSource {
    /// File system name of at most 8 characters.
    pub name: String,
    /// LNet addresses of the management server.
    pub address: String,
}

/// Returns the name and addresses that existing targets were made with.
#[must_use]
pub fn made_with(group: &Group) -> Option<LustreSource> {
    let mut targets = group.file_systems.values().map(|storage| &storage.spec.lustre_storage);
    let target = targets
        .find(|target| !target.file_system_name.is_empty() && !target.mgs_address.is_empty())?;
    let (name, address) = (target.file_system_name.clone(), target.mgs_address.clone());
    Some(LustreSource { name, address })
}

/// Returns the name of the file system and the address of its management server, once a management
/// target gave the name.
///
/// # Errors
/// The progress so far, if there is no name yet.
pub fn name_and_address(
    maker: &StorageMaker<'_>,
    profile: &NnfStorageProfile,
) -> Result<LustreSource, Progress> {
    let mgt = match choose_target(maker, profile) {
        Ok(Some(mgt)) => mgt,
        Ok(None) => return Err(create_own(maker)),
        Err(progress) => return Err(progress),
    };
    let name = given_name(maker, &mgt)?;
    let (node, mgt_name) = mgt_key(&mgt);
    let external = &profile.data().lustre_storage.mgt_options.external_mgs;
    let is_address = !external.is_empty() && !external.starts_with(POOL);
    let address = mgt.spec.addresses.first().filter(|_| !is_address).unwrap_or(external);
    let source = LustreSource { name, address: normalize_nids(address) };
    match made_with(maker.group()) {
        Some(earlier) if earlier.name != source.name => {
            Err(Progress::failed(internal_error(format!(
                "NnfLustreMGT {node}/{mgt_name} names the file system {}, and its targets were made as {}: tear the workflow down",
                source.name, earlier.name
            ))))
        }
        Some(earlier) => Ok(earlier),
        None => Ok(source),
    }
}

/// Returns the management target to ask for a name; `None` if the file system has its own target, which
/// does not exist yet.
fn choose_target(
    maker: &StorageMaker<'_>,
    profile: &NnfStorageProfile,
) -> Result<Option<Arc<NnfLustreMgt>>, Progress> {
    // A chosen management target stays chosen, even if the profile or other storage has changed since.
    if let Some(mgt) = maker.group().mgts.values().next() {
        return Ok(Some(mgt.clone()));
    }
    let external = &profile.data().lustre_storage.mgt_options.external_mgs;
    match external.strip_prefix(POOL) {
        Some(pool) => pool::use_member(maker, pool).map(Some),
        None if !external.is_empty() => {
            target_with_address(maker, external).map(Some).map_err(Progress::failed)
        }
        None => Ok(None),
    }
}

fn target_with_address(
    maker: &StorageMaker<'_>,
    external: &str,
) -> Result<Arc<NnfLustreMgt>, ResourceError> {
    let mut found = maker.view.site.mgts.with_address(external);
    match (found.next(), found.next()) {
        (Some(mgt), None) => Ok(mgt.clone()),
        (None, _) => Err(transient_error(format!(
            "no NnfLustreMGT resource found for MGS address {external} (lustreStorage.mgtOptions.externalMgs of the profile): ask the administrator to create one in {EXTERNAL_NAMESPACE} with that address"
        ))),
        (Some(first), Some(other)) => Err(wlm_error(format!(
            "multiple MGTs found for address {external}: NnfLustreMGT {}/{} and {}/{}: ask the administrator to delete one of them",
            first.namespace().unwrap_or_default(),
            first.name_any(),
            other.namespace().unwrap_or_default(),
            other.name_any()
        ))),
    }
}

/// Creates the file system's own NnfLustreMGT. The object is created before the target, because formatting a `mgtmdt`
/// needs the file system name that the object gives.
fn create_own(maker: &StorageMaker<'_>) -> Progress {
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
        ))
        .awaiting([rabbit]);
    }
    let status = maker.view.site.nodes.get(rabbit).and_then(|node| node.status.as_ref());
    let address = status.map(|status| normalize_nids(&status.lnet_nid)).unwrap_or_default();
    if address.is_empty() {
        return Progress::failed(transient_error(format!(
            "{rabbit} has reported no LNet address (NnfNode {rabbit}/nnf-nlc, status.lnetNid): load Lustre's modules there, or place the management target elsewhere"
        )));
    }
    let taken = taken_elsewhere(maker.view.site, &at);
    let object = NnfLustreMgt {
        metadata: ObjectMeta {
            name: Some(at.1),
            namespace: Some(at.0),
            labels: Some(storage_labels(&maker.view.workflow, maker.index, maker.servers)),
            ..ObjectMeta::default()
        },
        spec: NnfLustreMgtSpec {
            addresses: vec![address],
            fs_name_start: first_name(&maker.servers.uid().unwrap_or_default(), &taken).to_string(),
            claim_list: vec![fs_name_holder(maker.servers)],
            ..NnfLustreMgtSpec::default()
        },
        status: None,
    };
    Progress::default().with([Change::create(&object)])
}

/// Runs the profile's commands on the management target, once all targets are ready. On the site's own management
/// targets no commands run: no agent of Warren is on their hosts.
pub fn run_commands(
    maker: &StorageMaker<'_>,
    profile: &NnfStorageProfile,
    source: &LustreSource,
) -> Progress {
    let lines = &profile.data().lustre_storage.mgt_options.pre_mount_commands;
    let Some(mgt) = maker.group().mgts.values().next().filter(|_| !lines.is_empty()) else {
        return Progress::default();
    };
    let rabbit = mgt.namespace().unwrap_or_default();
    if rabbit == EXTERNAL_NAMESPACE {
        return Progress::default();
    }
    let holder = fs_name_holder(maker.servers);
    let mut commands = mgt.spec.command_list.iter();
    if !commands.any(|entry| *entry.reference == holder) {
        let commands = lines.iter().map(|line| expand_variables(maker, source, line)).collect();
        let mut after = NnfLustreMgt::clone(mgt);
        after
            .spec
            .command_list
            .push(NnfLustreMgtSpecCommand { reference: holder.into(), commands });
        return Progress::default().with(Change::patch(&**mgt, &after));
    }
    let mut reported = mgt.status.iter().flat_map(|status| &status.command_list);
    match reported.find(|reported| *reported.reference == holder) {
        Some(reported) if reported.ready => Progress::default(),
        Some(NnfLustreMgtStatusCommand { error: Some(error), .. }) => {
            Progress::failed(name_node(&rabbit, error))
        }
        _ => Progress::wait(format!("the site's commands on the management target of {rabbit}"))
            .awaiting([&*rabbit]),
    }
}

/// Replaces the variables in a command line. None of the values contains a character that a shell would interpret.
fn expand_variables(maker: &StorageMaker<'_>, source: &LustreSource, line: &str) -> String {
    let spec = &maker.view.workflow.spec;
    [
        ("$MGS_NID", source.address.clone()),
        ("$FS_NAME", source.name.clone()),
        ("$GROUPID", spec.group_id.to_string()),
        ("$USERID", spec.user_id.to_string()),
    ]
    .into_iter()
    .fold(line.to_owned(), |line, (name, value)| line.replace(name, &value))
}

/// Withdraws the storage's request for a file system name, and its commands, from its management targets. Done when
/// the targets have erased the name.
pub fn release_name(group: &Group) -> Progress {
    let Some(servers) = &group.servers else { return Progress::default() };
    let holder = fs_name_holder(servers);
    let mut progress = Progress::default();
    for ((node, name), mgt) in &group.mgts {
        let mut after = NnfLustreMgt::clone(mgt);
        after.spec.claim_list.retain(|other| *other != holder);
        after.spec.command_list.retain(|other| *other.reference != holder);
        let status = mgt.status.as_ref();
        let mut entries = status.into_iter().flat_map(|status| &status.claim_list);
        let waits = entries.any(|entry| *entry.reference == holder);
        let error = status.and_then(|status| status.error.as_ref());
        progress = progress.with(Change::patch(&**mgt, &after));
        if waits {
            progress = progress.and(match error {
                Some(error) => Progress::failed(name_node(node, error)),
                None => Progress::wait(format!(
                    "erasure of the file system's name on NnfLustreMGT {node}/{name}"
                ))
                .awaiting([&**node]),
            });
        }
    }
    progress
}

/// Returns true if a management target belongs to this storage alone.
#[must_use]
pub fn is_own(group: &Group, mgt: &NnfLustreMgt) -> bool {
    let is_owner = |uid: String| mgt.owner().is_some_and(|owner| owner.uid == uid);
    group.servers.as_deref().is_none_or(|servers| is_owner(storage_uid(servers)))
}
