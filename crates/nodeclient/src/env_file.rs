//! Writes the environment of a job to a file that a shell may source.
//!
//! Each line is `KEY='value'`, quoted so that a shell runs no part of a value. The program writes a file under a
//! temporary name, changes its owner to the job's user, and renames it to the final path. So readers see only the
//! complete file, and a symbolic link at the path is replaced, not followed.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, fchown, geteuid};
use tempfile::Builder;

/// Variable with a secret, which the file leaves out: the job gets the secret in another way.
const TOKEN: &str = "DW_WORKFLOW_TOKEN";

/// Owner of the file; only root can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub user: u32,
    pub group: u32,
}

/// Writes the file. Skips variables whose names are invalid in a shell, and returns these names. If writing fails,
/// an existing file stays.
pub(crate) fn write(
    path: &Path,
    env: &BTreeMap<String, String>,
    owner: Option<Owner>,
) -> io::Result<Vec<String>> {
    let (text, left_out) = render(env);
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

fn render(env: &BTreeMap<String, String>) -> (String, Vec<String>) {
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
    #[expect(clippy::disallowed_methods, reason = "the test lets a shell read the file")]
    fn a_shell_that_sources_the_file_runs_nothing_and_gets_every_value() {
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
            "the last value is empty; {}",
            String::from_utf8_lossy(&shell.stderr)
        );
        assert!(!trap.exists(), "a command of a value was run");
    }

    #[test]
    fn invalid_names_and_the_token_are_left_out() {
        let (text, left_out) = render(&env(&[
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
    fn the_file_has_mode_0600_and_the_given_owner_and_replaces_a_symbolic_link() {
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
    fn after_a_failed_write_the_old_file_stays_and_no_temporary_file_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/env");
        assert!(write(&path, &env(&[("A", "1")]), None).is_err());
        // Renaming a file over a directory fails.
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(&taken, &env(&[("A", "1")]), None).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
