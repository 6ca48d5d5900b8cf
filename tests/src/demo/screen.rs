//! The demo's output: chapters with their times, commands as a user would type them, and a summary.

use std::{
    io::{IsTerminal, stdout},
    time::{Duration, Instant},
};

use crate::run::Narrator;

/// The terminal, or the log of a machine without a terminal.
#[derive(Debug)]
pub struct Screen {
    started: Instant,
    chapters: Vec<(String, Instant)>,
    colour: bool,
}

impl Screen {
    /// Creates a screen, with colour only on a terminal and not when `NO_COLOR` is set.
    #[must_use]
    pub fn new() -> Self {
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { started: Instant::now(), chapters: Vec::new(), colour }
    }

    /// Begins a new chapter of the story, and ends the one before.
    pub fn chapter(&mut self, title: &str) {
        self.chapters.push((title.to_owned(), Instant::now()));
        say(&format!(
            "\n{} {}",
            self.bold(&format!("{:6.2} s", self.started.elapsed().as_secs_f32())),
            self.bold(title)
        ));
    }

    /// Prints one or more lines beneath a chapter.
    pub fn print(&self, text: &str) {
        for line in text.lines() {
            say(&format!("         {line}"));
        }
    }

    /// Prints how long each chapter took.
    pub fn summary(&self) {
        let end = Instant::now();
        say(&format!("\n{}", self.bold("timings")));
        for (place, (title, begun)) in self.chapters.iter().enumerate() {
            let ended = self.chapters.get(place + 1).map_or(end, |(_, next)| *next);
            say(&format!("  {:7.3} s  {title}", seconds(ended - *begun)));
        }
        say(&format!("  {:7.3} s  in all", seconds(end - self.started)));
        say("nothing is left: no mount, no loop device, no process, no file");
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Narrator for Screen {
    fn typed(&self, words: &str) {
        self.print(&format!("$ {words}"));
    }

    fn note(&self, text: &str) {
        self.print(text);
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

fn seconds(duration: Duration) -> f32 {
    duration.as_secs_f32()
}

#[expect(clippy::print_stdout, reason = "the demo talks to the person who runs it")]
fn say(line: &str) {
    println!("{line}");
}

/// Prints an error to stderr.
#[expect(clippy::print_stderr, reason = "the demo talks to the person who runs it")]
pub fn complain(line: &str) {
    eprintln!("{line}");
}
