//! The environment of a job as a file that a shell may source.
//!
//! Each line is `KEY='value'`, quoted so that nothing in a value is run. The file is written under another name, given to the
//! job's user and renamed: whoever reads it reads all of it, and a link that somebody put in its place is replaced, not followed.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, fchown, geteuid};
use tempfile::Builder;

/// What a workload manager adds with a secret in it: it goes to the job in another way.
const TOKEN: &str = "DW_WORKFLOW_TOKEN";

/// Who owns the file, when root writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub user: u32,
    pub group: u32,
}

/// Writes the file; the names that no variable of a shell can have are left out and returned.
/// When it cannot be written; what was there before is there still.
pub(crate) fn write(
    path: &Path,
    env: &BTreeMap<String, String>,
    owner: Option<Owner>,
) -> io::Result<Vec<String>> {
    let (text, left_out) = text(env);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = Builder::new()
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    if let Some(owner) = owner.filter(|_| geteuid().is_root()) {
        let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
        fchown(file.as_file().as_fd(), Some(user), Some(group))?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(left_out)
}

fn text(env: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let (mut text, mut left_out) = (String::new(), Vec::new());
    for (name, value) in env {
        if name == TOKEN {
            continue;
        }
        if is_variable(name) && !value.contains('\0') {
            text.push_str(&format!("{name}='{}'\n", value.replace('\'', r"'\''")));
        } else {
            left_out.push(name.clone());
        }
    }
    (text, left_out)
}

fn is_variable(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_letter)
        && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::process::Command;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a shell reads what is written for shells")]
    fn a_shell_that_sources_it_runs_nothing_and_gets_every_value() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        let trap = directory.path().join("trap");
        let run = format!("touch {}", trap.display());
        let values = [
            "/mnt/nnf/a b".to_owned(),
            format!("'; {run}; '"),
            format!("$({run})"),
            format!("`{run}`\n{run}"),
            "\\'\"$HOME".to_owned(),
            String::new(),
        ];
        let names = ["A", "B", "C", "D", "E", "F"];
        let pairs: Vec<_> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
        write(&path, &env(&pairs), None).unwrap();
        let script = r#". "$0" && printf '%s\0' "$A" "$B" "$C" "$D" "$E" "$F""#;
        let shell = Command::new("sh").args(["-c", script]).arg(&path).output().unwrap();
        let read = String::from_utf8(shell.stdout).unwrap();
        let read: Vec<_> = read.trim_end_matches('\0').split('\0').collect();
        assert_eq!(
            read,
            &values[..5],
            "the last is empty; {}",
            String::from_utf8_lossy(&shell.stderr)
        );
        assert!(!trap.exists(), "something was run");
    }

    #[test]
    fn names_that_would_be_commands_and_the_token_are_left_out() {
        let (text, left_out) = text(&env(&[
            ("DW_JOB_a", "/a"),
            ("DW_WORKFLOW_TOKEN", "secret"),
            ("A=1; x", "1"),
            ("1A", "1"),
            ("", "1"),
            ("DW_JOB_a-b", "/a"),
        ]));
        assert_eq!(text, "DW_JOB_a='/a'\n");
        assert_eq!(left_out, ["", "1A", "A=1; x", "DW_JOB_a-b"]);
    }

    #[test]
    fn it_is_the_owners_alone_and_takes_the_place_of_a_link_without_following_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("env"), directory.path().join("other"));
        fs::write(&other, "mine").unwrap();
        symlink(&other, &path).unwrap();
        let owner = geteuid().is_root().then_some(Owner { user: 1050, group: 1051 });
        write(&path, &env(&[("A", "1")]), owner).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file() && metadata.mode() & 0o777 == 0o600, "{metadata:?}");
        if let Some(owner) = owner {
            assert_eq!((metadata.uid(), metadata.gid()), (owner.user, owner.group));
        }
    }

    #[test]
    fn one_that_cannot_be_written_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/env");
        assert!(write(&path, &env(&[("A", "1")]), None).is_err());
        // Something that no file can replace.
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(&taken, &env(&[("A", "1")]), None).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft stays");
    }
}
