//! Containers that wait for each other: these two have loopback addresses for names, `<rabbit>.<workflow>` as everywhere.

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
fn a_run_goes_on_when_every_rabbit_s_container_listens() {
    let config = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(config.path().join(name), text).unwrap();
    write("nnfContainerNodes", "127.0 127.9");
    write("nnfContainerSubdomain", "0.1");
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let missing = wait(config.path(), port, "1");
    assert_eq!(missing.status.code(), Some(1));
    let told = String::from_utf8(missing.stderr).unwrap();
    assert!(told.contains("1 of 2 rabbits' containers do not answer: 127"), "{told}");
    assert!(told.contains("refused"), "{told}");
    let second = TcpListener::bind(("127.9.0.1", port)).unwrap();
    let all = wait(config.path(), port, "60");
    assert!(all.status.success(), "{all:?}");
    drop((first, second));
}

#[test]
fn a_file_that_is_not_there_or_names_nobody_is_told() {
    let nowhere = tempfile::tempdir().unwrap();
    let told = String::from_utf8(wait(nowhere.path(), 1, "1").stderr).unwrap();
    assert!(told.contains("nnfContainerNodes, which names the hosts"), "{told}");
    for name in ["nnfContainerNodes", "nnfContainerSubdomain"] {
        std::fs::write(nowhere.path().join(name), "").unwrap();
    }
    let told = String::from_utf8(wait(nowhere.path(), 1, "1").stderr).unwrap();
    assert!(told.contains("nnfContainerNodes names no host"), "none is not all: {told}");
}
