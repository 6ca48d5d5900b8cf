//! Help texts: `-h` and `--help` fit on one screen, `--help-all` shows everything.

use clap::{Arg, ArgAction, Command};

/// Hides a flag in `--help` unless it is in `common`, the flags that most sites set. `--help-all` and the manual page show all
/// flags.
#[must_use]
pub fn short_help(flag: Arg, common: &[&str]) -> Arg {
    let is_common = common.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_common)
}

/// Gives a program and all its verbs a short `--help` and a full `--help-all`. For clap's `defer`.
///
/// clap's own `--help` would be the full one.
#[must_use]
pub fn help_on_a_screen(command: Command) -> Command {
    // Lists the flags under "Options", not under the heading of the program's last flag.
    let flag = |id: &'static str| Arg::new(id).help_heading(None::<&str>);
    let short = flag("help").short('h').long("help").action(ArgAction::HelpShort);
    let long = flag("help_all").long("help-all").action(ArgAction::HelpLong).hide_short_help(true);
    command
        .disable_help_flag(true)
        .arg(short.help("Print help (see more with '--help-all')"))
        .arg(long.help("Print help with every flag, in full"))
        .mut_subcommands(help_on_a_screen)
}
