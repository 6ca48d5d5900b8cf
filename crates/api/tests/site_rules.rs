//! Our CRDs refuse every object that the sites' CRDs refuse: an object that is valid here is valid there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;

/// Rules of the sites' CRDs that ours do not have.
const LAXER: [&str; 1] = [
    // Newer definitions of the sites admit AllocatePerServer, which Warren reads and never writes.
    "DirectiveBreakdown.status.storage.allocationSets[].allocationStrategy.enum",
];

/// Collects the keywords that differ in two schemas, except for defaults that only ours have.
fn differences(ours: &Value, strict: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in strict.as_object().unwrap() {
        match keyword.as_str() {
            "properties" => {
                for (name, property) in rule.as_object().unwrap() {
                    differences(&ours[keyword][name], property, &format!("{at}.{name}"), found);
                }
            }
            "items" | "additionalProperties" => {
                differences(&ours[keyword], rule, &format!("{at}[]"), found);
            }
            _ if ours[keyword] != *rule => found.push(format!("{at}.{keyword}")),
            _ => {}
        }
    }
}

#[test]
fn our_crds_are_as_strict_as_the_sites() {
    let ours = api::crd_values();
    let mut found = Vec::new();
    for (ours, strict) in ours.iter().zip(site_rules::strict(ours.clone())) {
        let kind = ours["spec"]["names"]["kind"].as_str().unwrap();
        let schema = |crd: &Value| crd["spec"]["versions"][0]["schema"].clone();
        let (ours, strict) = (schema(ours), schema(&strict));
        let root = "openAPIV3Schema";
        differences(&ours[root], &strict[root], kind, &mut found);
    }
    assert_eq!(found, LAXER, "our CRDs lack these rules of the sites");
}
