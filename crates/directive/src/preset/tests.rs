use super::*;

fn site() -> Presets {
    let mut presets = Presets::default();
    presets.add("small", "type=xfs  capacity=1GiB").unwrap();
    presets.add("wide", "type=lustre capacity=10TiB profile=wide").unwrap();
    presets
}

fn expanded(presets: &Presets, line: &str) -> Result<String, String> {
    let lines = presets.expand(&[line.to_owned()]).map_err(|problems| problems.to_string())?;
    Ok(lines.concat())
}

#[test]
fn the_arguments_of_a_preset_take_the_place_of_its_name() {
    for (line, expected) in [
        ("#DW jobdw preset=small name=a", "#DW jobdw type=xfs capacity=1GiB name=a"),
        ("#DW jobdw name=a preset=small", "#DW jobdw name=a type=xfs capacity=1GiB"),
        (
            "#DW create_persistent name=a preset=wide",
            "#DW create_persistent name=a type=lustre capacity=10TiB profile=wide",
        ),
        ("#DW jobdw  type=xfs capacity=1GiB name=a", "#DW jobdw  type=xfs capacity=1GiB name=a"),
        ("no directive with preset=small", "no directive with preset=small"),
    ] {
        assert_eq!(expanded(&site(), line).unwrap(), expected, "{line}");
    }
}

#[test]
fn an_unknown_preset_and_a_repeated_argument_are_refused() {
    for (line, words) in [
        (
            "#DW jobdw preset=big name=a",
            "argument preset=big: the site has no such preset; write one of small, wide",
        ),
        ("#DW jobdw preset name=a", "argument preset=: the site has no such preset"),
        (
            "#DW jobdw preset=small capacity=2GiB name=a",
            "argument capacity is part of preset=small already, as capacity=1GiB",
        ),
    ] {
        let refusal = expanded(&site(), line).unwrap_err();
        assert!(refusal.contains(words), "{line}: {refusal}");
    }
}

#[test]
fn without_presets_the_rules_of_the_site_judge_the_argument() {
    let line = "#DW jobdw preset=small name=a";
    assert_eq!(expanded(&Presets::default(), line).unwrap(), line);
}

#[test]
fn a_preset_has_a_name_and_arguments_only() {
    for (name, text, words) in [
        ("a", "#DW jobdw type=xfs", "write only arguments"),
        ("a", "type=xfs type=raw", "occurs twice"),
        ("a", "preset=b", "cannot name a preset"),
        ("a", " ", "it has no argument"),
        ("a b", "type=xfs", "not one word"),
        ("", "type=xfs", "not one word"),
    ] {
        let refusal = Presets::default().add(name, text).unwrap_err().to_string();
        assert!(refusal.contains(words), "{name} {text}: {refusal}");
    }
}
