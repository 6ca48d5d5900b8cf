use super::*;

const JOBDW: &str = "#DW jobdw type=xfs capacity=10GiB name=foo";

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Returns the index and fault of each problem, without the line that the problem quotes.
fn faults(ruleset: &Ruleset, directives: &[&str]) -> Vec<String> {
    let Err(Problems(problems)) = ruleset.check(&lines(directives)) else { return Vec::new() };
    problems.iter().map(|problem| format!("{}: {}", problem.index, problem.fault)).collect()
}

fn faults_by_shipped_rules(directives: &[&str]) -> Vec<String> {
    faults(&Ruleset::new(shipped()), directives)
}

#[test]
fn the_shipped_rules_have_no_faults() {
    assert_eq!(Ruleset::new(shipped()).faults().next(), None);
}

#[test]
fn good_directives_obey_the_shipped_rules() {
    let good = [
        JOBDW,
        "#DW jobdw capacity=1KB   profile=my-p requires=copy-offload,user-container-auth type=lustre name=a-b2",
        "#DW create_persistent type=lustre name=shared",
        "#DW create_persistent type=raw name=other capacity=4TB profile=p2",
        "#DW destroy_persistent name=shared",
        "#DW persistentdw name=shared requires=copy-offload",
        "#DW copy_in source=/lus/a=b destination=$DW_JOB_foo/",
        "#DW copy_out source=$DW_JOB_foo/ destination=/lus/a profile=no-xattr",
        "#DW container name=cc profile=pp DW_JOB_x_y=foo DW_GLOBAL_z1=/lus",
    ];
    assert_eq!(faults_by_shipped_rules(&good), [""; 0]);
}

#[test]
fn a_directive_that_breaks_a_rule_is_refused_with_argument_value_and_remedy() {
    for (line, expected) in [
        (
            "#DW",
            "0: column 4: no command follows #DW; write one, such as `#DW jobdw type=xfs capacity=1GiB name=scratch`",
        ),
        (
            "#DW swap 1GiB",
            "0: command \"swap\" is unknown; write one of container, copy_in, copy_out, create_persistent, destroy_persistent, jobdw, persistentdw",
        ),
        (
            "#DW destroy_persistent name=aa size=3",
            "0: argument \"size=3\": destroy_persistent has no such argument; write one of name",
        ),
        (
            "#DW jobdw type=ext4 capacity=1GiB name=foo",
            "0: argument type=ext4: the value must be a text that matches ^(raw|xfs|gfs2|lustre)$",
        ),
        (
            "#DW jobdw type=xfs capacity=10 name=foo",
            "0: argument capacity=10: the value must be a text that matches ^\\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$",
        ),
        (
            "#DW jobdw type=xfs capacity=1GiB name=foo profile",
            "0: argument \"profile\" needs a value; write profile=VALUE, matching ^[a-z][a-z0-9-]+$",
        ),
        (
            "#DW jobdw type=xfs capacity=1GiB name=foo requires=copy-offload,nothing",
            "0: argument requires=copy-offload,nothing: the value must be words separated by commas, each of which matches ^copy-offload$ or ^user-container-auth$",
        ),
        (
            "#DW jobdw type=xfs capacity=1GiB name=foo requires=copy-offload,copy-offload",
            "0: argument requires=copy-offload,copy-offload: the word \"copy-offload\" occurs twice; remove one",
        ),
        (
            "#DW persistentdw",
            "0: argument name is missing; add name=VALUE, matching ^[a-z][a-z0-9-]+$",
        ),
    ] {
        assert_eq!(faults_by_shipped_rules(&[line]), [expected], "{line}");
    }
}

#[test]
fn names_and_profiles_must_match_their_pattern() {
    for name in ["f", "1a", "_a", "-a", "a!b", "aB", "a_b", "", "a b"] {
        let line = format!("#DW jobdw type=xfs capacity=1GiB name={name}");
        assert!(!faults_by_shipped_rules(&[&line]).is_empty(), "{name:?}");
        assert!(
            !faults_by_shipped_rules(&[&format!("{JOBDW} profile={name}")]).is_empty(),
            "{name:?}"
        );
    }
}

#[test]
fn problems_are_listed_in_the_order_of_the_text() {
    let found = faults_by_shipped_rules(&[
        "#DW jobdw name=F capacity=x colour=red",
        "no directive",
        JOBDW,
        JOBDW,
    ]);
    let starts: Vec<_> = found.iter().map(|text| text.split([';', '^']).next().unwrap()).collect();
    assert_eq!(
        starts,
        [
            "0: argument name=F: the value must be a text that matches ",
            "0: argument capacity=x: the value must be a text that matches ",
            "0: argument \"colour=red\": jobdw has no such argument",
            "0: argument type is missing",
            "1: column 1: the line does not begin with the word #DW",
            "3: argument name=foo: directive 2 has the same name",
        ]
    );
}

#[test]
fn a_problem_quotes_its_directive() {
    let problems =
        Ruleset::new(shipped()).check(&lines(&["#DW jobdw", "x"])).unwrap_err().to_string();
    assert!(
        problems.starts_with("DW directive 0 `#DW jobdw`: argument type is missing"),
        "{problems}"
    );
    assert!(problems.contains("; DW directive 1 `x`: column 1"), "{problems}");
}

#[test]
fn without_rules_only_a_workflow_without_directives_passes() {
    let none = Ruleset::new(Vec::new());
    assert_eq!(none.check(&[]), Ok(Vec::new()));
    assert_eq!(
        faults(&none, &[JOBDW]),
        [
            "0: the site has no DWDirectiveRule to check the directive with; ask the administrator to install the site's rules"
        ]
    );
}

/// Returns a rule for a command that only one site has.
fn site_rule(defs: Vec<RuleDef>) -> Rule {
    Rule {
        object: "site".to_owned(),
        command: "stage".to_owned(),
        watch_states: "Proposal, DataIn".to_owned(),
        rule_defs: defs,
        ..Rule::default()
    }
}

fn def(key: &str, kind: &str) -> RuleDef {
    RuleDef { key: key.to_owned(), kind: kind.to_owned(), ..RuleDef::default() }
}

#[test]
fn integers_have_bounds_and_zero_means_no_bound() {
    let ruleset = Ruleset::new(vec![site_rule(vec![
        RuleDef { min: 2, max: 4, ..def("^n$", "integer") },
        def("^m$", "integer"),
    ])]);
    for good in ["n=2", "n=4", "m=-7", "m=+7"] {
        assert_eq!(faults(&ruleset, &[&format!("#DW stage {good}")]), [""; 0], "{good}");
    }
    for (bad, expected) in [
        ("n=1", "from 2 to 4"),
        ("n=5", "from 2 to 4"),
        ("n=x", "from 2 to 4"),
        ("m=1.5", "an integer"),
        ("m", "an integer"),
    ] {
        assert!(faults(&ruleset, &[&format!("#DW stage {bad}")])[0].contains(expected), "{bad}");
    }
}

#[test]
fn a_key_without_a_value_is_true() {
    let ruleset = Ruleset::new(vec![site_rule(vec![
        def("^b$", "bool"),
        RuleDef { is_value_required: true, ..def("^v$", "bool") },
    ])]);
    for good in ["b", "b=true", "b=FALSE", "v=true"] {
        assert_eq!(faults(&ruleset, &[&format!("#DW stage {good}")]), [""; 0], "{good}");
    }
    for bad in ["b=0", "b=hello", "b=", "v", "v="] {
        assert_eq!(faults(&ruleset, &[&format!("#DW stage {bad}")]).len(), 1, "{bad}");
    }
}

#[test]
fn the_first_definition_that_matches_a_key_counts() {
    let ruleset = Ruleset::new(vec![site_rule(vec![
        def("DW_JOB_", "string"),
        RuleDef { is_required: true, ..def("JOB", "integer") },
    ])]);
    assert_eq!(faults(&ruleset, &["#DW stage my_DW_JOB_x=text JOB=3"]), [""; 0]);
    assert_eq!(
        faults(&ruleset, &["#DW stage my_DW_JOB_x=3"]),
        ["0: argument JOB is missing; add JOB=NUMBER"]
    );
}

#[test]
fn a_malformed_rule_refuses_its_own_command_only() {
    let broken = [
        (def("(", "string"), "key is \"(\""),
        (RuleDef { pattern: "[".to_owned(), ..def("k", "string") }, "pattern is \"[\""),
        (
            RuleDef { patterns: vec!["*".to_owned()], ..def("k", "list-of-string") },
            "patterns is \"*\"",
        ),
        (def("k", "float"), "type is \"float\": not one of integer, bool, string, list-of-string"),
    ];
    for (def, expected) in broken {
        let mut rules = shipped();
        rules.push(site_rule(vec![def]));
        let ruleset = Ruleset::new(rules);
        assert_eq!(ruleset.faults().count(), 1);
        let found = faults(&ruleset, &["#DW stage k=1", JOBDW]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("DWDirectiveRule site, command stage, ruleDefs[0].")
                && found[0].contains(expected),
            "{found:?}"
        );
    }
}

#[test]
fn a_directive_obeys_every_rule_of_its_command() {
    let mut rules = shipped();
    let unique = RuleDef { unique_within: "jobdw_name".to_owned(), ..def("name", "string") };
    rules.push(Rule {
        object: "other".to_owned(),
        driver_label: "burst".to_owned(),
        command: "jobdw".to_owned(),
        watch_states: "PreRun".to_owned(),
        rule_defs: vec![unique, def("^(type|capacity)$", "string")],
    });
    let ruleset = Ruleset::new(rules);
    let directives = ruleset.check(&lines(&[JOBDW])).unwrap();
    let drivers: Vec<_> = ruleset
        .drivers(&directives)
        .into_iter()
        .map(|driver| (driver.driver, driver.state))
        .collect();
    let expected = ["Proposal", "Setup", "PreRun", "PostRun", "Teardown"]
        .map(|state| ("nnf".to_owned(), state.to_owned()));
    assert_eq!(drivers[..5], expected);
    assert_eq!(drivers[5..], [("burst".to_owned(), "PreRun".to_owned())]);
    assert_eq!(
        faults(&ruleset, &[&format!("{JOBDW} profile=pp")]),
        [
            "0: argument \"profile=pp\": jobdw has no such argument; write one of name, (type|capacity)"
        ]
    );
}

#[test]
fn drivers_work_in_the_states_of_their_directives() {
    let ruleset = Ruleset::new(shipped());
    for (line, expected) in [
        (JOBDW, "Proposal Setup PreRun PostRun Teardown"),
        ("#DW create_persistent type=xfs name=aa capacity=1GB", "Proposal Setup Teardown"),
        ("#DW destroy_persistent name=aa", "Proposal Teardown"),
        ("#DW persistentdw name=aa", "Proposal Setup PreRun PostRun Teardown"),
        ("#DW copy_in source=a destination=b", "Proposal DataIn Teardown"),
        ("#DW copy_out source=a destination=b", "Proposal DataOut Teardown"),
        ("#DW container name=cc profile=pp", "Proposal Setup PreRun PostRun Teardown"),
    ] {
        let directives = ruleset.check(&lines(&[line])).unwrap();
        let drivers = ruleset.drivers(&directives);
        assert!(
            drivers.iter().all(|driver| driver.driver == "nnf" && driver.directive == 0),
            "{line}"
        );
        let states: Vec<_> = drivers.iter().map(|driver| driver.state.as_str()).collect();
        assert_eq!(states.join(" "), expected, "{line}");
    }
}
