//! Formats of strings that are enforced. kube-apiserver ignores those that it does not know, and so do we.

use super::Type;
use regex::Regex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// Labels of letters, digits and dashes, in any script; the last of several is a word (kube-openapi `strfmt.HostnamePattern`).
const HOSTNAME: &str = r"^([\p{S}\pL0-9](-?[\p{S}\pL0-9]{0,62})?|([\p{S}\pL0-9]([\p{S}\pL0-9-]{0,61}[\p{S}\pL0-9])?\.)+\pL{2,63})$";

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the patterns in this file are well formed"));
        &*PATTERN
    }};
}
/// The format of a schema, when this server enforces it for that type.
pub(super) fn enforced(kind: Option<Type>, format: &str) -> Option<String> {
    let known = match kind {
        None | Some(Type::String) => format == "micro-time" || check(format).is_some(),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    };
    known.then(|| format.to_owned())
}

/// Whether a text has a format; every text has an unknown format.
pub(super) fn has(text: &str, format: &str) -> bool {
    check(format).is_none_or(|check| check(text))
}

fn check(format: &str) -> Option<fn(&str) -> bool> {
    Some(match format.replace('-', "").as_str() {
        "datetime" => is_date_time,
        "date" => is_date,
        "duration" => is_duration,
        "byte" => |text| !text.is_empty() && is_base64(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => |text| uuid::Uuid::try_parse(text).is_ok(),
        "ipv4" => |text| text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_network,
        "mac" => |text| pattern!("^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$").is_match(text),
        "hostname" => |text| text.len() <= 255 && pattern!(HOSTNAME).is_match(text),
        "email" => |text| pattern!(r"^[^\s@]+@[^\s@]+$").is_match(text),
        "uri" => |text| pattern!(r"^(/|[a-zA-Z][a-zA-Z0-9+.-]*:[^\s]+)").is_match(text),
        _ => return None,
    })
}

/// Whether a text is a value of a built-in kind's format: a time, a time with microseconds, bytes.
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

/// Go's durations; and words of a number and a unit, where any such word will do (kube-openapi `strfmt.ParseDuration`).
fn is_duration(text: &str) -> bool {
    pattern!(r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").is_match(text)
        || pattern!(
            r"(?i)[0-9]\s*([nuµm]?s|m|hr?|d|wk?|(nano|micro|milli|sec|min|hour|day|week)\pL*)\b"
        )
        .is_match(text)
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

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
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
            ("date", "2026-02-30", false),
            ("byte", "", false),
            ("ipv4", "10.0.0.256", false),
            ("cidr", "10.0.0.0", false),
            ("duration", "2h45m", true),
            ("duration", "1d", true),
            ("duration", "1 day", true),
            ("duration", "1", false),
            ("hostname", "häßlich", true),
            ("hostname", "a.b.example", true),
            ("hostname", "A.B", false),
            ("hostname", "a_b", false),
            ("anything", "", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(has(text, format), expected, "{format} {text}");
        }
    }
}
