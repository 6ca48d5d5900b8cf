//! Gives a new Lustre file system, which belongs to root, to its user: mounts it once on the rabbit of its first object
//! target, changes the owner there, and unmounts it.

use api::{
    ClientMount,
    client_mount::{ClientMountInfo, MountState},
};
use directive::FileSystem;
use kube::ResourceExt;

use super::{mgt::LustreSource, mounts::device, targets::Target};
use crate::{
    change::Change,
    objects::mount::{is_mounted, says_unmounted},
    plan::{
        mounts::{self, desire},
        storage::StorageMaker,
    },
    progress::{Progress, internal_error},
};

/// Changes the owner of the file system; done when its user owns it.
pub fn change_owner(maker: &StorageMaker<'_>, first: &Target, source: &LustreSource) -> Progress {
    let rabbit = &first.allocation.rabbit;
    let mount_maker = mounts::MountMaker {
        view: maker.view,
        index: maker.index,
        file_system: FileSystem::Lustre,
        group: maker.group(),
    };
    let at = mount_maker.mount_key(rabbit, "ownergroup");
    match maker.group().mounts.get(&at) {
        Some(mount) if says_unmounted(mount) => Progress::default(),
        Some(mount) if is_mounted(mount) => {
            Progress::default().with(desire(mount, MountState::Unmounted))
        }
        Some(_) => Progress::wait_on("change of owner of the file system on", [&**rabbit]),
        None => match owner_mount(maker, &mount_maker, &at, source) {
            Some(object) => Progress::default().with([Change::create(&object)]),
            None => Progress::failed(internal_error("the Servers of this directive has no uid")),
        },
    }
}

fn owner_mount(
    maker: &StorageMaker<'_>,
    mounts: &mounts::MountMaker<'_>,
    at: &controller::ObjectKey,
    source: &LustreSource,
) -> Option<ClientMount> {
    let (root, uid) = (&maker.view.site.settings.mount_root, maker.view.workflow.uid()?);
    let path = format!("{root}/{uid}-{}-owner", maker.index);
    let mount = ClientMountInfo {
        set_permissions: true,
        ..mounts.mount_info(path, device(maker.servers, source), None)
    };
    mounts.client_mount(at, vec![mount])
}
