//! What our programs tell of themselves.

use anyhow::ensure;

use crate::program::{binary, command};

/// What a program prints with these words, on a screen of 80 columns.
///
/// # Errors
/// When it fails.
pub fn printed(program: &str, words: &[&str]) -> anyhow::Result<String> {
    let told = command(binary(program)?).args(words).env("COLUMNS", "80").output()?;
    ensure!(told.status.success(), "{program} {words:?}: {told:?}");
    Ok(String::from_utf8(told.stdout)?)
}

/// A program and its verbs, and theirs, as one types them, each with what it prints with `flag` (`--help` or `--help-all`).
///
/// # Errors
/// When one fails.
pub fn commands(program: &str, flag: &str) -> anyhow::Result<Vec<(String, String)>> {
    let (mut left, mut found) = (vec![program.to_owned()], Vec::new());
    while let Some(typed) = left.pop() {
        let words: Vec<&str> = typed.split(' ').skip(1).chain([flag]).collect();
        let text = printed(program, &words)?;
        left.extend(verbs_in(&text).iter().map(|verb| format!("{typed} {verb}")));
        found.push((typed, text));
    }
    Ok(found)
}

/// The verbs that a help text names; a verb's description may go on in lines that are indented deeper.
fn verbs_in(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let verbs =
        lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help").collect()
}
