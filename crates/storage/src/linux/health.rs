//! Reads how this node is, from what the kernel shows: sysfs, proc and the mount table.

mod drives;
mod file_systems;
mod lnet;
mod load;
mod pci;
mod ports;
mod switched;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use self::ports::{Port, PortError};
use super::{LinuxHost, bounded::BoundedCalls};
use crate::{
    desired::AllowedRoots,
    health::{Facts, Link, Probe},
    observed::PortLink,
};

/// How long a part of a look may take: a drive that hangs must not hide how the memory is.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node's own facts.
#[derive(Debug)]
pub struct LinuxProbe {
    sysfs: PathBuf,
    roots: AllowedRoots,
    ports: BTreeMap<u8, Port>,
    calls: BoundedCalls,
    switched: Option<Arc<LinuxHost>>,
}

impl LinuxProbe {
    /// BoundedCalls at mounts beneath `roots`, and at computes by the `ports` that they are at.
    #[must_use]
    pub fn new(roots: AllowedRoots, ports: BTreeMap<u8, Port>) -> Self {
        Self {
            sysfs: PathBuf::from("/sys"),
            roots,
            ports,
            calls: BoundedCalls::new(PATIENCE),
            switched: None,
        }
    }

    /// Asks the PCIe switches of `host`, too, for the computes that the site did not place.
    #[must_use]
    pub fn with_switches(mut self, host: Arc<LinuxHost>) -> Self {
        self.switched = Some(host);
        self
    }

    /// `None` when nobody gave us switches.
    fn ask_switches(&self) -> Option<Result<Vec<PortLink>, String>> {
        let host = self.switched.as_ref()?;
        Some(host.links().map_err(|error| switched::chain(&error)))
    }
}

impl Probe for LinuxProbe {
    fn links(&self) -> BTreeMap<u8, Link> {
        let mut links = self.ask_switches().map_or_else(BTreeMap::new, switched::computes);
        links.extend(self.ports.iter().map(|(slot, port)| (*slot, port.link(&self.sysfs))));
        links
    }

    fn facts(&self) -> Facts {
        let mut unread = Vec::new();
        let proc = Path::new("/proc");
        let drives = drives::read(&self.sysfs, &self.calls, &mut unread);
        // Each mount is asked on a thread of its own, with the same patience.
        let file_systems = match file_systems::read(&self.roots, &self.calls, &self.sysfs) {
            Ok(read) => Some(read),
            Err(error) => {
                unread.push(format!("/proc/self/mountinfo: {error}"));
                None
            }
        };
        let slots = self.ask_switches().map_or_else(BTreeMap::new, switched::slots);
        Facts {
            drives,
            slots,
            file_systems,
            groups: None,
            memory: load::memory(proc),
            load: load::load(proc),
            pressure: load::pressure(proc),
            nids: lnet::nids(PATIENCE),
            unread,
        }
    }
}
