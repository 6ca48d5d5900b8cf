//! Draws a timeline for terminals: a bar for each row.

use jiff::Timestamp;

use super::{Outcome, Timeline, format_duration};

/// Width of the bars in columns.
const WIDTH: u64 = 48;

/// Returns the chart, one line per row.
pub(crate) fn gantt(timeline: &Timeline, now: Timestamp) -> String {
    let Some((first, last)) = timeline.extent(now) else { return String::new() };
    let labels: Vec<String> = timeline.rows.iter().map(super::Row::label).collect();
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
    let scale = Scale { first, span: micros(first, last).max(1) };
    let mut lines = Vec::new();
    for (row, label) in timeline.rows.iter().zip(&labels) {
        let end = row.end.unwrap_or(now);
        let (from, to) = scale.columns(row.begin, end);
        let fill = match row.outcome {
            Outcome::Done => '█',
            Outcome::Lasts => '▒',
            Outcome::Failed => '×',
        };
        let bar: String = (0..WIDTH)
            .map(|column| if (from..to).contains(&column) { fill } else { ' ' })
            .collect();
        let mark = match row.outcome {
            Outcome::Done if row.is_bound() => "≤ ",
            Outcome::Done => "  ",
            Outcome::Lasts => "> ",
            Outcome::Failed => "× ",
        };
        lines.push(format!("{label:widest$} │{bar}│ {mark}{}", format_duration(row.begin, end)));
    }
    lines.push(format!(
        "{:widest$} 0{:>width$}",
        "",
        format_duration(first, last),
        width = usize::try_from(WIDTH + 1).unwrap_or_default()
    ));
    lines.join("\n")
}

struct Scale {
    first: Timestamp,
    /// Length of the timeline in microseconds, at least 1.
    span: u64,
}

impl Scale {
    /// Returns the first column of a bar and the one after its last; a bar has at least one column.
    fn columns(&self, begin: Timestamp, end: Timestamp) -> (u64, u64) {
        let from = (micros(self.first, begin) * WIDTH / self.span).min(WIDTH - 1);
        let to = (micros(self.first, end) * WIDTH).div_ceil(self.span).min(WIDTH);
        (from, to.max(from + 1))
    }
}

fn micros(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_microsecond() - from.as_microsecond()).unwrap_or_default()
}
