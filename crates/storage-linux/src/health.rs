//! Reads this node's state from the kernel: sysfs, proc and the mount table.

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

use process::bounded::BoundedCalls;
use storage::{
    desired::AllowedRoots,
    health::{Facts, Link, Probe},
    observed::PortLink,
};

pub use self::ports::{Port, PortError};
use super::LinuxHost;

/// Deadline of each single read: a hanging drive must not keep other facts, such as memory, from being read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the facts of this node.
#[derive(Debug)]
pub struct LinuxProbe {
    sysfs: PathBuf,
    roots: AllowedRoots,
    ports: BTreeMap<u8, Port>,
    calls: BoundedCalls,
    switched: Option<Arc<LinuxHost>>,
}

impl LinuxProbe {
    /// Creates a probe of the mounts beneath `roots` and of the links to the computes at `ports`.
    pub fn new(roots: AllowedRoots, ports: BTreeMap<u8, Port>) -> Self {
        Self {
            sysfs: PathBuf::from("/sys"),
            roots,
            ports,
            calls: BoundedCalls::new(PATIENCE),
            switched: None,
        }
    }

    /// Makes the probe also read, from the PCIe switches of `host`, the links of computes whose port the site did not
    /// configure.
    #[must_use]
    pub fn with_switches(mut self, host: Arc<LinuxHost>) -> Self {
        self.switched = Some(host);
        self
    }

    /// Reads the links from the PCIe switches; `None` without [`Self::with_switches`].
    fn ask_switches(&self) -> Option<Result<Vec<PortLink>, String>> {
        let host = self.switched.as_ref()?;
        Some(host.links().map_err(|error| causes::chain(&error)))
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
        // Each mount is read on its own thread, with the same deadline.
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
