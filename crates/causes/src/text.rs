//! Escapes and shortens texts of users for messages, logs and terminals: directives, container logs, names of processes
//! and hosts, names of files in archives.

/// Largest size of a message (of a status, an error or a refusal), in bytes. gRPC sends the message in a header,
/// percent-encoded, which may take three bytes for each byte of the message; a gRPC client rejects an answer whose
/// headers exceed 16 KiB.
pub const MESSAGE: usize = 4 << 10;
/// Largest size of a line that a message quotes, such as a directive, in bytes.
const QUOTE: usize = 256;

/// Escapes the characters that control a terminal, in Rust's notation such as `\u{1b}`: control characters, and
/// characters that change the writing direction (such as U+202E). Does not escape the characters in `kept`.
#[must_use]
pub fn escaped(text: &str, kept: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if controls_terminal(character) && !kept.contains(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn controls_terminal(character: char) -> bool {
    let turns = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    character.is_control() || turns.iter().any(|range| range.contains(&character))
}

/// Returns the text as one line of at most [`QUOTE`] bytes, for a message that quotes the text.
#[must_use]
pub fn quoted(text: &str) -> String {
    shortened(escaped(text, ""), QUOTE)
}

/// Returns a message of at most [`MESSAGE`] bytes. Keeps newlines and tabs.
#[must_use]
pub fn message(text: &str) -> String {
    shortened(escaped(text, "\n\t"), MESSAGE)
}

/// Separator between a shortened text and its original length.
const MISSING: &str = " … (";
/// The end of a shortened text.
const IN_ALL: &str = " bytes in all)";

/// Shortens a text to at most `limit` bytes, and appends its original length. If the text was shortened already, keeps
/// the original length that was appended then.
#[must_use]
pub fn shortened(mut text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let (length, all) = shortened_before(&text).unwrap_or((text.len(), text.len()));
    let missing = format!("{MISSING}{all}{IN_ALL}");
    text.truncate(length);
    text.truncate(text.floor_char_boundary(limit.saturating_sub(missing.len())));
    text.push_str(&missing);
    text
}

/// Returns two lengths in bytes if the text was shortened before: the length of the part that was kept, and the length
/// of the original text.
fn shortened_before(text: &str) -> Option<(usize, usize)> {
    let (rest, all) = text.strip_suffix(IN_ALL)?.rsplit_once(MISSING)?;
    Some((rest.len(), all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(
            escaped("a\x1b[2J\u{9b}1m\x07ü\tb\n\u{202e}c", "\t\n"),
            "a\\u{1b}[2J\\u{9b}1m\\u{7}ü\tb\n\\u{202e}c"
        );
        assert_eq!(quoted("one\ntwo"), "one\\ntwo");
        assert_eq!(message("one\n\ttwo\r"), "one\n\ttwo\\r");
    }

    #[test]
    fn message_and_quoted_stay_within_their_limits_when_every_character_is_escaped() {
        let text = "\x1b".repeat(MESSAGE);
        assert!(message(&text).len() <= MESSAGE && quoted(&text).len() <= QUOTE);
        assert!(!message(&text).contains('\x1b'));
    }

    #[test]
    fn a_shortened_text_ends_with_its_original_length() {
        assert_eq!(shortened("as it is".to_owned(), MESSAGE), "as it is");
        for limit in [40, 41, 42, MESSAGE] {
            let cut = shortened("ü".repeat(8 << 20), limit);
            assert!(cut.len() <= limit && cut.starts_with('ü'), "{}", cut.len());
            assert!(cut.ends_with(" … (16777216 bytes in all)"), "{limit}");
            let twice = shortened(cut, limit - 3);
            assert!(twice.len() <= limit - 3, "{}", twice.len());
            assert_eq!(twice.matches('…').count(), 1);
            assert!(twice.ends_with(" … (16777216 bytes in all)"), "{limit}");
        }
    }
}
