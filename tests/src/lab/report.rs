//! What the lab says to the person who runs it: scenarios as they go, and one table at the end.

use std::time::Duration;

/// How a scenario ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub scenario: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// The rows in columns.
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

/// A line for the person who runs it.
#[expect(clippy::print_stdout, reason = "the lab talks to the person who runs it")]
pub fn say(line: &str) {
    println!("{line}");
}

/// A complaint, on stderr.
#[expect(clippy::print_stderr, reason = "the lab talks to the person who runs it")]
pub fn complain(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_took_how_long_and_how_it_ended() {
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
