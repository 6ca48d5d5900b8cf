//! Prints results to standard output, and progress and failures to standard error. Only this module prints. Colour
//! appears only on a terminal, and only if NO_COLOR is not set (no-color.org). Control characters are printed as
//! escapes: any user may write them into files and objects, and a terminal would execute them.

use std::io::{self, IsTerminal, Write};

use causes::escaped;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;

/// How a verb prints.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    colour: bool,
    progress: bool,
    verbose: bool,
}

impl Output {
    /// Creates the output of this process; with `json`, JSON instead of tables.
    pub fn new(json: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, colour: terminal && wanted, progress: terminal, verbose: false }
    }

    /// Sets whether failures are printed with their details.
    #[must_use]
    pub fn verbose(self, verbose: bool) -> Self {
        Self { verbose, ..self }
    }

    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line of a result to standard output.
    pub fn line(self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{}\n", escaped(line, "")))
    }

    /// Prints text of many lines.
    pub fn text(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(escaped(text, "\t\n").as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Prints a value as JSON.
    pub fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.text(&format!("{}\n", plain_json(&text)))
    }

    /// Prints rows in columns under a header.
    pub fn table(self, header: &[String], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.text(&format!("{}\n", columns(Some(header), rows)))
    }

    /// Prints more rows of a table whose header is printed already.
    pub fn rows(self, rows: &[Vec<String>]) -> Result<(), Failure> {
        self.text(&format!("{}\n", columns(None, rows)))
    }

    /// Prints progress to standard error, but only if standard error is a terminal.
    pub fn progress(self, line: &str) {
        if self.progress {
            self.say("progress", line);
        }
    }

    /// Returns true if progress may redraw a line: standard error is a terminal, and the output is not JSON.
    pub fn has_bars(self) -> bool {
        self.progress && !self.json
    }

    /// Prints a note to standard error.
    pub fn note(self, line: &str) {
        self.say("note", line);
    }

    /// Prints a text of many lines, or an object as JSON, to standard error. `warren run` uses this function: its
    /// standard output belongs to the command that it runs.
    pub fn text_beside(self, text: &str) {
        self.write(&escaped(text, "\n"));
    }

    /// Prints a failure to standard error, in JSON with `--json`.
    pub fn failure(self, failure: &Failure) {
        let text = if self.verbose { failure.full_text() } else { failure.text() };
        if text.is_empty() {
            return;
        }
        if self.json {
            self.write(&plain_json(&json!({"error": failure.json()}).to_string()));
            return;
        }
        let text = escaped(&text, "\n");
        if self.colour {
            self.write(&format!("\x1b[1;31merror:\x1b[0m {text}"));
        } else {
            self.write(&format!("error: {text}"));
        }
    }

    fn say(self, kind: &str, line: &str) {
        if self.json {
            self.write(&plain_json(&json!({kind: line}).to_string()));
        } else {
            self.write(&escaped(line, ""));
        }
    }

    /// Writes to standard error, and ignores a failure of the write: there is no other place to report it.
    fn write(self, lines: &str) {
        let _ = writeln!(io::stderr().lock(), "{lines}");
    }
}

/// Escapes DEL and the C1 control characters, which JSON (RFC 8259) does not require to be escaped.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if ('\u{7f}'..='\u{9f}').contains(&character) {
            plain.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            plain.push(character);
        }
    }
    plain
}

fn columns(header: Option<&[String]>, rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if let Some(header) = header {
        table.set_header(header);
    }
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| one_line(cell))));
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.trim_fmt()
}

/// Joins the lines of a cell, without control characters.
fn one_line(cell: &str) -> String {
    let lines = cell.lines().map(str::trim).filter(|line| !line.is_empty());
    escaped(&lines.collect::<Vec<_>>().join(" | "), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_without_control_characters() {
        assert_eq!(
            one_line("mkfs failed:\n  no space\n\n\x1b[2Jgone"),
            "mkfs failed: | no space | \\u{1b}[2Jgone"
        );
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = json!({"a": "\x1b\x7f\u{9b}2J\u{a0}ü"});
        let text = plain_json(&value.to_string());
        assert!(!text.contains(char::is_control), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn columns_align_without_borders() {
        let header = ["NAME".to_owned(), "READY".to_owned()];
        let rows = [
            vec!["a-long-name".to_owned(), "true".to_owned()],
            vec!["b".to_owned(), String::new()],
        ];
        assert_eq!(columns(Some(&header), &rows), "NAME          READY\na-long-name   true\nb");
    }
}
