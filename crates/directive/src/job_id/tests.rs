use super::*;
use proptest::prelude::*;

/// Returns the id in F58 as Flux writes it.
fn f58(mut id: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = usize::try_from(id % 58).unwrap_or_default();
        digits.extend(DIGITS.get(digit).copied().map(char::from));
        id /= 58;
        if id == 0 {
            break;
        }
    }
    std::iter::once('f').chain(digits.into_iter().rev()).collect()
}

#[test]
fn f58_ids_are_read_as_flux_writes_them() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/golden/jobid_f58.json")).unwrap();
    let pairs: Vec<(u64, String)> = serde_json::from_value(golden["pairs"].clone()).unwrap();
    assert_eq!(pairs.len(), 8);
    for (id, text) in pairs {
        assert_eq!(f58(id), text);
        assert_eq!(number(&text), Ok(id));
    }
    assert_eq!(number("ƒ2AVx5nQsoRy"), number("501360523054545920"));
}

#[test]
fn a_text_that_is_not_a_job_id_is_refused() {
    for text in [
        "",
        "f",
        "f0",
        "fO",
        "f2 ",
        "+1",
        "-1",
        "fluxjob-1",
        "fzzzzzzzzzzzz",
        "18446744073709551616",
    ] {
        assert_eq!(number(text), Err(NoJobId(text.to_owned())), "{text}");
    }
}

proptest! {
    #[test]
    fn every_id_in_f58_is_read_back(id: u64) {
        prop_assert_eq!(number(&f58(id)), Ok(id));
        prop_assert_eq!(number(&id.to_string()), Ok(id));
    }
}
