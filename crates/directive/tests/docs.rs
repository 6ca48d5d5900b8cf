//! The directives in the users' documents obey the shipped rules.

use directive::{Command, Presets, Ruleset, shipped};

#[test]
fn documented_directives_obey_the_shipped_rules() {
    let pages = [
        include_str!("../../../docs/use/directives.md"),
        include_str!("../../../docs/use/copies.md"),
    ];
    let lines = pages
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with("#DW "));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    assert_eq!(lines.len(), 11, "{lines:#?}");
    let mut presets = Presets::default();
    presets.add("small", "type=xfs capacity=1GiB").unwrap();
    let lines = presets.expand(&lines).unwrap_or_else(|problems| panic!("{problems}"));
    let ruleset = Ruleset::new(shipped());
    for line in lines {
        let directives = ruleset
            .check(std::slice::from_ref(&line))
            .unwrap_or_else(|problems| panic!("{problems}"));
        for directive in &directives {
            Command::try_from(directive).unwrap_or_else(|fault| panic!("{line}: {fault}"));
        }
    }
}
