//! Draws a timeline as an SVG image.

use std::fmt::Write;

use jiff::Timestamp;

use super::{Outcome, Subject, Timeline, format_duration};

const LABELS: u32 = 230;
const BARS: u32 = 640;
const TIMES: u32 = 110;
const ROW: u32 = 22;
const TOP: u32 = 58;
/// Number of parts of the axis.
const TICKS: u32 = 5;

pub(crate) fn svg(timeline: &Timeline, now: Timestamp) -> String {
    let (first, last) = timeline.extent(now).unwrap_or((now, now));
    let rows = u32::try_from(timeline.rows.len()).unwrap_or_default();
    let (width, height) = (LABELS + BARS + TIMES, TOP + rows * ROW + 14);
    let mut image = String::new();
    let title = escape(&timeline.workflow);
    put(
        &mut image,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"bold\" fill=\"#222\">{title}</text>\n"
        ),
    );
    axis(&mut image, first, last, TOP + rows * ROW);
    for (place, row) in (0..).zip(&timeline.rows) {
        let end = row.end.unwrap_or(now);
        let (from, to) = (x(first, last, row.begin), x(first, last, end));
        let top = TOP + place * ROW;
        let is_state = row.subject == Subject::State;
        let (weight, indent) = if is_state { ("bold", 12) } else { ("normal", 26) };
        let label = escape(row.label().trim());
        put(
            &mut image,
            format_args!(
                "<text x=\"{indent}\" y=\"{}\" font-weight=\"{weight}\" fill=\"#222\">{label}</text>\n\
             <rect x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" rx=\"2\" fill=\"{}\"{}/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"#555\">{}{}</text>\n",
                top + 15,
                top + 4,
                (to - from).max(2.0),
                ROW - 8,
                colour(row.outcome, &row.subject),
                if row.is_bound() { " fill-opacity=\"0.55\"" } else { "" },
                LABELS + BARS + 8,
                top + 15,
                if row.is_bound() { "≤ " } else { "" },
                format_duration(row.begin, end),
            ),
        );
    }
    image.push_str("</svg>\n");
    image
}

fn axis(image: &mut String, first: Timestamp, last: Timestamp, bottom: u32) {
    let span = last.as_microsecond() - first.as_microsecond();
    for tick in 0..=TICKS {
        let x = LABELS + BARS * tick / TICKS;
        let moment = Timestamp::from_microsecond(
            first.as_microsecond() + span * i64::from(tick) / i64::from(TICKS),
        );
        let moment = moment.unwrap_or(last);
        put(
            image,
            format_args!(
                "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\n\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\" font-size=\"11\">{}</text>\n",
                TOP - 4,
                TOP - 10,
                format_duration(first, moment),
            ),
        );
    }
}

fn colour(outcome: Outcome, subject: &Subject) -> &'static str {
    match (outcome, subject) {
        (Outcome::Failed, _) => "#c0392b",
        (Outcome::Lasts, _) => "#e0a030",
        (Outcome::Done, Subject::State) => "#2c5f8a",
        (Outcome::Done, Subject::Directive(..)) => "#5b9bd5",
        (Outcome::Done, Subject::Node(..)) => "#6fb58a",
    }
}

/// Returns the horizontal place of a time, in pixels.
#[expect(clippy::cast_precision_loss, reason = "a pixel is far coarser")]
fn x(first: Timestamp, last: Timestamp, moment: Timestamp) -> f64 {
    let micros = |to: Timestamp| (to.as_microsecond() - first.as_microsecond()) as f64;
    f64::from(LABELS) + f64::from(BARS) * micros(moment).max(0.0) / micros(last).max(1.0)
}

/// Appends text; writing to a String cannot fail.
fn put(image: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = image.write_fmt(text);
}

/// Escapes text for XML, and drops control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars().filter(|character| !character.is_control()) {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
