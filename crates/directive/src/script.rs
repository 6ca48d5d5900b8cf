//! The directives of a job script. Pure.

use std::fmt;

use thiserror::Error;

use crate::command::COMMANDS;
use crate::directive::PREFIX;

/// The directives of a job script, and the lines that look like directives but are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Directives, one for each entry.
    pub directives: Vec<String>,
    /// Lines that look like directives but are not read.
    pub unread: Vec<Unread>,
    /// Number of computes that the job may start without, from the script's `#WARREN tolerance=COUNT`.
    pub tolerance: Option<u32>,
}

/// A `#WARREN` line of a job script that is not `#WARREN tolerance=COUNT`, or one such line too many.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "line {number} `{}`: write one line `#WARREN tolerance=COUNT`, with the number of computes that the job may start without",
    causes::quoted(.text)
)]
pub struct ParseScriptError {
    number: usize,
    text: String,
}

/// A line that looks like a directive, but follows the first command of the script or has another form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Number of the line in the script, from 1.
    pub number: usize,
    /// Text of the line, as written.
    pub text: String,
    why: &'static str,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} `{}` is not read: {}", self.number, causes::quoted(&self.text), self.why)
    }
}

const LATE: &str = "it follows the first command of the script; move it before that command";
const FORM: &str = "a directive must begin with #DW in the first column";

/// Reads the `#DW` lines among the comments at the beginning of a script, as Slurm's burst buffers do: a line that
/// ends with `\` continues in the next line, and the first line that is no comment ends the directives.
///
/// Drops the parts that only Slurm uses: the argument `pool` in any line, and lines that have only `pool=` and
/// `capacity=`, which reserve capacity of a Slurm pool. Among the same comments, `#WARREN tolerance=COUNT` is read.
///
/// # Errors
/// If a `#WARREN` line has another form, or is the second one.
pub fn read_script(script: &str) -> Result<Script, ParseScriptError> {
    let mut lines: Vec<String> = Vec::new();
    let (mut unread, mut tolerance) = (Vec::new(), None);
    let (mut is_continued, mut is_read) = (false, true);
    for (number, line) in (1..).zip(script.lines()) {
        is_read = is_read && (line.is_empty() || line.starts_with('#'));
        if let Some(setting) = setting(line).filter(|_| is_read) {
            let count =
                setting.trim().strip_prefix("tolerance=").and_then(|count| count.parse().ok());
            let is_first = tolerance.is_none();
            let refused = || ParseScriptError { number, text: line.to_owned() };
            tolerance = Some(count.filter(|_| is_first).ok_or_else(refused)?);
            continue;
        }
        match words(line).filter(|_| is_read) {
            Some(words) => {
                let (words, more) =
                    words.strip_suffix('\\').map_or((words, false), |rest| (rest, true));
                match lines.last_mut().filter(|_| is_continued) {
                    Some(line) => line.push_str(words),
                    None => lines.push(words.to_owned()),
                }
                is_continued = more;
            }
            None => {
                is_continued = is_continued && line.is_empty();
                let why = if words(line).is_some() { LATE } else { FORM };
                let is_directive = looks_like_directive(line);
                unread.extend(is_directive.then(|| Unread { number, text: line.to_owned(), why }));
            }
        }
    }
    let directives = lines.iter().filter_map(|words| without_pool(words)).collect();
    Ok(Script { directives, unread, tolerance })
}

/// Returns the words after `#WARREN` at the beginning of a line.
fn setting(line: &str) -> Option<&str> {
    line.strip_prefix("#WARREN").filter(|rest| rest.starts_with(char::is_whitespace))
}

/// Returns the words after `#DW` at the beginning of a line.
fn words(line: &str) -> Option<&str> {
    line.strip_prefix(PREFIX).filter(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

/// Returns whether the author of a line may have meant a directive: the line begins with `#DW`; or the line begins
/// with `#DW`, `# DW`, `##DW` or `#dw`, possibly after blanks, and a command follows.
fn looks_like_directive(line: &str) -> bool {
    let line = line.trim();
    let after = line.trim_start_matches('#').trim_start();
    let mut following = after.split_whitespace();
    let is_marked = line.starts_with('#')
        && following.next().is_some_and(|word| word.eq_ignore_ascii_case("DW"));
    let has_command = following.next().is_some_and(|word| COMMANDS.contains(&word));
    words(line).is_some() || is_marked && has_command
}

/// Returns a directive without its argument `pool`; `None` for a reservation of a Slurm pool.
fn without_pool(words: &str) -> Option<String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let is_pool = |word: &&str| word.starts_with("pool=");
    let is_reservation = words.iter().any(is_pool)
        && words.iter().all(|word| is_pool(word) || word.starts_with("capacity="));
    let words: Vec<&str> = words.into_iter().filter(|word| !is_pool(word)).collect();
    (!is_reservation).then(|| format!("{PREFIX} {}", words.join(" ")).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_script_reads_the_lines_that_slurm_reads() {
        let script = "#!/bin/bash\n#SBATCH -N2\n\n#DW jobdw type=xfs capacity=1GiB \\\n#DW name=a pool=rabbit\n\
                      #DWARF\n#DW pool=rabbit capacity=1GiB\n#DW\tpersistentdw name=b\necho\n";
        let script = read_script(script).unwrap();
        assert_eq!(
            script.directives,
            ["#DW jobdw type=xfs capacity=1GiB name=a", "#DW persistentdw name=b"]
        );
        assert_eq!(script.unread, []);
    }

    #[test]
    fn a_dw_line_without_command_is_kept_so_that_a_later_check_reports_it() {
        assert_eq!(read_script("#DW\n").unwrap().directives, ["#DW"]);
        assert_eq!(read_script(""), Ok(Script::default()));
    }

    #[test]
    fn only_a_reservation_of_a_slurm_pool_is_dropped() {
        for (line, directive) in [
            ("#DW pool=rabbit capacity=1GiB", None),
            ("#DW capacity=1GiB pool=rabbit", None),
            ("#DW capacity=1GiB", Some("#DW capacity=1GiB")),
            (
                "#DW type=xfs capacity=1GiB name=a pool=rabbit",
                Some("#DW type=xfs capacity=1GiB name=a"),
            ),
            ("#DW name=a", Some("#DW name=a")),
        ] {
            assert_eq!(read_script(line).unwrap().directives, Vec::from_iter(directive), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_not_read_is_reported_with_the_reason() {
        let script = "#!/bin/sh\n  #DW jobdw type=xfs\n# DW jobdw type=xfs\n#dw persistentdw name=a\n# DW is ours\n\
                      module load x\n#DW jobdw type=xfs capacity=1GiB name=late\n\t#DW copy_in\n";
        let reports: Vec<_> =
            read_script(script).unwrap().unread.iter().map(ToString::to_string).collect();
        assert_eq!(
            reports,
            [
                format!("line 2 `  #DW jobdw type=xfs` is not read: {FORM}"),
                format!("line 3 `# DW jobdw type=xfs` is not read: {FORM}"),
                format!("line 4 `#dw persistentdw name=a` is not read: {FORM}"),
                format!("line 7 `#DW jobdw type=xfs capacity=1GiB name=late` is not read: {LATE}"),
                format!("line 8 `\\t#DW copy_in` is not read: {FORM}"),
            ]
        );
        assert_eq!(read_script(script).unwrap().directives, [""; 0]);
    }

    #[test]
    fn read_script_reads_one_tolerance_among_the_first_comments() {
        for (script, tolerance) in [
            ("#DW jobdw\n#WARREN tolerance=2\n", Some(2)),
            ("#WARREN  tolerance=0 \ntrue", Some(0)),
            ("true\n#WARREN tolerance=2", None),
            ("#WARRENS tolerance=2\n#Warren is our machine", None),
        ] {
            assert_eq!(read_script(script).unwrap().tolerance, tolerance, "{script}");
        }
        for (script, line) in [
            ("#WARREN tolerance=-1", "line 1 `#WARREN tolerance=-1`: write one line"),
            ("#!/bin/sh\n#WARREN preset=small", "line 2 `#WARREN preset=small`: "),
            ("#WARREN tolerance=1\n#WARREN tolerance=1", "line 2 "),
        ] {
            let refusal = read_script(script).unwrap_err().to_string();
            assert!(refusal.starts_with(line), "{refusal}");
        }
    }
}
