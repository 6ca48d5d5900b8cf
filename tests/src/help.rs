//! The help texts of Warren's programs.

use anyhow::ensure;

use crate::program::{binary, command};

/// Returns the output of a program with these arguments, on a terminal of 80 columns.
///
/// # Errors
/// When the program fails.
pub fn output_of(program: &str, words: &[&str]) -> anyhow::Result<String> {
    let output = command(binary(program)?).args(words).env("COLUMNS", "80").output()?;
    ensure!(output.status.success(), "{program} {words:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the command lines of a program, of each of its verbs, and of the verbs of each verb, as a user types them.
/// Each comes with the text that the command prints with `flag` (`--help` or `--help-all`).
///
/// # Errors
/// When a command fails.
pub fn commands(program: &str, flag: &str) -> anyhow::Result<Vec<(String, String)>> {
    let (mut left, mut found) = (vec![program.to_owned()], Vec::new());
    while let Some(typed) = left.pop() {
        let words: Vec<&str> = typed.split(' ').skip(1).chain([flag]).collect();
        let text = output_of(program, &words)?;
        left.extend(verbs_in(&text).iter().map(|verb| format!("{typed} {verb}")));
        found.push((typed, text));
    }
    Ok(found)
}

/// Returns the verbs that a help text lists. Lines that are indented deeper continue a verb's description.
fn verbs_in(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let verbs =
        lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help").collect()
}
