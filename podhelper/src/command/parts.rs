//! What stands between the semicolons of a text for a shell.

use super::CommandError;

/// What stands between two semicolons.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) text: String,
    /// Whether it has a `$` that a shell would act on.
    pub(super) refers: bool,
    /// Whether it has a `$` that a shell would leave as it is.
    pub(super) is_literal: bool,
}

/// Cuts a text at the semicolons that are not quoted, and refuses what only a shell understands.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, CommandError> {
    let mut parts = vec![Part::default()];
    let (mut quote, mut before) = (None, ' ');
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if is_for_a_shell(quote, before, character) {
            return Err(CommandError::Shell { character, text: text.to_owned() });
        }
        before = character;
        let part = parts.last_mut().expect("there is a first");
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

/// Whether a shell would act on a character, where this quote is open and this character stands before it.
fn is_for_a_shell(quote: Option<char>, before: char, character: char) -> bool {
    match (quote, character) {
        (None, '|' | '&' | '<' | '>' | '(' | ')' | '\n') | (None | Some('"'), '`') => true,
        // A comment.
        (None, '#') => before.is_whitespace(),
        // A home directory, also within a list of paths.
        (None, '~') => before.is_whitespace() || matches!(before, '=' | ':'),
        _ => false,
    }
}

/// The words of a part, without their quotes.
pub(super) fn words(text: &str) -> Result<Vec<String>, CommandError> {
    shell_words::split(text).map_err(|_| CommandError::Quote(text.to_owned()))
}
