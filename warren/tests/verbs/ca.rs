//! `warren ca`: real files of a real directory.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn ca(directory: &Path, words: &[&str]) -> Output {
    let mut warren = Command::new(env!("CARGO_BIN_EXE_warren"));
    warren.arg("ca").args(words).arg("--directory").arg(directory).output().unwrap()
}

fn done(directory: &Path, words: &[&str]) -> String {
    let output = ca(directory, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(directory: &Path, words: &[&str], code: i32) -> String {
    let output = ca(directory, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns a directory with an authority and certificates of two hosts.
fn site() -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("etc/pki");
    done(&directory, &["init"]);
    done(&directory, &["issue", "rabbit-1,compute-1.hpc.example"]);
    (temporary, directory)
}

/// Reads all files of a directory, by name.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn only_the_owner_reads_keys() {
    let (_temporary, directory) = site();
    for (file, mode) in [
        ("ca.crt", 0o644),
        ("ca.key", 0o600),
        ("rabbit-1.crt", 0o644),
        ("rabbit-1.key", 0o600),
        ("compute-1.key", 0o600),
    ] {
        let found = fs::metadata(directory.join(file)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{file}");
    }
}

#[test]
fn what_exists_or_is_wrong_is_refused_and_nothing_changes() {
    let (temporary, directory) = site();
    let before = contents(&directory);
    for (words, error) in [
        (&["init"][..], "ca.crt exists"),
        (&["issue", "compute-2,rabbit-1"], "rabbit-1.crt exists"),
        (&["issue", "compute-1"], "add --again"),
        (&["issue", "../x"], "\"../x\" is no host name"),
        (&["issue", "a.x,a.y"], "same node name a"),
        (&["issue", "compute-2", "--days", "0"], "--days"),
        (&["renew", "--within", "60 apples"], "write days, as in 60d"),
    ] {
        let text = refused(&directory, words, 2);
        assert!(text.contains(error), "{words:?}: {text}");
    }
    assert_eq!(contents(&directory), before);
    let elsewhere = temporary.path().join("elsewhere");
    for words in [&["issue", "a"][..], &["renew"]] {
        let text = refused(&elsewhere, words, 2);
        assert!(text.contains("elsewhere/ca.crt") && text.contains("warren ca init"), "{text}");
    }
    assert!(!elsewhere.exists());
}

#[test]
fn renew_replaces_only_certificates_that_expire_soon() {
    let (_temporary, directory) = site();
    done(&directory, &["issue", "rabbit-2", "--days", "30"]);
    let before = contents(&directory);
    let renewed: Value = serde_json::from_str(&done(&directory, &["renew", "--json"])).unwrap();
    assert_eq!(renewed.as_array().unwrap().len(), 1, "{renewed}");
    assert_eq!(renewed[0]["names"], serde_json::json!(["rabbit-2"]));
    let changed: Vec<_> = contents(&directory)
        .into_iter()
        .zip(before)
        .filter(|(new, old)| new != old)
        .map(|(new, _)| new.0)
        .collect();
    assert_eq!(changed, ["rabbit-2.crt"]);
    assert!(done(&directory, &["renew"]).starts_with("nothing renewed"));
    let all = done(&directory, &["renew", "--within", "366d", "--days", "3650"]);
    assert!(all.contains("compute-1.crt for compute-1, compute-1.hpc.example, expires"), "{all}");
}

#[test]
fn a_file_that_cannot_be_renewed_does_not_keep_the_others_from_it() {
    let (_temporary, directory) = site();
    fs::write(directory.join("a.crt"), "no certificate").unwrap();
    fs::remove_file(directory.join("compute-1.key")).unwrap();
    let output = ca(&directory, &["renew", "--within", "400d"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (out, err) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(out.contains("rabbit-1.crt for rabbit-1"), "{out}");
    for part in ["a.crt: not renewed", "compute-1.crt is not renewed", "issue --again compute-1"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
}

#[test]
fn issue_again_makes_a_new_key() {
    let (_temporary, directory) = site();
    let key = fs::read(directory.join("rabbit-1.key")).unwrap();
    done(&directory, &["issue", "rabbit-1", "--again"]);
    assert_ne!(fs::read(directory.join("rabbit-1.key")).unwrap(), key);
}
