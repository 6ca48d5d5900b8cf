//! The logging flags of Go daemons that log with zap.

use clap::Args;
use log::LevelFilter;

use crate::GoFlag;

/// zap's flags, in addition to [`crate::LogArgs`].
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Logs")]
pub struct ZapArgs {
    /// --log-level as zap writes it: debug, info, error, panic, or a number: 1 is debug, a larger number is trace
    #[arg(long, value_name = "LEVEL", value_parser = level, conflicts_with = "log_level")]
    zap_log_level: Option<LevelFilter>,
    #[arg(long, hide = true)]
    zap_devel: Option<bool>,
    #[arg(long, hide = true)]
    zap_encoder: Option<String>,
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

impl ZapArgs {
    /// zap's flags, for [`crate::translate`].
    pub const FLAGS: [GoFlag; 5] = [
        GoFlag::Value("zap-log-level"),
        GoFlag::Switch("zap-devel"),
        GoFlag::Value("zap-encoder"),
        GoFlag::Value("zap-stacktrace-level"),
        GoFlag::Value("zap-time-encoding"),
    ];

    /// Returns the level of `--zap-log-level`, if given.
    #[must_use]
    pub fn level(&self) -> Option<LevelFilter> {
        self.zap_log_level
    }

    /// Returns those of the given flags that have no effect in Warren's daemons.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let flags = [
            ("--zap-devel", self.zap_devel.is_some()),
            ("--zap-encoder", self.zap_encoder.is_some()),
            ("--zap-stacktrace-level", self.zap_stacktrace_level.is_some()),
            ("--zap-time-encoding", self.zap_time_encoding.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "debug" | "1" => Ok(LevelFilter::Debug),
        "info" => Ok(LevelFilter::Info),
        "error" | "panic" => Ok(LevelFilter::Error),
        number if number.parse::<u8>().is_ok_and(|number| number > 1) => Ok(LevelFilter::Trace),
        _ => Err("use debug, info, error, panic, or a number from 1 on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{LogArgs, translate};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        logs: LogArgs,
        #[command(flatten)]
        zap: ZapArgs,
    }

    fn parsed(args: &[&str]) -> Result<Line, String> {
        let args = ["agent"].iter().chain(args).map(Into::into);
        Line::try_parse_from(translate(args, &ZapArgs::FLAGS)).map_err(|error| error.to_string())
    }

    #[test]
    fn zaps_levels_are_converted() {
        for (text, level) in [
            ("debug", LevelFilter::Debug),
            ("info", LevelFilter::Info),
            ("error", LevelFilter::Error),
            ("panic", LevelFilter::Error),
            ("1", LevelFilter::Debug),
            ("5", LevelFilter::Trace),
        ] {
            let line = parsed(&["-zap-log-level", text]).unwrap();
            assert_eq!(line.zap.level(), Some(level), "{text}");
        }
        for wrong in ["0", "-1", "loud", ""] {
            assert!(
                parsed(&["--zap-log-level", wrong]).unwrap_err().contains("use debug"),
                "{wrong}"
            );
        }
        assert_eq!(parsed(&[]).unwrap().zap.level(), None);
    }

    #[test]
    fn a_go_flag_and_a_rust_flag_for_the_log_level_together_are_refused() {
        let error = parsed(&["--log-level", "warn", "--zap-log-level=debug"]).unwrap_err();
        assert!(error.contains("--log-level") && error.contains("--zap-log-level"), "{error}");
    }

    #[test]
    fn go_flags_without_effect_are_accepted_and_listed() {
        let line = parsed(&["-zap-devel", "--zap-encoder=json", "-zap-time-encoding", "iso8601"]);
        let line = line.unwrap();
        assert_eq!(
            line.zap.without_effect(),
            ["--zap-devel", "--zap-encoder", "--zap-time-encoding"]
        );
        assert_eq!(line.logs.log_level, LevelFilter::Info);
    }
}
