use super::*;
use proptest::prelude::*;

fn parsed(line: &str) -> Directive {
    line.parse().unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

fn refused(line: &str) -> SyntaxError {
    line.parse::<Directive>().unwrap_err()
}

#[test]
fn arguments_keep_their_order_and_their_equals_signs() {
    let directive = parsed("#DW jobdw  type=xfs\tcapacity=1GiB name=a=b=  bare empty=");
    assert_eq!(directive.command, "jobdw");
    let arguments: Vec<_> = directive.arguments.iter().map(ToString::to_string).collect();
    assert_eq!(arguments, ["type=xfs", "capacity=1GiB", "name=a=b=", "bare", "empty="]);
    assert_eq!(directive.value("name"), Some("a=b="));
    assert_eq!((directive.value("bare"), directive.value("empty")), (Some(""), Some("")));
    assert_eq!(directive.arguments[3].value, None);
    assert_eq!(directive.value("profile"), None);
}

#[test]
fn words_are_separated_by_any_unicode_white_space() {
    assert_eq!(
        parsed("\u{2003}#DW\u{a0}jobdw\u{2028}type=raw\u{85}"),
        parsed("#DW jobdw type=raw")
    );
}

#[test]
fn a_line_without_a_command_is_refused() {
    for line in ["#DW", "#DW  ", "  #DW\t"] {
        assert_eq!(refused(line).fault, SyntaxFault::NoCommand, "{line:?}");
    }
    assert_eq!(refused("#DW ").column, 4);
}

#[test]
fn a_line_that_is_not_a_directive_is_refused_with_the_column() {
    for (line, column) in
        [("", 1), ("jobdw type=xfs", 1), ("  #DWjobdw", 3), ("#dw jobdw", 1), ("# DW jobdw", 1)]
    {
        assert_eq!(refused(line), SyntaxError { column, fault: SyntaxFault::NoPrefix }, "{line:?}");
    }
    let nameless = refused("#DW jobdw ü =xfs");
    assert_eq!(nameless, SyntaxError { column: 13, fault: SyntaxFault::NoKey("=xfs".to_owned()) });
}

#[test]
fn a_comment_after_a_directive_is_refused() {
    for (line, column, word) in [
        ("#DW jobdw type=xfs name=a # scratch of 2 nodes", 27, "#"),
        ("#DW jobdw type=xfs #scratch type=xfs", 20, "#scratch"),
        ("#DW # jobdw", 5, "#"),
    ] {
        let error = refused(line);
        assert_eq!(error, SyntaxError { column, fault: SyntaxFault::Comment(word.to_owned()) });
        assert!(error.to_string().ends_with("write the comment on a separate line"), "{error}");
    }
}

#[test]
fn an_argument_in_the_place_of_the_command_is_refused() {
    let error = refused("#DW type=xfs capacity=1GiB name=a");
    let fault = SyntaxFault::ArgumentFirst("type=xfs".to_owned());
    assert_eq!(error, SyntaxError { column: 5, fault });
}

#[test]
fn a_repeated_key_is_refused_with_both_values() {
    let error = refused("#DW jobdw type=xfs name=a type=raw");
    assert_eq!(
        error.to_string(),
        r#"column 27: argument type occurs twice, with the values "xfs" and "raw"; remove one"#
    );
}

#[test]
fn split_cuts_a_text_at_each_word_dw() {
    assert_eq!(split(" #DW jobdw a=b   #DW  copy_in c=d "), ["#DW jobdw a=b", "#DW copy_in c=d"]);
    assert_eq!(split("#DW\tjobdw\n#DW copy_in"), ["#DW jobdw", "#DW copy_in"]);
    assert_eq!(split("#DW"), ["#DW"], "the missing command is reported later");
    assert_eq!(split("copy #DWx"), ["#DW copy #DWx"]);
    assert!(split(" ").is_empty());
}

/// Generates words that contain no blank and no `=`, and do not begin with `#`.
fn word() -> impl Strategy<Value = String> {
    "[^\\s=#\u{85}][^\\s=\u{85}]{0,7}"
}

proptest! {
    #[test]
    fn a_printed_directive_parses_to_the_same_directive(
        command in word(),
        arguments in proptest::collection::btree_map(word(), proptest::option::of("[^\\s\u{85}]{0,8}"), 0..6),
    ) {
        let arguments = arguments.into_iter().map(|(key, value)| Argument { key, value }).collect();
        let directive = Directive { command, arguments };
        prop_assert_eq!(&directive.to_string().parse::<Directive>().unwrap(), &directive);
    }

    #[test]
    fn the_amount_of_white_space_between_words_does_not_matter(gaps in proptest::collection::vec("[ \t\u{a0}\u{3000}]{1,3}", 3)) {
        let line = format!("{}#DW{}jobdw{}type=xfs", gaps[0], gaps[1], gaps[2]);
        prop_assert_eq!(line.parse::<Directive>().unwrap(), parsed("#DW jobdw type=xfs"));
    }

    #[test]
    fn no_line_panics(line in "(#DW)?[ =a-z#\\PC]{0,40}") {
        let _ = line.parse::<Directive>();
    }
}

/// Compares with the cases of Flux's own test. Leaves out cases whose input is no text, and cases with presets: a
/// preset is a name for a text in Flux's configuration.
#[test]
fn split_returns_the_lines_that_flux_returns_for_its_own_test_cases() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/golden/parse_dw_directives.json")).unwrap();
    let presets = golden["presets"].as_object().unwrap();
    let mut checked = 0;
    for case in golden["cases"].as_array().unwrap() {
        let texts = match &case["input"] {
            serde_json::Value::String(text) => vec![text.as_str()],
            serde_json::Value::Array(texts) => {
                texts.iter().map(|text| text.as_str().unwrap()).collect()
            }
            _ => continue,
        };
        if texts.iter().any(|text| presets.contains_key(text.trim())) {
            continue;
        }
        let expected: Vec<String> = serde_json::from_value(case["output"].clone()).unwrap();
        let lines: Vec<String> = texts.into_iter().flat_map(split).collect();
        assert_eq!(lines, expected, "{case}");
        checked += 1;
    }
    assert_eq!(checked, 9);
}
