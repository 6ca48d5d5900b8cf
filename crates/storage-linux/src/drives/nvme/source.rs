//! Finds drives: physical functions on this node, or behind its PCIe switches.

use std::{
    io,
    path::{Path, PathBuf},
};

use storage::observed::PortLink;

use super::{
    switchtec::{self, Behind, Fabric},
    sysfs::{ControllerNode, Sysfs},
};

/// Finds drives. On a node with switches, the node's own PCI bus shows only virtual functions: they look like drives,
/// but cannot manage namespaces.
#[derive(Debug)]
pub(super) struct Source {
    switches: Fabric,
}

/// A drive that was found, with the access to its admin queue.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: ControllerNode,
    pub(super) way: Way,
}

/// The kind of access to a drive's admin queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Way {
    Here,
    Switch(Behind),
}

impl Source {
    /// Creates a source that appends every exchange with switches to the file at `record`.
    pub(super) fn new(record: Option<&Path>) -> io::Result<Self> {
        Ok(Self { switches: Fabric::new(record)? })
    }

    #[cfg(test)]
    pub(super) fn over(switches: Fabric) -> Self {
        Self { switches }
    }

    /// Returns the drives whose physical function this node reaches.
    pub(super) fn candidates(&self, sysfs: &Sysfs) -> io::Result<Vec<Candidate>> {
        if !self.switches.has_switches()? {
            let controllers =
                sysfs.controllers()?.into_iter().filter(|controller| controller.is_physical);
            return Ok(controllers.map(|node| Candidate { node, way: Way::Here }).collect());
        }
        Ok(self.behind_switches())
    }

    /// Returns the name of a plugged-in device that has not reported its NQN, if there is such a device. Any absent
    /// drive may be that device.
    pub(super) fn device_without_nqn(&self, sysfs: &Sysfs) -> io::Result<Option<String>> {
        if self.switches.has_switches()? {
            Ok(self.switches.device_without_nqn())
        } else {
            sysfs.device_without_nqn()
        }
    }

    fn behind_switches(&self) -> Vec<Candidate> {
        let found = self.switches.drives().into_iter().map(|found| Candidate {
            node: ControllerNode {
                name: format!("slot {}", found.behind.slot()),
                nqn: found.nqn,
                model: found.model,
                serial: found.serial,
                slot: Some(found.behind.slot().to_string()),
                function: PathBuf::new(),
                is_physical: true,
            },
            way: Way::Switch(found.behind),
        });
        found.collect()
    }

    /// Returns the label printed beside a slot.
    pub(super) fn label(&self, slot: &str) -> io::Result<String> {
        if !self.switches.has_switches()? {
            return Ok(slot.to_owned());
        }
        let printed = slot.parse().ok().and_then(switchtec::label);
        Ok(printed.map_or_else(String::new, |label| label.to_string()))
    }

    /// Returns the links at the switches' ports; none on a node without a switch.
    pub(super) fn links(&self) -> io::Result<Vec<PortLink>> {
        Ok(if self.switches.has_switches()? { self.switches.links() } else { Vec::new() })
    }
}
