//! Splits a shell text at its semicolons.

use super::CommandError;

/// The text between two semicolons.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) text: String,
    /// Whether the text has a `$` that a shell would expand.
    pub(super) refers: bool,
    /// Whether the text has a `$` that a shell would not expand.
    pub(super) is_literal: bool,
}

/// Splits a text at the semicolons outside quotes, and rejects characters that only a shell can interpret.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, CommandError> {
    let mut parts = vec![Part::default()];
    let (mut quote, mut before) = (None, ' ');
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if needs_shell(quote, before, character) {
            return Err(CommandError::Shell { character, text: text.to_owned() });
        }
        before = character;
        let part = parts.last_mut().expect("the list begins with one part");
        match (quote, character) {
            (None, ';') => {
                parts.push(Part::default());
                before = ' ';
                continue;
            }
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '$') => part.refers = true,
            (Some(_), '$') => part.is_literal = true,
            (None | Some('"'), '\\') => {
                part.text.push('\\');
                let Some(next) = characters.next() else { break };
                part.is_literal |= next == '$';
                part.text.push(next);
                before = next;
                continue;
            }
            _ => {}
        }
        part.text.push(character);
    }
    parts.retain(|part| !part.text.trim().is_empty());
    Ok(parts)
}

/// Returns whether only a shell can interpret `character`. `quote` is the kind of quote that is open, `before`
/// is the preceding character.
fn needs_shell(quote: Option<char>, before: char, character: char) -> bool {
    match (quote, character) {
        (None, '|' | '&' | '<' | '>' | '(' | ')' | '\n') | (None | Some('"'), '`') => true,
        // `#` begins a comment.
        (None, '#') => before.is_whitespace(),
        // `~` means a home directory, also within a list of paths.
        (None, '~') => before.is_whitespace() || matches!(before, '=' | ':'),
        _ => false,
    }
}

/// Returns the words of a part, without their quotes.
pub(super) fn words(text: &str) -> Result<Vec<String>, CommandError> {
    shell_words::split(text).map_err(|_| CommandError::Quote(text.to_owned()))
}
