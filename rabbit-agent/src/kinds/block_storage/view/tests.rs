use super::*;
use crate::samples;

#[test]
fn an_allocation_with_only_a_ledger_entry_is_released_with_its_object() {
    let owner = samples::BLOCK_UID.parse().unwrap();
    let owned_by = |owner, index| NamespaceOwner::Ours(AllocationId { owner, index });
    let at = |nsid| NamespaceId { subsystem: "nqn.x:d0".parse().unwrap(), nsid };
    let other = samples::OWNER.parse().unwrap();
    let lost = [(at(3), owned_by(owner, 2)), (at(4), owned_by(other, 5))].into();
    let seen = Observed { vanished: lost, ..Observed::default() };
    let ids: Vec<_> = owned(&seen, owner).collect();
    assert_eq!(ids, [AllocationId { owner, index: 2 }]);
}
