use daemon::chain;

use super::*;

fn check(args: &[&str]) -> Result<Config, String> {
    check_as("/usr/bin/clientmount-agent", args)
}

fn check_as(program: &str, args: &[&str]) -> Result<Config, String> {
    let line = std::iter::once(&program).chain(args).map(OsString::from);
    let args = Args::read(line).map_err(|error| error.to_string())?;
    args.check().map_err(|error| chain(&error))
}

const SERVER: [&str; 4] = [
    "-kubernetes-service-host=10.0.0.1",
    "--kubernetes-service-port",
    "6443",
    "-service-token-file=/etc/client-mount/service.token",
];

#[test]
fn the_flags_of_the_go_daemon_name_the_api() {
    let more = [
        "--service-cert-file=/etc/client-mount/service.cert",
        "-node-name",
        "wrong",
        "-node-name=compute-01",
        "--mock=false",
        "-command-timeout=2m",
        "--zap-log-level",
        "debug",
        "-zap-devel",
    ];
    let config = check(&[&SERVER[..], &more].concat()).unwrap();
    assert_eq!(config.site.node.as_str(), "compute-01", "the last value of a flag counts");
    assert_eq!(config.storage.command_deadline.as_secs(), 120);
    assert!(config.notes[0].contains("--zap-devel"), "{:?}", config.notes);
    let Upstream::Api { address, credentials } = config.upstream else {
        panic!("the API is named")
    };
    assert_eq!(address.to_string(), "https://10.0.0.1:6443");
    assert_eq!(credentials.unwrap().ca, Path::new("/etc/client-mount/service.cert"));
}

#[test]
fn the_programs_name_chooses_the_source_of_mounts_only_if_no_flag_does() {
    let api = |config: Config| matches!(config.upstream, Upstream::Api { .. });
    assert!(api(check_as("/usr/bin/clientmountd", &["--node", "c"]).unwrap()));
    assert!(!api(check_as("clientmount-agent", &["--node", "c"]).unwrap()));
    let coordinator = ["--node", "c", "--coordinator", "unix:///run/x"];
    assert!(!api(check_as("clientmountd", &coordinator).unwrap()));
    assert!(api(check(&["--node", "c", "--api", "kubeconfig:/etc/kube"]).unwrap()));
    let version = check_as("clientmountd", &["--version"]).unwrap_err();
    assert!(version.starts_with("clientmountd "), "{version}");
    assert!(check_as("clientmountd", &["--help"]).unwrap_err().contains("Usage: clientmountd"));
}

#[test]
fn a_dry_run_needs_the_api() {
    let dry_run = |more: &[&str]| check(&[&["--node", "c", "--dry-run"], more].concat());
    assert!(dry_run(&["--api", "kubeconfig:/etc/kube"]).unwrap().dry_run);
    let error = dry_run(&[]).unwrap_err();
    assert!(error.contains("name the API with --api"), "{error}");
}

#[test]
fn command_line_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn the_defaults_are_a_valid_configuration() {
    let config = check(&["--node", "compute-01"]).unwrap();
    assert_eq!(config.site.roots.to_string(), "/mnt/nnf");
    assert!(matches!(config.storage.drives, DriveConfig::NvmeNamespaces));
}

#[test]
fn several_mount_roots_are_accepted() {
    let config = check(&["--node", "c", "--mount-root", "/mnt/nnf", "--mount-root", "/l"]).unwrap();
    assert_eq!(config.site.roots.to_string(), "/mnt/nnf or /l");
}

#[test]
fn an_invalid_flag_is_refused_with_its_value_and_the_remedy() {
    for (args, message) in [
        (&["--node", "a b"][..], "--node: \"a b\" is not a host name"),
        (&["--node", "c", "--mount-root", "mnt"], "--mount-root: \"mnt\" is not absolute"),
        (&["--node", "c", "--mount-root", "/"], "--mount-root"),
        (
            &["--node", "c", "--coordinator", "http://x:1"],
            "neither unix:///PATH nor https://HOST:PORT",
        ),
        (&["--node", "c", "--coordinator", "unix://x"], "not an absolute socket path"),
        (&["--node", "c", "--coordinator", "https://x:1"], "needs --ca, --certificate and --key"),
        (&["--node", "c", "--command-deadline", "0"], "0 is not in 1..=86400"),
        (&["--node", "c", "--certificate", "/x"], "--key"),
        (&["--node", "c", "--mock"], "--mock: this agent mounts for real"),
        (&["--node", "c", "--node-name", "d"], "\"c\" and --node-name \"d\""),
        (&["--node", "c", "--api", "http://x"], "https://HOST:PORT"),
        (&["--node", "c", "--kubernetes-service-host", "h"], "without --kubernetes-service-port"),
        (
            &["--coordinator", "unix:///x", "--api", "in-cluster"],
            "--coordinator and --api name two sources",
        ),
        (&["--command-timeout", "x"], "1m30s"),
        (&["--command-timeout", "9", "--command-deadline", "9"], "cannot be used with"),
    ] {
        let error = check(args).unwrap_err();
        assert!(error.contains(message), "{args:?}: {error}");
    }
}
