//! `-h` on one screen.

use clap::Arg;

/// Hides a flag in `-h` unless it is one of those that most sites set; `--help` and the manual page show it.
#[must_use]
pub fn short_help(flag: Arg, common: &[&str]) -> Arg {
    let is_common = common.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_common)
}
