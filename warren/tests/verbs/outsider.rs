use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use assert_cmd::Command;

use crate::standalone_coordinator::StandaloneCoordinator;

/// Uid of the user `nobody` on every distribution.
const NOBODY: &str = "65534";

#[test]
fn a_user_other_than_root_is_refused_even_if_the_sockets_mode_permits_the_connection() {
    if !gate::root() {
        return;
    }
    let here = StandaloneCoordinator::with_mount();
    set_permissions(here.path(""), Permissions::from_mode(0o755)).unwrap();
    let warren = here.path("warren");
    // Another process copies the program: a file that this process has open for writing cannot be executed while a
    // child of another test shares the descriptor (ETXTBSY).
    Command::new("cp").arg(env!("CARGO_BIN_EXE_warren")).arg(&warren).assert().success();
    let as_nobody = |socket: &str, mode: u32, verb: &[&str]| {
        set_permissions(here.path(socket), Permissions::from_mode(mode)).unwrap();
        let address = format!("unix://{}", here.path(socket).display());
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .arg(&warren)
            .args(verb);
        command.env("WARREN_API", &address).env("WARREN_COORDINATOR", &address);
        command
    };
    for (socket, verb) in
        [("api.sock", &["get", "clientmounts", "-A"][..]), ("coordinator.sock", &["nodes"])]
    {
        // With mode 0666 the server closes the connection; with mode 0600 the kernel refuses it.
        for mode in [0o666, 0o600] {
            let assert = as_nobody(socket, mode, verb).assert().code(7);
            let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
            assert!(stderr.contains("sudo") && !stderr.contains("systemctl"), "{mode:o}: {stderr}");
        }
    }
    // The server serves root.
    here.warren(&["nodes"]).assert().success();
}
