//! PreRun: mounts the same file system on every client, over the network.

use std::collections::BTreeSet;

use api::{
    Servers,
    client_mount::{
        ClientMountDevice, ClientMountDeviceLustre, ClientMountDeviceReference, DeviceType,
    },
};
use directive::FileSystem;
use kube::ResourceExt;

use super::mgt::{LustreSource, made_with};
use crate::{
    change::Change,
    names::{OWNER_KIND, reference},
    objects::{allocation::Allocation, view::View},
    plan::{
        container,
        mounts::{MountMaker, MountProgress},
        storage,
    },
    progress::{Progress, wlm_error},
};

/// Mounts the file system on all computes, on the rabbits that hold its object targets, and on the rabbits whose
/// containers use the file system.
pub fn mount_clients(
    view: &View<'_>,
    index: usize,
    servers: &Servers,
    all: &[Allocation],
) -> Progress {
    let group = &view.directives[index].storage;
    if let Some(unknown) = view.computes().find(|compute| !view.site.has_compute(compute)) {
        return Progress::failed(wlm_error(format!(
            "Computes names {unknown}, which the system does not have: name computes that SystemConfiguration default/default lists, beneath a rabbit or in externalComputeNodes"
        )));
    }
    let Some(source) = made_with(group) else {
        return Progress::wait("its targets");
    };
    let storage = storage::progress(group, all);
    let is_ready = storage == Progress::default();
    let maker = MountMaker { view, index, file_system: FileSystem::Lustre, group };
    let mount = || maker.mount_info(maker.path(), device(servers, &source), None);
    let on_compute = |compute: &str| {
        let at = maker.mount_key(compute, "computes");
        let new = || maker.client_mount(&at, vec![mount()]).map(|object| Change::create(&object));
        maker.mount_or_create(&at, || if is_ready { new() } else { None })
    };
    let on_rabbit = |rabbit: &str| {
        let at = maker.mount_key(rabbit, "servers");
        maker.mount_or_create(&at, || {
            if is_ready { maker.new_rabbit_mount(&at, vec![mount()]) } else { None }
        })
    };
    let rabbits = all
        .iter()
        .filter(|allocation| allocation.label == "ost")
        .map(|allocation| allocation.rabbit.as_str());
    let mut rabbits: BTreeSet<&str> =
        rabbits.filter(|_| view.computes().next().is_some()).collect();
    rabbits.extend(container::rabbits_using(view, index));
    let clients = view.computes().map(on_compute).chain(rabbits.into_iter().map(on_rabbit));
    let waited = clients.fold(MountProgress::default(), MountProgress::and);
    // Errors of targets matter only while a client still has to mount. On a client that has mounted, reads and writes
    // wait until the targets come back.
    if waited.nodes.is_empty() {
        Progress::default()
    } else {
        waited.progress(group, "mount on").and(storage)
    }
}

/// Mounts the file system on rabbits that copy its data.
pub fn mount_on_rabbits(
    view: &View<'_>,
    index: usize,
    servers: &Servers,
    all: &[Allocation],
    rabbits: BTreeSet<&str>,
) -> Progress {
    let group = &view.directives[index].storage;
    let Some(source) = made_with(group) else { return Progress::wait("its targets") };
    let storage = storage::progress(group, all);
    let is_ready = storage == Progress::default();
    let maker = MountMaker { view, index, file_system: FileSystem::Lustre, group };
    let mount = || maker.mount_info(maker.path(), device(servers, &source), None);
    let on_rabbit = |rabbit: &str| {
        let at = maker.mount_key(rabbit, "servers");
        maker.mount_or_create(&at, || {
            if is_ready { maker.new_rabbit_mount(&at, vec![mount()]) } else { None }
        })
    };
    let waited =
        rabbits.into_iter().map(on_rabbit).fold(MountProgress::default(), MountProgress::and);
    if waited.nodes.is_empty() {
        return Progress::default();
    }
    waited.progress(group, "mount on").and(storage)
}

/// Returns the device that a client mounts.
pub fn device(servers: &Servers, source: &LustreSource) -> ClientMountDevice {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    let lustre = ClientMountDeviceLustre {
        file_system_name: source.name.clone(),
        mgs_addresses: source.address.clone(),
    };
    let reference = ClientMountDeviceReference {
        object_reference: reference(OWNER_KIND, &name, &namespace),
        data: None,
    };
    ClientMountDevice {
        kind: DeviceType::Lustre,
        lustre: Some(lustre),
        lvm: None,
        device_reference: Some(reference),
    }
}
