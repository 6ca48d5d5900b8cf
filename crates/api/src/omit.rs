//! Predicates for `skip_serializing_if`: fields that are left out of JSON, as Go's `omitempty` leaves them out.

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde's skip_serializing_if calls"
)]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde's skip_serializing_if calls"
)]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}
