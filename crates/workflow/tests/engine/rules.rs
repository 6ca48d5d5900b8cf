//! The sites' own CRDs admit what the engine writes.

use serde_json::Value;
use workflow::change::Change;

/// Fails when a change adds to an object what a site's API server refuses. What the test itself wrote into `old` is not the engine's.
pub(crate) fn check(change: &Change, old: Option<&Value>, new: &Value) {
    let known = old.map(site_rules::faults).unwrap_or_default();
    let mut faults = site_rules::faults(new);
    faults.retain(|fault| !known.contains(fault));
    assert!(faults.is_empty(), "{change} is refused at a site: {faults:#?}\n{new:#}");
}
