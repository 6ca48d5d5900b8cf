//! Index trees on rabbits: links and bind mounts by which an object's mounts have the computes' names.
//!
//! Mounts called `node-<k>` get their links beside them. A site whose controllers mount at other names keeps its directory
//! as its data movers expect it; there the links and `node-<k>` bind mounts appear beneath the index root, if one is set.

use std::collections::BTreeMap;

use storage::{
    desired::{HookScope, IndexLink, IndexTree, Mount, MountPoint, MountSource},
    template::SiteCommand,
};

use super::{Context, MountError, MountProblem};
use crate::site::Side;

type Binds = Vec<(usize, Mount)>;

/// Returns the trees of one object. A compute's name that cannot be used becomes an error of its mount.
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
    let trees_of = trees.links.into_iter().map(|(root, links)| IndexTree { root, links }).collect();
    (trees.binds, trees_of)
}

#[derive(Default)]
struct Trees {
    /// The links of each tree, by its root.
    links: BTreeMap<MountPoint, Vec<IndexLink>>,
    binds: Binds,
    /// Index in `spec.mounts` by tree and compute, to find a compute that is named twice.
    seen: BTreeMap<(MountPoint, String), usize>,
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
            // Directly beneath a mount root there is no tree; a compute's name that cannot be used is still an error.
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
        if let Some(other) = self.seen.insert((root.clone(), compute.to_owned()), index) {
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
    // The bind mount has a hook scope of its own: the agent forgets hook records by scope, and those of its source stay.
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
