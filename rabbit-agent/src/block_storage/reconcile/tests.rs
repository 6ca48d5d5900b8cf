use super::*;
use crate::samples;

#[test]
fn what_only_a_record_tells_of_is_given_back_with_its_object() {
    let owner = samples::BLOCK_UID.parse().unwrap();
    let of = |owner, index| NamespaceOwner::Ours(AllocationId { owner, index });
    let at = |nsid| NamespaceId { subsystem: "nqn.x:d0".parse().unwrap(), nsid };
    let other = samples::OWNER.parse().unwrap();
    let lost = [(at(3), of(owner, 2)), (at(4), of(other, 5))].into();
    let seen = Observed { vanished: lost, ..Observed::default() };
    let ids: Vec<_> = owned(&seen, owner).collect();
    assert_eq!(ids, [AllocationId { owner, index: 2 }]);
}
