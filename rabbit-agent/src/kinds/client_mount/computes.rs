//! Finds out which compute uses the allocation behind a mount of the rabbit. Central controllers do not write this
//! into a rabbit's ClientMount, but the computes' ClientMounts of the same workflow and storage name the allocation
//! that each compute mounts.
//!
//! The order of a block storage's access list says nothing about allocations. The list only shows which computes are
//! still missing.

use std::collections::{BTreeMap, BTreeSet};

use agent::desired::{Goal, MountUnits};
use api::{
    ClientMount, RabbitLabels,
    client_mount::{ClientMountDeviceReference, ClientMountInfo},
    names::label,
};
use apiclient::plain;
use controller::{Retry, describe};
use futures::future::try_join_all;
use kube::{Api, api::ListParams, core::DeserializeGuard};
use storage::desired::{IndexLink, IndexTree, MountPoint, NodeName};

use crate::core::{Cache, Context, Pass};

/// Computes that may have mounted the allocations of an object.
#[derive(Debug)]
pub struct Computes {
    plugged_in: Vec<NodeName>,
    /// Names of this chassis's computes to which the block storages give access now.
    with_access: BTreeSet<String>,
}

impl Computes {
    /// Finds the computes in the rabbit's own objects.
    pub fn new(object: &ClientMount, cache: &Cache) -> Self {
        let referred =
            object.spec.mounts.iter().filter_map(|mount| mount.device.device_reference.as_ref());
        let names: BTreeSet<_> =
            referred.filter_map(|reference| reference.object_reference.name.as_deref()).collect();
        let blocks = names.into_iter().filter_map(|name| cache.block_storage(name));
        let access = blocks
            .flat_map(|block| &block.spec.allocations)
            .flat_map(|allocation| &allocation.access);
        let plugged_in: Vec<_> = cache.chassis().slots().into_values().collect();
        // The agent does not read ClientMounts of computes in other chassis.
        let is_here = |name: &&String| plugged_in.iter().any(|node| node.as_str() == name.as_str());
        let with_access = access.filter(is_here).cloned().collect();
        Self { plugged_in, with_access }
    }
}

/// A mount in an index tree for which the object names no compute.
struct UnnamedMount<'a> {
    tree: MountPoint,
    name: String,
    allocation: (&'a str, &'a str, i64),
}

/// Adds a link for each compute that mounts an allocation, where the object names no compute. When the API does not
/// answer, the present links stay and the agent retries; the mounts do not wait for the answer.
pub(super) async fn add_links(
    context: &Context,
    computes: &Computes,
    object: &ClientMount,
    units: &mut MountUnits,
    pass: &mut Pass,
) {
    let unnamed =
        if units.goal == Goal::Mounted { unnamed_mounts(object, units) } else { Vec::new() };
    let (Some(workflow), Some(owner), false) = (
        object.label(label::WORKFLOW_UID),
        object.label(label::TARGET_OWNER_UID),
        unnamed.is_empty() || units.are_refused(),
    ) else {
        return;
    };
    let labels = format!("{}={workflow},{}={owner}", label::WORKFLOW_UID, label::TARGET_OWNER_UID);
    // Lets the API server answer this list from its memory, because all rabbits of a job ask at once, and each agent
    // asks again while a compute is missing.
    let filter = ListParams::default().labels(&labels).match_any();
    match mounts_of(context, computes, &filter).await {
        Ok(mounts) => {
            let mounted = allocations(&mounts);
            let all_known =
                computes.with_access.iter().all(|compute| mounted.contains_key(compute.as_str()));
            let problems = link(&mut units.trees, &unnamed, &mounted);
            pass.failures
                .extend(problems.into_iter().map(|why| format!("{}: {why}", describe(object))));
            if !all_known {
                // The missing computes have access, so ClientMounts for them may still be created: central controllers
                // create the computes' ClientMounts, if the job needs any, within 2 s of the rabbit's. The agent tries
                // again soon, because the job looks for its link once PreRun is ready.
                pass.retry = pass.retry.min(Retry::Soon);
            }
        }
        Err(error) => {
            units.trees.retain(|tree| !unnamed.iter().any(|mount| mount.tree == tree.root));
            pass.failures.push(unlisted(object, &error));
            pass.retry = pass.retry.min(Retry::Later);
        }
    }
}

fn unlisted(object: &ClientMount, error: &kube::Error) -> String {
    let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
    let remedy = if forbidden { ": bind the ClusterRole warren-index-links to it" } else { "" };
    format!(
        "{}: this rabbit cannot list its computes' ClientMounts, and links to their allocations stay as they are: {}{remedy}",
        describe(object),
        plain(error)
    )
}

fn unnamed_mounts<'a>(object: &'a ClientMount, units: &MountUnits) -> Vec<UnnamedMount<'a>> {
    let is_unnamed =
        |info: &ClientMountInfo| info.compute.as_deref().unwrap_or_default().is_empty();
    let unnamed_mount = |(place, info): (usize, &'a ClientMountInfo)| {
        let bind =
            units.binds.iter().find(|(index, _)| *index == place).map(|(_, bind)| &bind.target);
        let path = bind.or_else(|| Some(&units.mounts.get(place)?.as_ref().ok()?.target))?;
        let tree =
            path.parent().filter(|root| units.trees.iter().any(|tree| tree.root == *root))?;
        let name = path.below().file_name()?.to_str()?.to_owned();
        Some(UnnamedMount {
            tree,
            name,
            allocation: allocation(info.device.device_reference.as_ref()?)?,
        })
    };
    let mounts = object.spec.mounts.iter().enumerate().filter(|(_, info)| is_unnamed(info));
    mounts.filter_map(unnamed_mount).collect()
}

fn allocation(reference: &ClientMountDeviceReference) -> Option<(&str, &str, i64)> {
    let to = &reference.object_reference;
    Some((to.namespace.as_deref()?, to.name.as_deref()?, reference.allocation_index()))
}

async fn mounts_of(
    context: &Context,
    computes: &Computes,
    filter: &ListParams,
) -> kube::Result<Vec<(NodeName, ClientMount)>> {
    let lists = computes.plugged_in.iter().map(|compute| mounts_in(context, compute, filter));
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

/// Lists the ClientMounts of a compute, without those that cannot be decoded.
async fn mounts_in(
    context: &Context,
    compute: &NodeName,
    filter: &ListParams,
) -> kube::Result<Vec<(NodeName, ClientMount)>> {
    let api: Api<DeserializeGuard<ClientMount>> =
        Api::namespaced(context.client.clone(), compute.as_str());
    let listed = api.list(filter).await?.items.into_iter().filter_map(|item| item.0.ok());
    Ok(listed.map(|mount| (compute.clone(), mount)).collect())
}

type Allocations<'a> = BTreeMap<&'a str, BTreeSet<(&'a str, &'a str, i64)>>;

fn allocations(mounts: &[(NodeName, ClientMount)]) -> Allocations<'_> {
    let mut allocations = Allocations::new();
    for (compute, object) in mounts {
        let references =
            object.spec.mounts.iter().filter_map(|mount| mount.device.device_reference.as_ref());
        allocations.entry(compute.as_str()).or_default().extend(references.filter_map(allocation));
    }
    allocations
}

/// Links each compute that mounts exactly one of the tree's allocations; a compute that mounts several gets no link.
/// Returns an error text for each link that cannot be made.
fn link(
    trees: &mut [IndexTree],
    unnamed: &[UnnamedMount<'_>],
    mounted: &Allocations<'_>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for tree in trees {
        for (compute, allocations) in mounted {
            let is_mounted = |mount: &&UnnamedMount<'_>| {
                mount.tree == tree.root && allocations.contains(&mount.allocation)
            };
            let mut mounts = unnamed.iter().filter(is_mounted);
            let (Some(mount), None) = (mounts.next(), mounts.next()) else { continue };
            match IndexLink::new(compute, &mount.name) {
                Ok(link) if !tree.links.iter().any(|other| other.compute() == link.compute()) => {
                    tree.links.push(link);
                }
                Ok(_) => {}
                Err(error) => {
                    problems
                        .push(format!("{} gets no link in the index tree: {error}", mount.name));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use controller::Event;

    use super::*;
    use crate::samples;

    #[test]
    fn the_index_tree_waits_only_for_computes_of_this_rabbit() {
        let mut cache = Cache::new("rabbit-1".parse().unwrap());
        let block = samples::block_storage(&[(1, &["rabbit-1", "compute-01", "elsewhere"])]);
        cache.apply(Event::Applied(Ok(block)));
        cache.apply(Event::Applied(Ok(samples::system())));
        let computes = Computes::new(&samples::client_mount(1), &cache);
        assert_eq!(computes.with_access, BTreeSet::from(["compute-01".to_owned()]));
    }
}
