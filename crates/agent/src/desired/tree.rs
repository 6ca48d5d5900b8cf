//! Index trees: directories on a rabbit in which each compute's name leads, by links and bind mounts, to the mount
//! of the compute's allocation.
//!
//! If the mounts are called `node-<k>`, the agent makes the links in the directory that contains the mounts. If a
//! site's controllers choose other names, the agent leaves that directory unchanged, because the site's data movers
//! expect it so. If the node has an index root, the agent then makes the links beneath the index root, with bind mounts
//! called `node-<k>`.

use std::collections::BTreeMap;

use storage::{
    desired::{HookScope, IndexLink, IndexTree, Mount, MountPoint, MountSource},
    template::SiteCommand,
};

use super::{Context, MountError, MountProblem};
use crate::site::Side;

type Binds = Vec<(usize, Mount)>;

/// Returns the index trees of one object. If the name of a compute cannot be used, its mount gets an error.
pub(super) fn trees(
    context: &Context<'_>,
    mounts: &mut [Result<Mount, MountError>],
) -> (Binds, Vec<IndexTree>) {
    if context.site.side == Side::Compute {
        return (Vec::new(), Vec::new());
    }
    let mut trees = Trees::default();
    for (index, entry) in mounts.iter_mut().enumerate() {
        let Ok(mount) = entry else { continue };
        if let Err(problem) = trees.add_mount(context, index, mount) {
            let path = mount.target.to_string();
            *entry = Err(MountError { index, path, problem });
        }
    }
    let index_trees =
        trees.links.into_iter().map(|(root, links)| IndexTree { root, links }).collect();
    (trees.binds, index_trees)
}

#[derive(Default)]
struct Trees {
    /// The links of each tree, by the tree's root.
    links: BTreeMap<MountPoint, Vec<IndexLink>>,
    binds: Binds,
    /// Index in `spec.mounts` of the mount of each compute in each tree, to find a compute that two mounts name.
    mounts_of_computes: BTreeMap<(MountPoint, String), usize>,
}

impl Trees {
    fn add_mount(
        &mut self,
        context: &Context<'_>,
        index: usize,
        mount: &Mount,
    ) -> Result<(), MountProblem> {
        let compute =
            context.client_mount.spec.mounts.get(index).and_then(|info| info.compute.as_deref());
        let compute = compute.filter(|name| !name.is_empty());
        let Some(parent) = mount.target.parent() else {
            // A mount directly beneath a mount root gets no tree, but an invalid name of a compute is still an error.
            return compute.map_or(Ok(()), |name| check(name, "node-0"));
        };
        let target = last_name(&mount.target);
        if is_index(&target) {
            return self.add_link(&parent, index, compute, &target);
        }
        match (&context.site.index_root, allocation(context, index)) {
            (Some(root), Some(allocation)) => {
                let name = last_name(&parent);
                let tree = root.tree(&name).map_err(MountProblem::MountPath)?;
                let bind = root.bind(&name, allocation).map_err(MountProblem::MountPath)?;
                self.add_link(&tree, index, compute, &format!("node-{allocation}"))?;
                self.binds.push((index, bind_mount(context, mount, bind)));
                Ok(())
            }
            _ => compute.map_or(Ok(()), |name| check(name, &target)),
        }
    }

    fn add_link(
        &mut self,
        root: &MountPoint,
        index: usize,
        compute: Option<&str>,
        target: &str,
    ) -> Result<(), MountProblem> {
        let links = self.links.entry(root.clone()).or_default();
        let Some(compute) = compute else { return Ok(()) };
        let link = IndexLink::new(compute, target).map_err(MountProblem::Compute)?;
        if let Some(other) =
            self.mounts_of_computes.insert((root.clone(), compute.to_owned()), index)
        {
            return Err(MountProblem::ComputeTwice { compute: compute.to_owned(), other });
        }
        links.push(link);
        Ok(())
    }
}

fn check(compute: &str, target: &str) -> Result<(), MountProblem> {
    IndexLink::new(compute, target).map(drop).map_err(MountProblem::Compute)
}

fn allocation(context: &Context<'_>, index: usize) -> Option<u32> {
    let info = context.client_mount.spec.mounts.get(index)?;
    u32::try_from(info.device.device_reference.as_ref()?.allocation_index()).ok()
}

fn last_name(path: &MountPoint) -> String {
    path.below().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_index(name: &str) -> bool {
    name.strip_prefix("node-")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn bind_mount(context: &Context<'_>, mount: &Mount, target: MountPoint) -> Mount {
    // The bind mount gets a hook scope of its own. For each scope the agent records which hooks have run. When the bind
    // mount is unmounted, the agent removes the records of its scope, and must keep those of the source.
    let scope = HookScope::mount(context.uid, &target);
    let line = |field, text| {
        SiteCommand::new(field, text, BTreeMap::new())
            .expect("this text has balanced quotes and no control characters")
    };
    Mount {
        scope,
        target,
        kind: mount.kind,
        source: MountSource::Bind(mount.target.clone()),
        mount: line("bind", "-o bind $DEVICE $MOUNT_PATH"),
        unmount: line("unbind", "$MOUNT_PATH"),
        owner: None,
        file: None,
        hooks: Vec::new(),
    }
}
