//! The one place that prints: results to standard output, progress and failures to standard error. Colour only on a
//! terminal, and not against the user's wish (NO_COLOR, no-color.org).

use std::io::{self, IsTerminal, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;

use crate::failure::Failure;

/// Where a verb's words go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
    progress: bool,
}

impl Output {
    /// For this process; `json` asks for JSON instead of tables.
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, colour: terminal && wanted, progress: terminal }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line of result.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn line(self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(io::stdout().lock(), "{line}")?)
    }

    /// Prints text as it is.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Prints a value as JSON.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer_pretty(&mut stdout, value).map_err(io::Error::from)?;
        Ok(writeln!(stdout)?)
    }

    /// Prints rows in columns under a header.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn table(self, header: &[String], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.line(&columns(Some(header), rows))
    }

    /// Prints rows in columns without a header, as more of a table that was begun.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn rows(self, rows: &[Vec<String>]) -> Result<(), Failure> {
        self.line(&columns(None, rows))
    }

    /// Tells people what is going on; silent unless on a terminal.
    pub(crate) fn progress(self, line: &str) {
        if self.progress {
            self.say(line);
        }
    }

    /// Tells what people should know, on any standard error.
    pub(crate) fn note(self, line: &str) {
        self.say(line);
    }

    /// Tells why a verb failed.
    pub(crate) fn failure(self, failure: &Failure) {
        let text = failure.text();
        if text.is_empty() {
            return;
        }
        if self.colour {
            self.say(&format!("\x1b[1;31merror:\x1b[0m {text}"));
        } else {
            self.say(&format!("error: {text}"));
        }
    }

    /// A standard error that cannot be written leaves nobody to tell.
    fn say(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
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

/// A command's output in a message has many lines, and what users wrote may hold what steers a terminal.
fn one_line(cell: &str) -> String {
    let lines = cell.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" | ").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_and_steers_no_terminal() {
        assert_eq!(
            one_line("mkfs failed:\n  no space\n\n\x1b[2Jgone"),
            "mkfs failed: | no space |  [2Jgone"
        );
        assert_eq!(one_line(""), "");
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
