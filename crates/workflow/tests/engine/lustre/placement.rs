//! A workload manager fills the Servers of a Lustre, but not as the breakdown asks.

use serde_json::json;

use super::{LUSTRE, two_rabbits, with_profile};

#[test]
fn lustre_sets_that_do_not_fit_the_breakdown_fail() {
    let whole = 20_000_000_000_i64;
    for (targets, size, part) in [
        (2, whole, "Servers asks for 2 allocations of mgt, and the breakdown for 1"),
        (
            1,
            whole / 2 - 1,
            "Servers gives ost too little: allocationSize times all allocationCounts is 19999999998 bytes, and 20000000000 are needed",
        ),
    ] {
        let mut site = two_rabbits();
        with_profile(&mut site, &json!({"combinedMgtMdt": false}));
        site.propose("w", LUSTRE, &["c1", "d1"]);
        let fill = |site: &mut crate::site::Site, targets, size| {
            let sets: [(&str, &[_]); 3] =
                [("ost", &[("r", 1), ("s", 1)]), ("mdt", &[("r", 1)]), ("mgt", &[("s", targets)])];
            site.fill_servers("w", &sets);
            site.edit("Servers", "default", "w-0", |object| {
                object["spec"]["allocationSets"][0]["allocationSize"] = json!(size);
            });
        };
        fill(&mut site, targets, size);
        site.request_state_and_settle("w", "Setup");
        let (_, ready, status, message) = site.status_of("w");
        assert_eq!((ready, &*status), (false, "Error"), "{message}");
        assert!(message.contains(part), "{message}");
        assert!(site.names("NnfNodeBlockStorage").is_empty(), "{part}");
        // After a correction the workflow continues.
        fill(&mut site, 1, whole / 2);
        site.settle();
        assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
        site.remove("w");
    }
}
