//! Output of the lab for the person who runs it: lines about scenarios, and one table at the end.

use std::time::Duration;

/// How a scenario ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Time that the scenario took.
    pub took: Duration,
    /// Why the scenario failed, if it did.
    pub failure: Option<String>,
}

/// Formats the rows in columns.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.scenario.len()).max().unwrap_or(0).max("scenario".len());
    let mut text = format!("{:width$}  seconds  verdict\n", "scenario");
    for row in rows {
        let verdict = if row.failure.is_none() { "passed" } else { "FAILED" };
        let seconds = row.took.as_secs_f32();
        text.push_str(&format!("{:width$}  {seconds:7.1}  {verdict}\n", row.scenario));
    }
    text
}

/// Prints a line for the person who runs the lab.
#[expect(clippy::print_stdout, reason = "the lab talks to the person who runs it")]
pub fn say(line: &str) {
    println!("{line}");
}

/// Prints an error on stderr.
#[expect(clippy::print_stderr, reason = "the lab talks to the person who runs it")]
pub fn complain(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_time_and_verdict_of_each_scenario() {
        let row =
            |scenario, failure| Row { scenario, took: Duration::from_millis(12_340), failure };
        let rows = [row("boot", None), row("gfs2-two-guests", Some("no quorum".to_owned()))];
        assert_eq!(
            table(&rows),
            "scenario         seconds  verdict\n\
             boot                12.3  passed\n\
             gfs2-two-guests     12.3  FAILED\n"
        );
    }
}
