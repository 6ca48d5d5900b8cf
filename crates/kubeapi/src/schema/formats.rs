//! Formats of values that are enforced.

use super::Type;
use regex::Regex;
use std::sync::LazyLock;

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the patterns in this file are well formed"));
        &*PATTERN
    }};
}

/// # Errors
/// Names a format that this server does not enforce for that type.
pub(super) fn enforced(
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

/// Whether a text has a format: a time, a time with microseconds, bytes.
pub(super) fn fits(text: &str, format: &str) -> bool {
    match format {
        "date-time" => is_date_time(text),
        "micro-time" => is_date_time(text) && pattern!(r"\.[0-9]{6}(Z|[+-]..:..)$").is_match(text),
        "byte" => is_base64(&text.replace(['\n', '\r'], "")),
        _ => true,
    }
}

/// A time as built-in kinds store it, in UTC.
pub(super) fn canonical(text: &str, format: &str) -> Option<String> {
    let digits = match format {
        "date-time" => "%Y-%m-%dT%H:%M:%SZ",
        "micro-time" => "%Y-%m-%dT%H:%M:%S.%6fZ",
        _ => return None,
    };
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.strftime(digits).to_string())
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339, in either case.
fn is_date_time(text: &str) -> bool {
    pattern!(
        r"(?i)^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
    )
    .is_match(text) && text.get(..10).is_some_and(is_date)
}

fn is_base64(text: &str) -> bool {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_their_formats() {
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
