//! Bash receives the values in a site's line as single words, whatever they contain.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeMap, time::Duration};

use process::Cmd;
use proptest::prelude::*;
use storage::template::SiteCommand;

fn output(line: &str) -> String {
    String::from_utf8(Cmd::shell(line).output(Duration::from_secs(60)).unwrap()).unwrap()
}

/// Values that a user might choose, with all characters that are special to bash.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1; rm -rf /".to_owned()),
        Just("$(id)".to_owned()),
        Just("`id`".to_owned()),
        Just("' \" \\ $HOME".to_owned()),
        "[ -~]{0,12}",
        r#"[$`"'\\;&|<>(){}* a]{0,10}"#,
    ]
}

fn site(line: &str, value: &str) -> String {
    let variables = BTreeMap::from([("$JOBID".to_owned(), value.to_owned())]);
    SiteCommand::new("hook", line, variables).unwrap().unwrap().expand(&BTreeMap::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Real bash passes the value on as one word with the same text, at any place in the line.
    #[test]
    fn bash_receives_an_expanded_value_as_one_word(value in hostile()) {
        for line in ["printf %s: $JOBID", "printf %s: \"$JOBID\"", "printf %s: '$JOBID'", "printf %s: \"\"$JOBID''"] {
            prop_assert_eq!(output(&site(line, &value)), format!("{}:", value), "{}", line);
        }
        let around = output(&site("printf %s: --tag=$JOBID/\"x $JOBID\"'$JOBID'", &value));
        prop_assert_eq!(around, format!("--tag={value}/x {value}{value}:"));
    }

    /// Where bash interprets a text twice, the special characters of the value are replaced.
    #[test]
    fn a_value_runs_no_command_inside_a_command_substitution(value in hostile()) {
        for line in ["echo \"$(echo \"$JOBID\")\"", "echo `echo $JOBID`", "echo $(printf %s '$JOBID')"] {
            let expanded = site(line, &value);
            let defused: String = line.replace("$JOBID", "");
            let added: String = expanded.chars().filter(|char| "$`;&|<>(){}\"'\\*".contains(*char)).collect();
            let own: String = defused.chars().filter(|char| "$`;&|<>(){}\"'\\*".contains(*char)).collect();
            prop_assert_eq!(added.replace("''", ""), own.replace("''", ""), "{}", expanded);
        }
    }
}
