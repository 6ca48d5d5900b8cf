use super::*;
use crate::breakdown::Strategy;
use proptest::prelude::{Just, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use serde_json::Value;

fn strategy(text: &str) -> Strategy {
    match text {
        "AllocatePerCompute" => Strategy::PerCompute,
        "AllocateSingleServer" => Strategy::SingleServer,
        _ => Strategy::AcrossServers,
    }
}

fn wanted_set(set: &Value) -> Wanted {
    Wanted {
        label: set["label"].as_str().unwrap().to_owned(),
        strategy: strategy(set["allocationStrategy"].as_str().unwrap()),
        minimum_capacity: set["minimumCapacity"].as_u64().unwrap(),
        count: set["constraints"]["count"].as_u64().map(|count| u32::try_from(count).unwrap()),
    }
}

fn placed_in(set: &Value) -> PlacedSet {
    let storage = set["storage"].as_array().unwrap().iter().map(|placed| Placed {
        rabbit: placed["name"].as_str().unwrap().to_owned(),
        count: u32::try_from(placed["allocationCount"].as_u64().unwrap()).unwrap(),
    });
    PlacedSet {
        label: set["label"].as_str().unwrap().to_owned(),
        allocation_size: set["allocationSize"].as_u64().unwrap(),
        storage: storage.collect(),
    }
}

/// Returns the pairs of an object in the order of the file, which a map does not keep.
fn in_order(text: &str, object: &Value) -> Vec<Served> {
    let object = object.as_object().unwrap();
    let mut served: Vec<_> = object
        .iter()
        .map(|(rabbit, computes)| Served {
            rabbit: rabbit.clone(),
            computes: u32::try_from(computes.as_u64().unwrap()).unwrap(),
        })
        .collect();
    served.sort_by_key(|served| text.find(&format!("'{}':", served.rabbit)).unwrap_or_default());
    served
}

#[test]
fn allocations_go_where_flux_puts_them() {
    let golden: Value =
        serde_json::from_str(include_str!("../../tests/golden/build_allocation_sets.json"))
            .unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 18);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let sets: Vec<_> =
            case["allocationSets"].as_array().unwrap().iter().map(wanted_set).collect();
        let served = in_order(name, &case["nodes_per_rabbit"]);
        let least = case["min_alloc_gib"].as_u64().unwrap() << 30;
        let expected: Vec<_> = case["output"].as_array().unwrap().iter().map(placed_in).collect();
        assert_eq!(place(&sets, &served, least), Ok(expected), "{name}");
    }
}

#[test]
fn without_a_rabbit_nothing_is_placed() {
    assert_eq!(place(&[], &[], 0), Err(NoRabbits));
    assert_eq!(place(&[], &[Served { rabbit: "r".to_owned(), computes: 0 }], 0), Err(NoRabbits));
}

fn any_set() -> impl proptest::strategy::Strategy<Value = Wanted> {
    let strategy = prop_oneof![
        Just(Strategy::PerCompute),
        Just(Strategy::AcrossServers),
        Just(Strategy::SingleServer)
    ];
    let count = proptest::option::of(0_u32..50);
    (strategy, 1..=u64::MAX, count).prop_map(|(strategy, minimum_capacity, count)| Wanted {
        label: "any".to_owned(),
        strategy,
        minimum_capacity,
        count,
    })
}

proptest! {
    /// The total suffices, and each rabbit occurs once with at least one allocation.
    #[test]
    fn the_placed_capacity_suffices(set in any_set(), computes in proptest::collection::vec(0_u32..20, 1..8), least in 0_u64..1 << 33) {
        let served: Vec<_> = computes.iter().enumerate().map(|(k, computes)| Served { rabbit: k.to_string(), computes: *computes }).collect();
        let Ok(placed) = place(std::slice::from_ref(&set), &served, least) else {
            prop_assert!(computes.iter().all(|computes| *computes == 0));
            return Ok(());
        };
        let placed = &placed[0];
        let mut rabbits: Vec<_> = placed.storage.iter().map(|placed| &placed.rabbit).collect();
        rabbits.sort();
        rabbits.dedup();
        prop_assert_eq!(rabbits.len(), placed.storage.len());
        prop_assert!(placed.storage.iter().all(|placed| placed.count > 0));
        prop_assert!(placed.allocation_size >= least);
        let count: u128 = placed.storage.iter().map(|placed| u128::from(placed.count)).sum();
        match set.strategy {
            Strategy::PerCompute => {
                prop_assert!(placed.allocation_size >= set.minimum_capacity);
                prop_assert_eq!(count, computes.iter().map(|computes| u128::from(*computes)).sum::<u128>());
            }
            Strategy::SingleServer => prop_assert_eq!(count, 1),
            Strategy::AcrossServers => {
                prop_assert!(u128::from(placed.allocation_size) * count >= u128::from(set.minimum_capacity));
            }
        }
    }
}
