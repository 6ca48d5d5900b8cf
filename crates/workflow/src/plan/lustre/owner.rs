//! A new Lustre file system belongs to root: it is mounted once on the rabbit of its first object target, given to its user
//! there, and unmounted.

use api::{
    ClientMount,
    client_mount::{ClientMountInfo, MountState},
};
use directive::FileSystem;
use kube::ResourceExt;

use super::{mgt::Named, mounts::device, targets::Target};
use crate::{
    change::Change,
    plan::{
        mounts::{self, desire, is_mounted, says_unmounted},
        setup::Maker,
    },
    progress::{Progress, internal_error},
};

/// Done when the file system belongs to its user.
pub fn given(maker: &Maker<'_>, first: &Target, named: &Named) -> Progress {
    let rabbit = &first.allocation.rabbit;
    let makers = mounts::Maker {
        view: maker.view,
        index: maker.index,
        file_system: FileSystem::Lustre,
        group: maker.group(),
    };
    let at = makers.at(rabbit, "ownergroup");
    match maker.group().mounts.get(&at) {
        Some(mount) if says_unmounted(mount) => Progress::default(),
        Some(mount) if is_mounted(mount) => {
            Progress::default().with(desire(mount, MountState::Unmounted))
        }
        Some(_) => Progress::wait(format!("change of owner of the file system on {rabbit}")),
        None => match object(maker, &makers, &at, named) {
            Some(object) => Progress::default().with([Change::create(&object)]),
            None => Progress::failed(internal_error("its Servers has no uid")),
        },
    }
}

fn object(
    maker: &Maker<'_>,
    mounts: &mounts::Maker<'_>,
    at: &controller::ObjectKey,
    named: &Named,
) -> Option<ClientMount> {
    let (root, uid) = (&maker.view.site.settings.mount_root, maker.view.workflow.uid()?);
    let path = format!("{root}/{uid}-{}-owner", maker.index);
    let mount = ClientMountInfo {
        set_permissions: true,
        ..mounts.mount(path, device(maker.servers, named), None)
    };
    mounts.object(at, vec![mount])
}
