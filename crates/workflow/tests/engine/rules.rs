//! Checks that the objects which the engine writes obey the rules of the Go controllers' CRDs.

use serde_json::Value;
use workflow::change::Change;

/// Panics if a change makes an object break a rule, because a site's API server would refuse the change. A fault that
/// is also in `old` is from the test, not from the engine.
pub(crate) fn check(change: &Change, old: Option<&Value>, new: &Value) {
    let known = old.map(site_rules::faults).unwrap_or_default();
    let mut faults = site_rules::faults(new);
    faults.retain(|fault| !known.contains(fault));
    assert!(faults.is_empty(), "{change} is refused at a site: {faults:#?}\n{new:#}");
}
