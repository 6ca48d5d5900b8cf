use clap::{CommandFactory, Parser};
use daemon::{LogArgs, translate};

use super::*;
use crate::config;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    node_manager: NodeManagerArgs,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    zap: ZapArgs,
}

fn parsed(args: &[&str]) -> Result<Line, String> {
    let args = ["rabbit-agent"].iter().chain(args).map(Into::into);
    Line::try_parse_from(translate(args, &flags())).map_err(|error| error.to_string())
}

fn notes(args: &[&str], environment: &[&str]) -> Vec<String> {
    let line = parsed(args).unwrap();
    line.node_manager.notes(&line.zap, |name| environment.contains(&name))
}

#[test]
fn the_command_line_of_nnf_node_managers_daemon_set_is_accepted() {
    let args = ["--controller=node", "--deleteUnknownVolumes", "--replaceMissingVolumes"];
    parsed(&args).unwrap().node_manager.check(false).unwrap();
    let notes = notes(&args, &["NNF_POD_IP", "ENVIRONMENT", "PATH"]);
    assert!(notes[0].contains("never deleted") && notes[1].contains("not replaced"), "{notes:?}");
    assert_eq!(notes[2..], ["without effect in this agent: NNF_POD_IP, ENVIRONMENT"]);
}

#[test]
fn flags_that_are_switched_off_cause_no_log_line() {
    let args = ["-deleteUnknownVolumes=false", "-leader-elect=0", "-purge=false", "-mock=F"];
    parsed(&args).unwrap().node_manager.check(false).unwrap();
    assert!(notes(&args, &["NNF_NODE_NAME", "NNF_POD_NAME", "RABBIT_NODE"]).is_empty());
}

#[test]
fn dangerous_and_invalid_flags_stop_the_start() {
    for (args, expected) in [
        (&["--purge"][..], NodeManagerError::Purge),
        (&["-initializeAndExit=true"], NodeManagerError::InitializeAndExit),
        (&["--direct", "nvme.*"], NodeManagerError::Direct("nvme.*".into())),
        (&["-mock"], NodeManagerError::Mock),
    ] {
        assert_eq!(parsed(args).unwrap().node_manager.check(false), Err(expected), "{args:?}");
    }
    assert_eq!(parsed(&["-mock"]).unwrap().node_manager.check(true), Ok(()));
    let same = ["-metrics-bind-address", ":1", "-health-probe-bind-address=:1"];
    let error = parsed(&same).unwrap().node_manager.check(false).unwrap_err();
    assert!(error.to_string().contains("both :1"), "{error}");
}

#[test]
fn a_controller_other_than_node_is_rejected() {
    let error = parsed(&["-controller", "storage"]).unwrap_err();
    assert!(error.contains("nnf-controller-manager"), "{error}");
}

#[test]
fn probes_and_metrics_are_not_served_by_default() {
    let addresses = |args: &[&str]| {
        let args = parsed(args).unwrap().node_manager;
        [args.probes(), args.metrics()].map(|at| at.map(|at| at.to_string()))
    };
    assert_eq!(addresses(&[]), [None, None]);
    assert_eq!(
        addresses(&["-metrics-bind-address=0", "-health-probe-bind-address="]),
        [None, None]
    );
    let both =
        addresses(&["-health-probe-bind-address", ":8081", "-metrics-bind-address=[::1]:80"]);
    assert_eq!(both, [Some(":8081".into()), Some("[::1]:80".into())]);
}

#[test]
fn the_drive_check_period_falls_back_to_nnf_drive_monitor_period() {
    let env = |set: &[&str]| {
        let command =
            with_node_manager_environment(config::Args::command(), |name| set.contains(&name));
        let arg = command.get_arguments().find(|arg| arg.get_id() == "drive_check");
        arg.unwrap().get_env().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(env(&["NNF_DRIVE_MONITOR_PERIOD"]), "NNF_DRIVE_MONITOR_PERIOD");
    assert_eq!(env(&["NNF_DRIVE_MONITOR_PERIOD", "WARREN_DRIVE_CHECK"]), "WARREN_DRIVE_CHECK");
}

#[test]
fn warrens_variables_win_over_those_of_nnf_node_manager() {
    let command = |set: &[&str]| {
        let command =
            with_node_manager_environment(config::Args::command(), |name| set.contains(&name));
        let named = |id: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            let env = arg.get_env().unwrap().to_str().unwrap().to_owned();
            (env, arg.get_default_values().first().map(|value| value.to_str().unwrap().to_owned()))
        };
        (named("node").0, named("command_deadline").0, named("api").1.unwrap())
    };
    let unix = "unix:///run/warren/api.sock";
    let expected =
        |node: &str, deadline: &str, api: &str| (node.into(), deadline.into(), api.into());
    for (set, expected) in [
        (&[][..], expected("WARREN_NODE", "WARREN_COMMAND_DEADLINE", unix)),
        (
            &["NNF_NODE_NAME", "NNF_COMMAND_TIMEOUT_SECONDS", "KUBERNETES_SERVICE_HOST"],
            expected("NNF_NODE_NAME", "NNF_COMMAND_TIMEOUT_SECONDS", "in-cluster"),
        ),
        (
            &["NNF_NODE_NAME", "WARREN_NODE"],
            expected("WARREN_NODE", "WARREN_COMMAND_DEADLINE", unix),
        ),
    ] {
        assert_eq!(command(set), expected, "{set:?}");
    }
}
