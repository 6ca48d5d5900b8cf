//! Shows the progress of a wait. Progress in percent is a bar on a terminal, and elsewhere a line for every tenth, so
//! that a log stays short. Other progress is a line on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// The progress of one wait.
#[derive(Debug)]
pub struct WaitProgress {
    output: Output,
    bar: Option<ProgressBar>,
    /// The tenth of the work that was printed last.
    tenth: Option<u64>,
}

impl WaitProgress {
    pub fn new(output: Output) -> Self {
        Self { output, bar: None, tenth: None }
    }

    /// Shows a text. A text with a number before ` %` is progress in percent.
    pub fn show(&mut self, text: &str) {
        let Some(percent) = percent_in(text) else {
            self.clear();
            return self.output.progress(text);
        };
        if self.output.has_bars() {
            let bar = self.bar.get_or_insert_with(new_bar);
            bar.set_message(causes::escaped(&shortened(text), ""));
            bar.set_position(percent);
        } else if self.tenth.replace(percent / 10) != Some(percent / 10) {
            self.output.note(text);
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for WaitProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:30}] {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(100).with_style(style.progress_chars("#>-"))
}

/// Returns the text for a bar, which shares its line with the text: without the name of the workflow and the number of the
/// directive.
fn shortened(text: &str) -> String {
    let parts = text.split_once(": DW Directive ").and_then(|(before, after)| {
        Some((before.rsplit(": ").next()?, after.split_once("pending ")?.1))
    });
    parts.map_or_else(|| text.to_owned(), |(state, rest)| format!("{state}: {rest}"))
}

/// Returns the number before the first ` %`, from 0 to 100.
fn percent_in(text: &str) -> Option<u64> {
    let before = text.split_once(" %")?.0;
    let digits = before.rsplit(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_bar_has_the_state_and_the_progress() {
        let text = "w: DataIn: DW Directive 1: pending copies on rabbit-1: 63 %, 0 of 1 ended";
        assert_eq!(shortened(text), "DataIn: copies on rabbit-1: 63 %, 0 of 1 ended");
        assert_eq!(shortened("w: PostRun: 3 %"), "w: PostRun: 3 %");
    }

    #[test]
    fn only_a_number_before_a_percent_sign_is_progress_in_percent() {
        let cases = [
            ("DataIn: pending copies on rabbit-1: 63 %, 1.2 of 1.9 TiB", Some(63)),
            ("100 %", Some(100)),
            ("163 %", None),
            ("% of 12", None),
            ("pending mount on compute-1", None),
        ];
        for (text, percent) in cases {
            assert_eq!(percent_in(text), percent, "{text}");
        }
    }
}
