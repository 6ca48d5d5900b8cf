//! The formats of values that the server enforces.

use super::Type;
use base64::{Engine, engine::general_purpose::STANDARD};

/// Returns the format, or a fault if this server does not enforce the format for that type.
pub(super) fn check_enforced(
    kind: Option<Type>,
    format: Option<String>,
) -> Result<Option<String>, String> {
    let Some(name) = format.as_deref() else { return Ok(None) };
    let known = match kind {
        Some(Type::String) => matches!(name, "date-time" | "micro-time" | "byte"),
        Some(Type::Integer) => matches!(name, "int32" | "int64"),
        Some(Type::Number) => matches!(name, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) | None => false,
    };
    if known { Ok(format) } else { Err(format!("this server does not enforce format {name:?}")) }
}

/// Returns whether a text has this format: `date-time`, `micro-time` or `byte` (base64). Any other format admits every
/// text.
pub(super) fn fits(text: &str, format: &str) -> bool {
    match format {
        "date-time" => is_date_time(text),
        "micro-time" => {
            // Go clients accept exactly six digits after the decimal point.
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
            let end = fraction.find(|character: char| !character.is_ascii_digit());
            end == Some(6) && is_date_time(text)
        }
        "byte" => STANDARD.decode(text.replace(['\n', '\r'], "")).is_ok(),
        _ => true,
    }
}

/// Returns whether a text is an RFC 3339 time, in upper or lower case; jiff also reads other formats.
fn is_date_time(text: &str) -> bool {
    let has_t = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    has_t && !text.contains('[') && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked_against_their_format() {
        let cases = [
            ("date-time", "2026-01-02T03:04:05+02:00", true),
            ("date-time", "2026-01-02t03:04:05z", true),
            ("date-time", "2026-01-02T24:00:00Z", false),
            ("date-time", "2026-02-30T00:00:00Z", false),
            ("micro-time", "2026-01-02T03:04:05Z", false),
            ("micro-time", "2026-01-02T03:04:05.000006Z", true),
            ("byte", "Zm9v", true),
            ("byte", "?", false),
        ];
        for (format, text, expected) in cases {
            assert_eq!(fits(text, format), expected, "{format} {text}");
        }
    }
}
