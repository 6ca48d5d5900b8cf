use super::*;

fn of(text: &str) -> Command {
    Command::of(text).unwrap()
}

#[test]
fn what_launchers_write_is_cut_into_words() {
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
        assert_eq!(of(text).words, words, "{text}");
    }
}

#[test]
fn a_prefix_becomes_variables_of_the_command() {
    let command = of("PATH=/opt/ompi/bin:$PATH ; export PATH ; \
         LD_LIBRARY_PATH=/opt/ompi/lib:${LD_LIBRARY_PATH} ; export LD_LIBRARY_PATH; \
         export OPAL_PREFIX=\"/opt/o mpi\";  /opt/ompi/bin/orted a");
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
fn a_reference_is_what_the_worker_has_or_what_the_launcher_says_instead() {
    // What `sh` says where A is not set, is empty, is `a`.
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
            let told = of(&format!("V={text}; c")).environment(|name| {
                assert_eq!(name, "A");
                own.map(str::to_owned)
            });
            assert_eq!(told, [("V".to_owned(), expected.to_owned())], "{text} with {own:?}");
        }
    }
}

#[test]
fn a_variable_that_the_launcher_set_before_counts() {
    let command = of("A=x; B=${A:-y}; c");
    let told = command.environment(|_| Some("own".to_owned()));
    assert_eq!(told[1], ("B".to_owned(), "x".to_owned()));
}

#[test]
fn what_needs_a_shell_is_refused() {
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
        let told = Command::of(text).unwrap_err();
        assert!(matches!(told, CommandError::Shell { .. }), "{text}: {told}");
    }
    for text in ["a b; c", "a.b=c; d", "A='$B'; c", "A=\\$B; c"] {
        let told = Command::of(text).unwrap_err();
        assert!(matches!(told, CommandError::NoVariable(_)), "{text}: {told}");
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
        let told = Command::of(text).unwrap_err();
        assert!(matches!(told, CommandError::Reference(_)), "{text}: {told}");
    }
    for text in ["", " ; "] {
        assert_eq!(Command::of(text), Err(CommandError::Empty), "{text:?}");
    }
    assert!(matches!(Command::of("a 'b"), Err(CommandError::Quote(_))));
}
