//! Texts for logs and messages: errors with their causes, the failure of a command, and texts of users with escaped
//! control characters and limited length.

mod command;
mod text;

use std::error::Error;

pub use command::CommandError;
pub use text::{MESSAGE, escaped, message, quoted, shortened};

/// Returns the text of an error with all its causes. Skips a cause whose text is already part of the text of the error
/// above the cause, because errors of libraries often include the texts of their causes.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut text = last.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        let text_of_cause = cause.to_string();
        if !last.contains(&text_of_cause) {
            text = format!("{text}: {text_of_cause}");
            last = text_of_cause;
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn link(texts: &[&'static str]) -> Option<Box<Link>> {
        let (first, rest) = texts.split_first()?;
        Some(Box::new(Link { text: first, source: link(rest) }))
    }

    #[test]
    fn chain_names_every_cause_once() {
        for (texts, expected) in [
            (&["mount /a", "mount(2)", "no such device"][..], "mount /a: mount(2): no such device"),
            (
                &["write x", "service: refused", "refused", "errno 111"],
                "write x: service: refused: errno 111",
            ),
            (&["alone"], "alone"),
        ] {
            assert_eq!(chain(&*link(texts).unwrap()), expected);
        }
    }
}
