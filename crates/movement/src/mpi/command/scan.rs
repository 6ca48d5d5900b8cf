//! Finds the parts of a command line that only a shell can carry out.

use super::{CommandError, VARIABLES, variable};

/// How a character is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
    /// A backslash stands before the character.
    Escaped,
}

/// A character of a command line; quotation marks are left out.
#[derive(Clone, Copy, Debug)]
struct Character {
    /// Index in the text, in bytes.
    at: usize,
    value: char,
    quote: Quote,
    begins_word: bool,
}

/// Characters that end a command, redirect its input or output, or group commands.
const CONTROL: &str = ";&|<>()\n";
/// Characters of patterns that a shell replaces by names.
const PATTERN: &str = "*?[{}";

/// Checks that a command line needs no shell.
pub(super) fn check(command: &str) -> Result<(), CommandError> {
    if let Some(name) = assignment(command) {
        let remedy = format!(
            "remove `{name}=`, and to set the variable in the image or by an option of mpirun"
        );
        return Err(shell(command, &format!("{name}="), remedy));
    }
    let mut in_braces_until = 0;
    for character in characters(command) {
        let Character { at, value, quote, begins_word } = character;
        let rest = &command[at..];
        if value == '$' {
            in_braces_until = at + 1 + check_variable(command, &rest[1..], quote)?;
            continue;
        }
        let is_open = quote == Quote::None && at >= in_braces_until;
        if value == '`' && (is_open || quote == Quote::Double) {
            return Err(shell(command, "`", "write the words that it stands for".to_owned()));
        }
        if is_open && CONTROL.contains(value) {
            let is_double = rest.chars().nth(1) == Some(value);
            let part = if is_double { [value; 2].iter().collect() } else { value.to_string() };
            return Err(shell(command, &part, control_remedy(command, at + part.len())));
        }
        let is_special = PATTERN.contains(value) || begins_word && "~#".contains(value);
        if is_open && is_special {
            let remedy = "write what it stands for, or to put it in quotes".to_owned();
            return Err(shell(command, &value.to_string(), remedy));
        }
    }
    Ok(())
}

/// Checks the variable after a `$`, and returns the length of the text that names it.
fn check_variable(command: &str, rest: &str, quote: Quote) -> Result<usize, CommandError> {
    if matches!(quote, Quote::Single | Quote::Escaped) {
        return Err(CommandError::QuotedVariable { command: command.to_owned() });
    }
    let Some((name, length)) = variable(rest) else {
        let part: String = "$".chars().chain(rest.chars().next()).collect();
        return Err(shell(command, &part, "write the words that it stands for".to_owned()));
    };
    if VARIABLES.contains(&name) {
        return Ok(length);
    }
    Err(CommandError::Variable { command: command.to_owned(), name: name.to_owned() })
}

/// Returns the remedy for a character that ends a command. The sites' default command begins with `ulimit … &&`.
fn control_remedy(command: &str, end: usize) -> String {
    let first = command[..end].trim();
    if first.starts_with("ulimit") && first.ends_with("&&") {
        return format!("remove `{first}`");
    }
    "write a single command, or to name a script in the image".to_owned()
}

/// Returns the name of the variable that the first word sets.
fn assignment(command: &str) -> Option<&str> {
    let first = command.split_whitespace().next()?;
    let name = first.split_once('=')?.0;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

fn shell(command: &str, part: &str, remedy: String) -> CommandError {
    CommandError::Shell { command: command.to_owned(), part: part.to_owned(), remedy }
}

/// Returns the characters of a command line, each with its quotation, as POSIX shells quote.
fn characters(command: &str) -> Vec<Character> {
    let mut found = Vec::new();
    let (mut quote, mut begins_word) = (Quote::None, true);
    let mut rest = command.char_indices().peekable();
    while let Some((at, value)) = rest.next() {
        let next = rest.peek().map(|(_, next)| *next);
        let escapes = match quote {
            Quote::None => next.is_some(),
            _ => quote == Quote::Double && next.is_some_and(|next| "$`\"\\".contains(next)),
        };
        match (quote, value) {
            (Quote::None | Quote::Double, '\\') if escapes => {
                let (at, value) = rest.next().unwrap_or((at, value));
                found.push(Character { at, value, quote: Quote::Escaped, begins_word });
            }
            (Quote::None, '\'') => quote = Quote::Single,
            (Quote::None, '"') => quote = Quote::Double,
            (Quote::Single, '\'') | (Quote::Double, '"') => quote = Quote::None,
            _ => found.push(Character { at, value, quote, begins_word }),
        }
        begins_word = quote == Quote::None && value.is_whitespace();
    }
    found
}
