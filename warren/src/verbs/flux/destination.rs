//! Writes a verb's output, or says how a file differs from it.

use std::{
    env,
    ffi::OsString,
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::Path,
};

use cli::{Exit, Output};
use serde_json::json;

use crate::{args::flux::Destination, failure::Failure, verbs::backup};

/// Mode of a new file: Flux's own user reads it.
const MODE: u32 = 0o644;

/// Prints the text, or writes it to the file that the user names.
///
/// # Errors
/// When the file cannot be written; it then stays as it is.
pub(super) fn write(to: &Destination, text: &str, output: Output) -> Result<Exit, Failure> {
    let text = format!("{text}\n");
    let Some(file) = &to.output else {
        output.text(&text)?;
        return Ok(Exit::Done);
    };
    backup::refuse_other_than_files(file)?;
    replace(file, &text).map_err(|error| backup::unwritten(file, &error))?;
    output.note(&format!("{} is written", file.display()));
    Ok(Exit::Done)
}

/// Replaces a file as a whole. The new file keeps owner and mode of the old one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut draft = tempfile::NamedTempFile::new_in(backup::directory(file))?;
    draft.write_all(text.as_bytes())?;
    let old = files::none_if_absent(fs::metadata(file))?;
    let mode = old.as_ref().map_or(MODE, |old| old.mode() & 0o7777);
    if let Some(old) = &old {
        let new = draft.as_file().metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            fchown(draft.as_file(), Some(old.uid()), Some(old.gid()))?;
        }
    }
    draft.as_file().set_permissions(Permissions::from_mode(mode))?;
    backup::finish(draft, file)
}

/// Prints the differences of a file from the cluster, and the command that writes the file anew.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn report(
    file: &Path,
    differences: &[String],
    more: &[&str],
    output: Output,
) -> Result<Exit, Failure> {
    let command = (!differences.is_empty()).then(|| rewriting(env::args_os(), more));
    if output.is_json() {
        output.json(&json!({"file": file, "current": differences.is_empty(),
            "differences": differences, "command": command}))?;
    } else if let Some(command) = &command {
        output.line(&format!("{} is stale:", file.display()))?;
        differences.iter().try_for_each(|difference| output.line(&format!("  {difference}")))?;
        output.line(&format!("to write it anew: {command}"))?;
    } else {
        output.line(&format!("{} is current", file.display()))?;
    }
    Ok(if differences.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Returns the command of the user with `--output` instead of `--check`, and these arguments at its end.
fn rewriting(arguments: impl Iterator<Item = OsString>, more: &[&str]) -> String {
    let own = arguments.skip(1).flat_map(|argument| {
        let argument = argument.to_string_lossy().into_owned();
        let output = || "--output".to_owned();
        match argument.strip_prefix("--check") {
            Some("") => vec![output()],
            Some(rest) => match rest.strip_prefix('=') {
                Some(file) => vec![output(), file.to_owned()],
                None => vec![argument],
            },
            None => vec![argument],
        }
    });
    let words: Vec<String> = own.chain(more.iter().map(|word| (*word).to_owned())).collect();
    format!("warren {}", shell_words::join(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rewriting_command_is_that_of_the_user_with_output_instead_of_check() {
        for (words, more, expected) in [
            (
                "w flux rabbitmapping --check /a -i2",
                &[][..],
                "warren flux rabbitmapping --output /a -i2",
            ),
            (
                "/b/warren --server s flux jgf --check=/a",
                &["--resources", "/a b"],
                "warren --server s flux jgf --output /a --resources '/a b'",
            ),
            ("w flux jgf --checked", &[], "warren flux jgf --checked"),
        ] {
            let arguments = words.split(' ').map(OsString::from);
            assert_eq!(rewriting(arguments, more), expected);
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_a_new_one_is_readable_by_all() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mapping");
        let mode = |file: &Path| fs::metadata(file).unwrap().mode() & 0o7777;
        replace(&file, "first").unwrap();
        assert_eq!(mode(&file), 0o644);
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        replace(&file, "second").unwrap();
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, "second"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
