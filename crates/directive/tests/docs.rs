//! The directives in the users' documents obey the shipped rules.

use directive::{Command, Ruleset, shipped};

#[test]
fn documented_directives_are_right() {
    let page = include_str!("../../../docs/use/directives.md");
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with("#DW "));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    assert_eq!(lines.len(), 10, "{lines:#?}");
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
