//! Go's ways to write flags (package flag): one dash or two, and its words for booleans and times.

use std::{ffi::OsString, time::Duration};

use log::LevelFilter;

/// The flags of clientmountd that may be written with one dash.
const FLAGS: [&str; 13] = [
    "kubernetes-service-host",
    "kubernetes-service-port",
    "node-name",
    "service-token-file",
    "service-cert-file",
    "mock",
    "command-timeout",
    "zap-devel",
    "zap-encoder",
    "zap-log-level",
    "zap-stacktrace-level",
    "zap-time-encoding",
    "help",
];
const LONGEST: Duration = Duration::from_secs(86_400);

/// The same command line with two dashes where Go takes one as well.
#[must_use]
pub fn spelled_as_here(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut flags = true;
    let spelled = arguments.into_iter().map(|argument| {
        flags &= argument != "--";
        if flags && one_dash(&argument) {
            let mut two = OsString::from("-");
            two.push(argument);
            two
        } else {
            argument
        }
    });
    spelled.collect()
}

fn one_dash(argument: &OsString) -> bool {
    let Some(flag) = argument.to_str().and_then(|text| text.strip_prefix('-')) else {
        return false;
    };
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    FLAGS.contains(&name)
}

/// What Go's `strconv.ParseBool` takes.
pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("use true or false"),
    }
}

/// A number of seconds, or a time with units.
pub(super) fn timeout(text: &str) -> Result<Duration, &'static str> {
    const USE: &str = "use seconds, or a time like 1m30s, up to 24 hours";
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| USE)?,
    };
    if time > LONGEST { Err(USE) } else { Ok(time) }
}

/// The levels of zap, of which numbers are ever finer debugging.
pub(super) fn level(text: &str) -> Result<LevelFilter, &'static str> {
    match text {
        "debug" => Ok(LevelFilter::Debug),
        "info" => Ok(LevelFilter::Info),
        "error" | "panic" => Ok(LevelFilter::Error),
        number => match number.parse::<u32>() {
            Ok(0) => Ok(LevelFilter::Info),
            Ok(1) => Ok(LevelFilter::Debug),
            Ok(_) => Ok(LevelFilter::Trace),
            Err(_) => Err("use debug, info, error, panic or a number"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_is_as_good_as_two_for_gos_flags_only() {
        for (written, spelled) in [
            ("-node-name=c1", "--node-name=c1"),
            ("-mock", "--mock"),
            ("--mock", "--mock"),
            ("-help", "--help"),
            ("-h", "-h"),
            ("-node", "-node"),
            ("node-name", "node-name"),
        ] {
            assert_eq!(spelled_as_here([written.into()]), [spelled], "{written}");
        }
        let rest = ["--".into(), "-mock".into()];
        assert_eq!(spelled_as_here(rest.clone()), rest);
    }

    #[test]
    fn words_of_go() {
        assert_eq!(
            (boolean("T"), boolean("0"), boolean("yes").is_err()),
            (Ok(true), Ok(false), true)
        );
        for (text, seconds) in [("90", Some(90)), ("1m30s", Some(90)), ("0", Some(0)), ("x", None)]
        {
            assert_eq!(timeout(text).ok(), seconds.map(Duration::from_secs), "{text}");
        }
        assert!(timeout("25h").is_err());
        for (text, wanted) in [
            ("debug", Some(LevelFilter::Debug)),
            ("panic", Some(LevelFilter::Error)),
            ("5", Some(LevelFilter::Trace)),
            ("loud", None),
        ] {
            assert_eq!(level(text).ok(), wanted, "{text}");
        }
    }
}
