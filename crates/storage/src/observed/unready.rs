//! The work that a drive needs before all hosts reach it.

/// The work that a drive needs before it is ready; empty for a ready drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unready {
    /// The drive's virtual functions, if any of them is not ready for its host.
    pub functions: Option<Functions>,
    /// Whether an agent that has ended recorded that it was about to create namespaces. These namespaces may exist
    /// without a record.
    pub has_open_intents: bool,
    /// Whether the drive has recorded namespaces, and its slot or serial number differs from the recorded one.
    pub is_slot_unrecorded: bool,
}

/// The virtual functions of a drive. After a power cycle or a reboot they do not exist, or are offline and without
/// resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Functions {
    /// Number of virtual functions that the drive has and the hosts of the chassis need.
    pub wanted: u16,
    /// Number of virtual functions that are enabled on the PCI bus.
    pub enabled: u16,
    /// Whether the physical function holds resources that the virtual functions need.
    pub hoarded: bool,
    /// Whether the virtual functions have their resources from the factory.
    pub preset: bool,
    /// Numbers of the offline virtual functions among the wanted ones, from 1.
    pub offline: Vec<u16>,
    /// Number of virtual functions that are not bound to their host: behind a PCIe switch to the host's port, without a
    /// switch the rabbit's own function to its driver.
    pub unbound: u16,
}
