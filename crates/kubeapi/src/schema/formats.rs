//! Formats of strings that kube-apiserver enforces (kube-openapi `strfmt`, apiextensions `supportedVersionedFormats`). Those that
//! it does not know it ignores, and so do we.

use super::Type;
use regex::Regex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

const OF_STRINGS: [&str; 22] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
];

/// The format that is enforced for a type, of what a schema says.
pub(super) fn enforced(kind: Option<Type>, format: &str) -> Option<String> {
    let known = match kind {
        None | Some(Type::String) => {
            let plain = format.replace('-', "");
            OF_STRINGS.contains(&plain.as_str())
                || matches!(&*plain, "duration" | "datetime" | "microtime")
        }
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    };
    known.then(|| format.to_owned())
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the patterns in this file are well formed"));
        &*PATTERN
    }};
}

/// Whether a text has a format; a format that is not known here every text has.
pub(super) fn has(text: &str, format: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => pattern!(
            "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
        )
        .is_match(text),
        "uuid" => {
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
                .is_match(text)
        }
        "uuid3" => {
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
                .is_match(text)
        }
        "uuid4" => pattern!(
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
        )
        .is_match(text),
        "uuid5" => pattern!(
            "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
        )
        .is_match(text),
        "ipv4" => text.contains('.') && parse_ip(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_network(text),
        "mac" => is_mac(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_request_uri(text),
        "hexcolor" => pattern!("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").is_match(text),
        _ => true,
    }
}

/// Whether Go reads a text as a value of a format: a time, a time with microseconds, bytes.
fn fits(text: &str, format: &str) -> bool {
    let time = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]";
    let zone = r"(Z|[+-][0-9]{2}:[0-9]{2})$";
    let matches = |fraction: &str| {
        Regex::new(&format!("{time}{fraction}{zone}")).is_ok_and(|pattern| pattern.is_match(text))
    };
    match format {
        "date-time" => is_date_time(text) && matches(r"([.,][0-9]+)?"),
        "micro-time" => is_date_time(text) && matches(r"\.[0-9]{6}"),
        "byte" => {
            let plain: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, plain).is_ok()
        }
        _ => true,
    }
}

/// What Go says of a text that is none of its format.
pub(super) fn misfit(text: &str, format: &str) -> Option<String> {
    if fits(text, format) {
        return None;
    }
    let layout = match format {
        "date-time" => "2006-01-02T15:04:05Z07:00",
        "micro-time" => "2006-01-02T15:04:05.000000Z07:00",
        _ => return Some(format!("illegal base64 data at input byte {}", illegal_byte(text))),
    };
    // What a whole second lacks is the fraction; of everything else Go finds out at its beginning or somewhere further on.
    let (rest, part) = match text.get(19..) {
        Some(rest) if fits(text, "date-time") => (rest, ".000000"),
        _ => (text, "2006"),
    };
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"))
}

fn illegal_byte(text: &str) -> usize {
    let engine = base64::engine::general_purpose::STANDARD;
    match base64::Engine::decode(&engine, text) {
        Err(base64::DecodeError::InvalidByte(at, _)) => at,
        _ => text.len(),
    }
}

/// A time as Go writes it, in UTC.
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

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let time = pattern!("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
        .captures(time);
    is_date(date)
        && time.is_some_and(|time| &time[1] <= "23" && &time[2] <= "59" && &time[3] <= "59")
}

/// Go's durations, or words of number and unit as Scala has them.
fn is_duration(text: &str) -> bool {
    if pattern!(r"^[-+]?(0|([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$").is_match(text) {
        return true;
    }
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns", "nano"], "nano"),
        (&["us", "µs", "micro"], "micro"),
        (&["ms", "milli"], "milli"),
        (&["s", "sec"], "sec"),
        (&["m", "min"], "min"),
        (&["h", "hr", "hour"], "hour"),
        (&["d", "day"], "day"),
        (&["w", "wk", "week"], "week"),
    ];
    pattern!(r"(\d+)\s*([A-Za-zµ]+)").captures_iter(text).any(|word| {
        let unit = word[2].to_lowercase();
        UNITS.iter().any(|(names, last)| names.contains(&unit.as_str()) || unit.starts_with(last))
    })
}

/// Numbers may have zeros in front, as in Go before 1.17.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| digits)
    };
    let bytes: Vec<u8> = parts.iter().filter_map(number).collect();
    let bytes: [u8; 4] = bytes.try_into().ok().filter(|_| parts.len() == 4)?;
    Some(IpAddr::V4(Ipv4Addr::from(bytes)))
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let digits = length.bytes().all(|byte| byte.is_ascii_digit());
    let most = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    digits && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    pattern!("^[0-9a-fA-F]{2}([:-])[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){4}(([:-][0-9a-fA-F]{2}){2}|([:-][0-9a-fA-F]{2}){14})?$").is_match(text)
        && !(text.contains(':') && text.contains('-'))
        || pattern!(r"^[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2}((\.[0-9a-fA-F]{4}){1}|(\.[0-9a-fA-F]{4}){7})?$").is_match(text)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
        && pattern!(r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$").is_match(text)
}

/// An address, alone or after a name and in brackets.
fn is_email(text: &str) -> bool {
    pattern!(r#"^([^<>@]*<)?[^\s<>@,;:\\"\[\]()]+@[^\s<>@,;:\\"()]+>?$"#).is_match(text)
        && text.contains('<') == text.ends_with('>')
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    text.starts_with('/')
        || text == "*"
        || pattern!(r"^[a-zA-Z][a-zA-Z0-9+.-]*:[^\s\x00-\x1f]+$").is_match(text)
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
            ("ipv4", "10.0.0.01", true),
            ("ipv4", "10.0.0.256", false),
            ("cidr", "10.0.0.0", false),
            ("duration", "1 day", true),
            ("duration", "1", false),
            ("mac", "0011.2233.4455", true),
            ("hostname", "a_b", false),
            ("anything", "", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(has(text, format), expected, "{format} {text}");
        }
    }
}
