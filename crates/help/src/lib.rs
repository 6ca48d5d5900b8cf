//! `-h` and `--help` on one screen, `--help-all` with everything.

use clap::{Arg, ArgAction, Command};

/// Hides a flag in `--help` unless it is one of those that most sites set; `--help-all` and the manual page show it.
#[must_use]
pub fn short_help(flag: Arg, common: &[&str]) -> Arg {
    let is_common = common.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_common)
}

/// Gives a program and all its verbs a `--help` of one screen, and `--help-all`.
///
/// clap's own `--help` is the long one; for clap's `defer`.
#[must_use]
pub fn help_on_a_screen(command: Command) -> Command {
    // Under "Options", not under the heading of the program's last flag.
    let flag = |id: &'static str| Arg::new(id).help_heading(None::<&str>);
    let short = flag("help").short('h').long("help").action(ArgAction::HelpShort);
    let long = flag("help_all").long("help-all").action(ArgAction::HelpLong).hide_short_help(true);
    command
        .disable_help_flag(true)
        .arg(short.help("Print help (see more with '--help-all')"))
        .arg(long.help("Print help with every flag, in full"))
        .mut_subcommands(help_on_a_screen)
}
