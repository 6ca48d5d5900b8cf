//! Makes steps from a site's lines.

use std::collections::BTreeMap;

use super::Lvm;
use crate::{Step, observed::BlockDevice, plan::volume, step::VolumeAction, template::SiteCommand};

impl Lvm<'_> {
    pub(super) fn on_device(
        &self,
        action: VolumeAction,
        line: &Option<SiteCommand>,
        device: &BlockDevice,
    ) -> Option<Step> {
        let mut more = self.variables();
        more.insert("$DEVICE".to_owned(), device.path.display().to_string());
        let line = line.as_ref()?.expand(&more);
        Some(self.step(action, device.path.display().to_string(), line))
    }

    pub(super) fn on_group(
        &self,
        action: VolumeAction,
        line: &Option<SiteCommand>,
    ) -> Option<Step> {
        let line = line.as_ref()?.expand(&self.variables());
        Some(self.step(action, self.volume.group.clone(), line))
    }

    pub(super) fn on_logical(
        &self,
        action: VolumeAction,
        line: &Option<SiteCommand>,
    ) -> Option<Step> {
        let line = line.as_ref()?.expand(&self.variables());
        Some(self.step(action, self.volume.to_string(), line))
    }

    pub(super) fn step(&self, action: VolumeAction, on: String, line: String) -> Step {
        Step::Volume { action, on, devices: self.state.devices.clone(), line }
    }

    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        let names = [("$VG_NAME", &self.volume.group), ("$LV_NAME", &self.volume.logical)];
        let names = names.map(|(variable, name)| (variable.to_owned(), name.clone()));
        volume::variables(volume::of_devices(&self.state.devices).into_iter().chain(names))
    }
}
