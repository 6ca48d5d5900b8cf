use super::*;
use serde::Deserialize;

/// An id set, and how Flux's library reads it.
#[derive(Debug, Deserialize)]
struct Vector {
    input: String,
    ids: Option<BTreeSet<u32>>,
    encode_range: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Golden {
    vectors: Vec<Vector>,
}

#[test]
fn id_sets_are_read_and_written_as_by_flux() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../tests/golden/idset.json")).unwrap();
    assert!(golden.vectors.len() > 10);
    let is_equal = |vector: &&Vector| {
        let ids = parse(&vector.input).ok();
        ids == vector.ids && ids.as_ref().map(format) == vector.encode_range
    };
    let different: Vec<_> = golden.vectors.iter().filter(|vector| !is_equal(vector)).collect();
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn too_large_sets_and_numbers_are_refused() {
    for text in [
        "0-1048576",
        "0-1048575,1048577",
        "4294967296",
        "0-4294967295",
        "4294967295,4294967296",
        "+1",
        "1-2-3",
    ] {
        assert_eq!(parse(text), Err(IdsetError(text.to_owned())), "{text}");
    }
    assert_eq!(parse("4294967295").map(|ids| ids.len()), Ok(1));
    assert_eq!(parse("1-1048576").map(|ids| ids.len()), Ok(1 << 20));
}
