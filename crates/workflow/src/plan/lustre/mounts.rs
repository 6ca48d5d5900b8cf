//! PreRun: every client mounts the same file system, over the network.

use std::collections::BTreeSet;

use api::{
    Servers,
    client_mount::{
        ClientMountDevice, ClientMountDeviceLustre, ClientMountDeviceReference, DeviceType,
    },
};
use directive::FileSystem;
use kube::ResourceExt;

use super::mgt::{Named, made_with};
use crate::{
    change::Change,
    names::{OWNER_KIND, reference},
    plan::{
        allocation::Allocation,
        container,
        mounts::{Maker, MountProgress},
        setup,
    },
    progress::{Progress, wlm_error},
    view::View,
};

/// Mounts the file system on all computes, and on the rabbits with its object targets or with containers that use it.
pub fn mounted(view: &View<'_>, index: usize, servers: &Servers, all: &[Allocation]) -> Progress {
    let group = &view.directives[index].storage;
    if let Some(unknown) = view.computes().find(|compute| !view.site.has_compute(compute)) {
        return Progress::failed(wlm_error(format!(
            "Computes names {unknown}, which the system does not have: name computes that SystemConfiguration default/default lists, beneath a rabbit or in externalComputeNodes"
        )));
    }
    let Some(named) = made_with(group) else {
        return Progress::wait("its targets");
    };
    let storage = setup::progress(group, all);
    let is_ready = storage == Progress::default();
    let maker = Maker { view, index, file_system: FileSystem::Lustre, group };
    let mount = || maker.mount(maker.path(), device(servers, &named), None);
    let on_compute = |compute: &str| {
        let at = maker.at(compute, "computes");
        let new = || maker.object(&at, vec![mount()]).map(|object| Change::create(&object));
        maker.mount_or_create(&at, || if is_ready { new() } else { None })
    };
    let on_rabbit = |rabbit: &str| {
        let at = maker.at(rabbit, "servers");
        maker.mount_or_create(&at, || {
            if is_ready { maker.new_server(&at, vec![mount()]) } else { None }
        })
    };
    let objects = all.iter().filter(|one| one.label == "ost").map(|one| one.rabbit.as_str());
    let mut objects: BTreeSet<&str> =
        objects.filter(|_| view.computes().next().is_some()).collect();
    objects.extend(container::rabbits(view, index));
    let clients = view.computes().map(on_compute).chain(objects.into_iter().map(on_rabbit));
    let waited = clients.fold(MountProgress::default(), MountProgress::and);
    // Who mounted it is not troubled by a target that comes back.
    if waited.nodes.is_empty() {
        Progress::default()
    } else {
        waited.progress(group, "mount on").and(storage)
    }
}

/// What a client mounts.
pub fn device(servers: &Servers, named: &Named) -> ClientMountDevice {
    let (name, namespace) = (servers.name_any(), servers.namespace().unwrap_or_default());
    let lustre = ClientMountDeviceLustre {
        file_system_name: named.name.clone(),
        mgs_addresses: named.address.clone(),
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
