use super::*;
use serde_json::json;

fn system() -> SystemConfiguration {
    let rabbit = |name: &str, computes: &[&str]| {
        let access: Vec<_> = computes
            .iter()
            .zip(0..)
            .map(|(name, index)| json!({"name": name, "index": index}))
            .collect();
        json!({"type": "Rabbit", "name": name, "computesAccess": access})
    };
    serde_json::from_value(json!({
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"storageNodes": [rabbit("r1", &["c1", "c2", "c3"]), rabbit("r2", &["c4"])]},
    }))
    .unwrap()
}

fn hosts(text: &str) -> Vec<String> {
    directive::hostlist::expand(text).unwrap()
}

#[test]
fn rabbits_come_in_the_order_of_their_computes() {
    let served = served(&system(), &hosts("c4,c[1-2]")).unwrap();
    let served: Vec<_> =
        served.iter().map(|served| format!("{}:{}", served.rabbit, served.computes)).collect();
    assert_eq!(served, ["r2:1", "r1:2"]);
}

#[test]
fn computes_that_no_rabbit_serves_are_named() {
    let text = super::served(&system(), &hosts("c1,login[1-2]")).unwrap_err().text();
    assert!(text.starts_with("--nodes: no rabbit serves login[1-2]"), "{text}");
}

#[test]
fn sets_are_placed_on_the_rabbits_of_the_job() {
    let set = |strategy: &str, label: &str, count: Option<u32>| {
        let constraints = count.map_or(json!({}), |count| json!({"count": count}));
        json!({"allocationStrategy": strategy, "minimumCapacity": 300, "label": label, "constraints": constraints})
    };
    let breakdown: StorageBreakdown = serde_json::from_value(json!({"lifetime": "job", "allocationSets": [
        set("AllocatePerCompute", "xfs", None), set("AllocateAcrossServers", "ost", Some(2)), set("AllocateSingleServer", "mgt", None),
    ]}))
    .unwrap();
    let served = served(&system(), &hosts("c[1-4]")).unwrap();
    let sets = serde_json::to_value(sets(&breakdown, &served).unwrap()).unwrap();
    let on = |name: &str, count: u32| json!({"name": name, "allocationCount": count});
    assert_eq!(
        sets,
        json!([
            {"label": "xfs", "allocationSize": 300, "storage": [on("r1", 3), on("r2", 1)]},
            {"label": "ost", "allocationSize": 150, "storage": [on("r1", 1), on("r2", 1)]},
            {"label": "mgt", "allocationSize": 300, "storage": [on("r1", 1)]},
        ])
    );
}
