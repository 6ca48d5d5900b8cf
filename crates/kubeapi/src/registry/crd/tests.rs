use super::*;

#[test]
fn versions_are_sorted_by_stage_and_number_as_in_kubernetes() {
    let mut versions = ["v1alpha7", "foo", "v1", "v2beta1", "v1beta2", "v10", "v1alpha11"];
    versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    assert_eq!(versions, ["v10", "v1", "v2beta1", "v1beta2", "v1alpha11", "v1alpha7", "foo"]);
}
