use super::*;

/// Returns one namespace for each digit.
fn namespaces(ids: &str) -> BTreeSet<Namespace> {
    let ids = ids.chars().filter_map(|digit| digit.to_digit(10));
    ids.map(|id| ("nqn.2026-01.io.warren:d0".to_owned(), id)).collect()
}

/// Compares computes `c0`, `c1` and so on: each has the namespaces that it has to reach and those that it reaches;
/// `?` for a silent one.
fn verdicts(computes: &[(&str, &str)]) -> Vec<Verdict> {
    let (mut expected, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for ((own, reached), index) in computes.iter().zip(0..) {
        let port = Port { rabbit: "r".to_owned(), index };
        let name = format!("c{index}");
        expected.insert(name.clone(), Expected { port, namespaces: namespaces(own) });
        let answer = match *reached {
            "?" => Seen::Unknown("not connected".to_owned()),
            reached => Seen::Namespaces(namespaces(reached)),
        };
        seen.insert(name, answer);
    }
    compare(&expected, &seen).into_values().collect()
}

fn swapped_with(with: &str) -> Verdict {
    Verdict::Swapped { with: with.to_owned() }
}

fn alike_with(others: &[&str]) -> Verdict {
    Verdict::Alike { others: others.iter().map(|name| (*name).to_owned()).collect() }
}

fn sees_storage_of(others: &[&str]) -> Verdict {
    Verdict::SeesOthers { others: others.iter().map(|name| (*name).to_owned()).collect() }
}

fn silent() -> Verdict {
    Verdict::Unknown { why: "not connected".to_owned() }
}

#[test]
fn compare_names_each_wrong_cable_and_never_calls_the_unknown_right() {
    let right = || Verdict::Right;
    for (computes, expected) in [
        (&[("1", "1"), ("2", "2")][..], vec![right(), right()]),
        // The compute's own drives have namespaces too.
        (&[("1", "19"), ("2", "28")], vec![right(), right()]),
        (
            &[("1", "2"), ("2", "1"), ("3", "3")],
            vec![swapped_with("c1"), swapped_with("c0"), right()],
        ),
        // Three cables in a circle.
        (
            &[("1", "2"), ("2", "3"), ("3", "1")],
            vec![sees_storage_of(&["c1"]), sees_storage_of(&["c2"]), sees_storage_of(&["c0"])],
        ),
        (&[("1", "2"), ("2", "?")], vec![sees_storage_of(&["c1"]), silent()]),
        (&[("1", "?"), ("", "?")], vec![silent(), silent()]),
        (&[("12", "")], vec![Verdict::Misses { missing: 2, expected: 2 }]),
        (&[("12", "1")], vec![Verdict::Misses { missing: 1, expected: 2 }]),
        // Fewer namespaces are no sign of another compute's cable.
        (&[("12", "1"), ("1", "1")], vec![Verdict::Misses { missing: 1, expected: 2 }, right()]),
        // A storage that all computes share tells none apart; one for even and one for odd computes tells neighbours
        // apart.
        (&[("1", "1"), ("1", "1")], vec![alike_with(&["c1"]), alike_with(&["c0"])]),
        (
            &[("1", "2"), ("2", "1"), ("1", "1"), ("2", "2")],
            vec![swapped_with("c1"), swapped_with("c0"), alike_with(&["c0"]), alike_with(&["c1"])],
        ),
        // Two swaps: which two belong together does not show.
        (
            &[("1", "2"), ("2", "1"), ("1", "2"), ("2", "1")],
            vec![
                sees_storage_of(&["c1", "c3"]),
                sees_storage_of(&["c0", "c2"]),
                sees_storage_of(&["c1", "c3"]),
                sees_storage_of(&["c0", "c2"]),
            ],
        ),
        (&[("", ""), ("1", "1")], vec![Verdict::Untested, right()]),
        (
            &[("", "1"), ("1", "")],
            vec![sees_storage_of(&["c1"]), Verdict::Misses { missing: 1, expected: 1 }],
        ),
        (
            &[("12", "13"), ("34", "34")],
            vec![Verdict::Mixed { missing: 1, others: vec!["c1".to_owned()] }, right()],
        ),
    ] {
        assert_eq!(verdicts(computes), expected, "{computes:?}");
    }
}

#[test]
fn a_compute_that_was_not_asked_is_unknown() {
    let port = Port { rabbit: "r".to_owned(), index: 0 };
    let expected = Expected { port, namespaces: namespaces("1") };
    let verdicts = compare(&BTreeMap::from([("c0".to_owned(), expected)]), &BTreeMap::new());
    assert_eq!(verdicts["c0"], Verdict::Unknown { why: "it was not asked".to_owned() });
}
