//! Volume groups on the rabbit's namespaces, and the leftovers of groups that no longer exist.

use std::path::PathBuf;

use super::{DeviceNumber, VolumeGroup};
use crate::desired::{AllocationId, NamespaceId, ObjectUid};

/// A volume group on namespaces of allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnGroup {
    pub group: VolumeGroup,
    /// The allocation whose namespaces are the group's devices; `None` when they belong to several allocations.
    pub allocation: Option<AllocationId>,
    pub devices: Vec<PathBuf>,
    /// Namespaces of the allocation on usable drives that are not attached to this node.
    pub unattached: Vec<NamespaceId>,
    /// Namespaces that should be members but that LVM does not use, each with the reason.
    pub lost: Vec<(NamespaceId, String)>,
}

/// A device of device-mapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Name of the mapping in `/dev/mapper`.
    pub name: String,
    pub number: DeviceNumber,
    /// Number of mappings that lie on top of each other, from the lowest mapping up to and including this mapping.
    /// Mappings must be removed in the order of falling numbers, because the kernel refuses to remove a mapping beneath
    /// another.
    pub layers: usize,
    /// The devices at the bottom of the stack, by their names in `/sys/block`.
    pub on: Vec<String>,
}

impl Mapping {
    /// Returns the name of the volume group, taken from the mapping's name `<group>-<volume>`. LVM doubles the hyphens
    /// within both names (lvm2, libdm `dm_build_dm_name`).
    pub fn group(&self) -> Option<String> {
        let marked = self.name.replace("--", "\0");
        let (group, _) = marked.split_once('-')?;
        Some(group.replace('\0', "-"))
    }
}

/// Returns the owner's uid in a volume group's name, `<owner uid>_<directive>[_<index>]`, as the
/// sites' controllers form it.
pub fn owner_of_group(name: &str) -> Option<ObjectUid> {
    let mut parts = name.split('_');
    let owner = parts.next().filter(|uid| uid.len() == 36)?.parse().ok()?;
    let numbers: Vec<_> = parts.collect();
    let is_number =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(numbers.len(), 1 | 2) && numbers.iter().all(is_number)).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11";

    #[test]
    fn owner_of_group_returns_the_owner_only_for_a_complete_group_name() {
        for (name, ours) in [
            (format!("{UID}_0"), true),
            (format!("{UID}_0_15"), true),
            (UID.to_owned(), false),
            (format!("{UID}_"), false),
            (format!("{UID}_0_1_2"), false),
            (format!("{UID}_x"), false),
            (format!("{UID}0_0"), false),
            (UID.replace('-', "") + "_0", false),
            ("vg0".to_owned(), false),
            ("global".to_owned(), false),
        ] {
            assert_eq!(owner_of_group(&name), ours.then(|| UID.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn group_returns_the_volume_group_in_the_name_of_a_mapping() {
        let mapping = |name: &str| Mapping {
            name: name.to_owned(),
            number: DeviceNumber { major: 253, minor: 0 },
            layers: 1,
            on: Vec::new(),
        };
        let doubled = UID.replace('-', "--");
        for volume in ["lv", "lv--2", "lv--2_rimage_0"] {
            let group = mapping(&format!("{doubled}_0-{volume}")).group();
            assert_eq!(group, Some(format!("{UID}_0")), "{volume}");
        }
        assert_eq!(mapping("cryptroot").group(), None);
    }
}
