//! Tests containers that wait for each other. The two hosts are loopback addresses here. Their names have
//! the usual form `<rabbit>.<workflow>`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

fn wait(config: &Path, port: u16, seconds: &str) -> Output {
    let mut podhelper = Command::new(env!("CARGO_BIN_EXE_podhelper"));
    podhelper.args(["peers", "--seconds", seconds, "--port", &port.to_string(), "--config"]);
    podhelper.arg(config).output().unwrap()
}

#[test]
fn peers_succeeds_once_every_rabbit_s_container_listens() {
    let config = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(config.path().join(name), text).unwrap();
    write("nnfContainerNodes", "127.0 127.9");
    write("nnfContainerSubdomain", "0.1");
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let missing = wait(config.path(), port, "1");
    assert_eq!(missing.status.code(), Some(1));
    let errors = String::from_utf8(missing.stderr).unwrap();
    assert!(errors.contains("1 of 2 rabbits' containers do not answer: 127"), "{errors}");
    assert!(errors.contains("refused"), "{errors}");
    let second = TcpListener::bind(("127.9.0.1", port)).unwrap();
    let all = wait(config.path(), port, "60");
    assert!(all.status.success(), "{all:?}");
    drop((first, second));
}

#[test]
fn a_missing_or_empty_file_of_nodes_is_an_error() {
    let nowhere = tempfile::tempdir().unwrap();
    let errors = String::from_utf8(wait(nowhere.path(), 1, "1").stderr).unwrap();
    assert!(errors.contains("nnfContainerNodes, which names the hosts"), "{errors}");
    for name in ["nnfContainerNodes", "nnfContainerSubdomain"] {
        std::fs::write(nowhere.path().join(name), "").unwrap();
    }
    let errors = String::from_utf8(wait(nowhere.path(), 1, "1").stderr).unwrap();
    assert!(
        errors.contains("nnfContainerNodes names no host"),
        "no host must not count as all hosts: {errors}"
    );
}
