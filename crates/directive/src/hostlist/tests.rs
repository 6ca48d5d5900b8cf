use super::*;
use proptest::prelude::*;
use serde::Deserialize;

/// A host list, and the hosts that Flux's library returns for this list.
#[derive(Debug, Deserialize)]
struct Decoded {
    input: String,
    hosts: Option<Vec<String>>,
    encode: Option<String>,
    sort_encode: Option<String>,
    uniq_encode: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Appended {
    append_each: Vec<String>,
    encode: String,
    sort_encode: String,
    uniq_encode: String,
}

/// For each host of `delete`, the first equal host of `list` is removed.
#[derive(Debug, Deserialize)]
struct Deleted {
    list: String,
    delete: String,
    removed: usize,
    result: String,
}

#[derive(Debug, Deserialize)]
struct Found {
    list: String,
    find: String,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Golden {
    decode: Vec<Decoded>,
    append: Vec<Appended>,
    delete: Vec<Deleted>,
    find: Vec<Found>,
}

/// Lists that this parser refuses, and that Flux's library reads as other hosts than the author meant.
const REFUSED_HERE: [&str; 2] = ["el[1-]", "foo[1-2]-[3-4]"];

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../tests/golden/hostlist.json")).unwrap()
}

fn sorted(hosts: &[String]) -> Vec<String> {
    let mut hosts = hosts.to_vec();
    sort(&mut hosts);
    hosts
}

#[test]
fn lists_are_expanded_and_compressed_as_by_flux() {
    let cases = golden().decode;
    assert!(cases.len() > 30);
    for case in cases {
        let expanded = expand(&case.input);
        let (Some(hosts), false) = (&case.hosts, REFUSED_HERE.contains(&case.input.as_str()))
        else {
            assert!(expanded.is_err(), "{:?}", case.input);
            continue;
        };
        if hosts.is_empty() && !case.input.is_empty() {
            // Flux drops a host whose number exceeds 64 bits; this parser takes the whole text as a host's name.
            assert_eq!(expanded.unwrap(), [case.input.as_str()]);
            continue;
        }
        assert_eq!(&expanded.unwrap(), hosts, "{:?}", case.input);
        assert_eq!(Some(compress(hosts)), case.encode, "{:?}", case.input);
        let mut hosts = sorted(hosts);
        assert_eq!(Some(compress(&hosts)), case.sort_encode, "{:?}", case.input);
        hosts.dedup();
        assert_eq!(Some(compress(&hosts)), case.uniq_encode, "{:?}", case.input);
    }
}

#[test]
fn names_are_compressed_into_ranges_as_by_flux() {
    for case in golden().append {
        assert_eq!(compress(&case.append_each), case.encode);
        assert_eq!(compress(&sorted(&case.append_each)), case.sort_encode);
        assert_eq!(compress(&sort_unique(case.append_each)), case.uniq_encode);
    }
}

#[test]
fn hosts_are_equal_only_with_the_same_leading_zeros_as_for_flux() {
    for case in golden().delete {
        let mut hosts = expand(&case.list).unwrap();
        let before = hosts.len();
        for name in expand(&case.delete).unwrap() {
            if let Some(place) = hosts.iter().position(|host| *host == name) {
                hosts.remove(place);
            }
        }
        assert_eq!((before - hosts.len(), compress(&hosts)), (case.removed, case.result));
    }
    for case in golden().find {
        let hosts = expand(&case.list).unwrap();
        assert_eq!(hosts.iter().position(|host| *host == case.find), case.index, "{}", case.find);
    }
}

#[test]
fn expand_refuses_an_invalid_list_with_its_fault() {
    for text in [
        "a[",
        "a]",
        "a[]",
        "a[1",
        "a[1-]",
        "a[-1]",
        "a[1--3]",
        "a[x]",
        "a[1]b[2]",
        "a[18446744073709551616]",
        "a\nb",
    ] {
        assert_eq!(expand(text), Err(HostlistError::Malformed(text.to_owned())), "{text:?}");
    }
    assert_eq!(expand("a[3-1]"), Err(HostlistError::Reversed("a[3-1]".to_owned())));
    for text in ["a[0-1048576]", "a[0-18446744073709551615]", "a[1-600000],b[1-600000]"] {
        assert_eq!(expand(text), Err(HostlistError::TooMany(text.to_owned())), "{text}");
    }
    assert_eq!(expand("a[1-1048576]").map(|hosts| hosts.len()), Ok(MOST));
}

proptest! {
    #[test]
    fn a_compressed_list_expands_to_the_same_hosts(hosts in proptest::collection::vec("[a-c]{0,2}-?0{0,2}[0-9]{1,2}(x|-eth0)?", 0..40)) {
        let text = compress(&hosts);
        prop_assert_eq!(expand(&text).unwrap(), hosts, "{}", text);
    }

    #[test]
    fn no_list_panics(text in "[a-z0-9,\\[\\] -]{0,30}") {
        let _ = expand(&text);
    }
}
