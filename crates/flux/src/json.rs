//! JSON with the spaces of Python's `json.dumps`, so that a file of Flux's commands and one of this crate have the same
//! bytes.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Writes `", "` between elements and `": "` after keys.
#[derive(Debug)]
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

/// Returns a value as JSON: on one line, or with `indent` spaces per level on many. The text has no line feed at its end.
///
/// # Errors
/// When a map has keys that are no strings.
pub fn text<T: Serialize>(value: &T, indent: Option<usize>) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?,
        Some(spaces) => {
            let spaces = " ".repeat(spaces);
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
