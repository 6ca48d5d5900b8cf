use super::*;

fn parse(text: &str) -> Command {
    Command::parse(text).unwrap()
}

#[test]
fn commands_of_launchers_are_split_into_words() {
    let cases: [(&str, &[&str]); 6] = [
        ("orted -mca ess \"env\"", &["orted", "-mca", "ess", "env"]),
        (
            "orted -mca orte_node_regex \"w-launcher,w-worker-[1:0-1]@0(3)\"",
            &["orted", "-mca", "orte_node_regex", "w-launcher,w-worker-[1:0-1]@0(3)"],
        ),
        ("\"/usr/bin/hydra_pmi_proxy\" --rmk user", &["/usr/bin/hydra_pmi_proxy", "--rmk", "user"]),
        ("( test ! -r ./.profile || . ./.profile; orted a )", &["orted", "a"]),
        ("echo '$(id); `id`' \\; a\\ b", &["echo", "$(id); `id`", ";", "a b"]),
        (
            "a * ?.c [ab] {a,b} a#b a~ '~' \\#",
            &["a", "*", "?.c", "[ab]", "{a,b}", "a#b", "a~", "~", "#"],
        ),
    ];
    for (text, words) in cases {
        assert_eq!(parse(text).words, words, "{text}");
    }
}

#[test]
fn variables_that_open_mpi_sets_for_a_prefix_are_parsed() {
    let command = parse(
        "PATH=/opt/ompi/bin:$PATH ; export PATH ; \
         LD_LIBRARY_PATH=/opt/ompi/lib:${LD_LIBRARY_PATH} ; export LD_LIBRARY_PATH; \
         export OPAL_PREFIX=\"/opt/o mpi\";  /opt/ompi/bin/orted a",
    );
    assert_eq!(command.words, ["/opt/ompi/bin/orted", "a"]);
    let has = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
    let expected = [
        ("PATH", "/opt/ompi/bin:/bin"),
        ("LD_LIBRARY_PATH", "/opt/ompi/lib:"),
        ("OPAL_PREFIX", "/opt/o mpi"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(command.environment(has), expected);
}

#[test]
fn a_reference_is_the_worker_s_value_or_the_launcher_s_default() {
    // The output of `sh` if A is unset, empty, or `a`.
    let cases = [
        ("l:$A", ["l:", "l:", "l:a"]),
        ("l:${A}:r", ["l::r", "l::r", "l:a:r"]),
        ("l:${A:-}", ["l:", "l:", "l:a"]),
        ("${A:-x}y", ["xy", "xy", "ay"]),
        ("${A-x}", ["x", "", "a"]),
        ("${A:+x}", ["", "", "x"]),
        ("${A+x}", ["", "x", "x"]),
        ("$A$A", ["", "", "aa"]),
    ];
    for (text, expected) in cases {
        for (own, expected) in [None, Some(""), Some("a")].into_iter().zip(expected) {
            let environment = parse(&format!("V={text}; c")).environment(|name| {
                assert_eq!(name, "A");
                own.map(str::to_owned)
            });
            assert_eq!(environment, [("V".to_owned(), expected.to_owned())], "{text} with {own:?}");
        }
    }
}

#[test]
fn a_variable_may_refer_to_an_earlier_variable() {
    let command = parse("A=x; B=${A:-y}; c");
    let environment = command.environment(|_| Some("own".to_owned()));
    assert_eq!(environment[1], ("B".to_owned(), "x".to_owned()));
}

#[test]
fn a_command_that_needs_a_shell_is_rejected() {
    for text in [
        "a | b",
        "a && b",
        "a > b",
        "(a)",
        "a\nb",
        "a `b`",
        "a \"`b`\"",
        "a $B",
        "a \"$B\"",
        "a #b",
        "# a",
        "~/a",
        "a ~",
        "A=~/b; c",
        "A=b:~/c; d",
    ] {
        let error = Command::parse(text).unwrap_err();
        assert!(matches!(error, CommandError::Shell { .. }), "{text}: {error}");
    }
    for text in ["a b; c", "a.b=c; d", "A='$B'; c", "A=\\$B; c"] {
        let error = Command::parse(text).unwrap_err();
        assert!(matches!(error, CommandError::NoVariable(_)), "{text}: {error}");
    }
    for text in [
        "A=\"$(id)\"; c",
        "A=${B; c",
        "A=${B:=x}; c",
        "A=${B%x}; c",
        "A=${#B}; c",
        "A=$1; c",
        "A=$; c",
        "A=${B:-${C}}; d",
    ] {
        let error = Command::parse(text).unwrap_err();
        assert!(matches!(error, CommandError::Reference(_)), "{text}: {error}");
    }
    for text in ["", " ; "] {
        assert_eq!(Command::parse(text), Err(CommandError::Empty), "{text:?}");
    }
    assert!(matches!(Command::parse("a 'b"), Err(CommandError::Quote(_))));
}
