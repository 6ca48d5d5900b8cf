//! Finds drives: physical functions on this node, or behind its PCIe switches.

use std::{fmt::Debug, io, sync::Arc};

use storage::observed::PortLink;

use super::{
    local::LocalFunction,
    physical::PhysicalFunction,
    sysfs::{ControllerNode, Sysfs},
};

/// The PCIe switches of a rabbit, as a source of drives.
pub trait Switches: Debug + Send + Sync {
    /// Returns whether this node has switches, or had switches at an earlier call: a rabbit whose switches no longer
    /// answer must not count as a node without switches.
    ///
    /// # Errors
    /// When this is unknown.
    fn are_present(&self) -> io::Result<bool>;

    /// Returns the drives, by slot. If a switch does not answer, returns its last known drives; a command to such a
    /// drive then fails with the reason.
    fn drives(&self) -> Vec<Candidate>;

    /// Returns the name of a plugged-in device that has not reported its NQN, if there is such a device.
    fn device_without_nqn(&self) -> Option<String>;

    /// Returns the label printed beside a slot; empty when unknown.
    fn label(&self, slot: &str) -> String;

    /// Returns the link at each port of the switches.
    fn links(&self) -> Vec<PortLink>;
}

/// A drive that was found.
#[derive(Debug)]
pub struct Candidate {
    pub node: ControllerNode,
    pub function: Arc<dyn PhysicalFunction>,
}

/// Finds drives. On a node with switches, the node's own PCI bus shows only virtual functions: they look like drives,
/// but cannot manage namespaces.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) switches: Option<Arc<dyn Switches>>,
}

impl Source {
    /// Returns the switches; `None` on a node without switches.
    fn switches(&self) -> io::Result<Option<&dyn Switches>> {
        match self.switches.as_deref() {
            Some(switches) if switches.are_present()? => Ok(Some(switches)),
            _ => Ok(None),
        }
    }

    /// Returns the drives whose physical function this node reaches.
    pub(super) fn candidates(&self, sysfs: &Sysfs) -> io::Result<Vec<Candidate>> {
        if let Some(switches) = self.switches()? {
            return Ok(switches.drives());
        }
        let found = sysfs.controllers()?.into_iter().filter(|controller| controller.is_physical);
        Ok(found.map(LocalFunction::candidate).collect())
    }

    /// Returns the name of a plugged-in device that has not reported its NQN, if there is such a device. Any absent
    /// drive may be that device.
    pub(super) fn device_without_nqn(&self, sysfs: &Sysfs) -> io::Result<Option<String>> {
        match self.switches()? {
            Some(switches) => Ok(switches.device_without_nqn()),
            None => sysfs.device_without_nqn(),
        }
    }

    /// Returns the label printed beside a slot.
    pub(super) fn label(&self, slot: &str) -> io::Result<String> {
        Ok(self.switches()?.map_or_else(|| slot.to_owned(), |switches| switches.label(slot)))
    }

    /// Returns the links at the switches' ports; none on a node without a switch.
    pub(super) fn links(&self) -> io::Result<Vec<PortLink>> {
        Ok(self.switches()?.map(|switches| switches.links()).unwrap_or_default())
    }
}
