//! Starts the program with the command line and environment of nnf-node-manager.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails its test")]

use assert_cmd::Command;

fn agent(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rabbit-agent"));
    command.env_clear().args(args).envs(environment.iter().copied());
    let output = command.timeout(std::time::Duration::from_secs(30)).output().unwrap();
    let expected = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(expected).unwrap())
}

#[test]
fn the_environment_of_nnf_node_manager_is_read() {
    // No node can have a name with a space, so the start fails with a text that shows which option or variable the name
    // came from.
    for (environment, expected) in [
        (&[("NNF_NODE_NAME", "a b")][..], "\"a b\""),
        (&[("NNF_NODE_NAME", "rabbit-1"), ("WARREN_NODE", "c d")], "\"c d\""),
        (
            &[("NNF_NODE_NAME", "rabbit-1"), ("NNF_COMMAND_TIMEOUT_SECONDS", "soon")],
            "'soon' for '--command-deadline",
        ),
    ] {
        let (code, text) = agent(&[], environment);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{environment:?}: {text}");
    }
}

#[test]
fn in_a_pod_the_default_api_is_the_api_of_the_cluster() {
    let state = tempfile::tempdir().unwrap();
    let state = ["--state-dir", state.path().to_str().unwrap()];
    let pod = [
        ("NNF_NODE_NAME", "rabbit-1"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
    ];
    let line = ["--controller=node", "--deleteUnknownVolumes", "--replaceMissingVolumes"];
    // The pod has no token of a service account; the error shows that the agent looked for a token.
    let (code, text) = agent(&[&line[..], &state].concat(), &pod);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("find the cluster of this pod"), "{text}");
}

#[test]
fn dangerous_and_invalid_flags_stop_the_start() {
    for (line, expected) in [
        (&["-purge"][..], "--purge would delete every volume"),
        (&["--initializeAndExit"], "--initializeAndExit would stop"),
        (&["-direct", "nvme.*"], "--direct nvme.*"),
        (&["--mock"], "--file-pool DIR"),
        (&["--controller", "storage"], "nnf-controller-manager"),
        (&["-health-probe-bind-address", "8081"], "use HOST:PORT, :PORT, or 0"),
    ] {
        let (code, text) = agent(&[&["--node", "rabbit-1"], line].concat(), &[]);
        assert_eq!(code, Some(2), "{line:?}: {text}");
        assert!(text.contains(expected), "{line:?}: {text}");
    }
}

#[test]
fn the_version_command_prints_one_line() {
    for line in ["--version", "version"] {
        let (code, text) = agent(&[line], &[]);
        assert_eq!((code, text.lines().count()), (Some(0), 1), "{text}");
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    }
}
