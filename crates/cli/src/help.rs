//! Help texts: `-h` and `--help` fit on one screen, `--help-all` shows everything.

use clap::{Arg, ArgAction, Command};

/// Hides a flag in `--help` unless `common`, the list of flags that most sites set, contains the flag. `--help-all` and
/// the manual page show all flags.
#[must_use]
pub fn short_help(flag: Arg, common: &[&str]) -> Arg {
    let is_common = common.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_common)
}

/// Gives a program and all its verbs a short `--help` and a full `--help-all`. Pass this function to clap's
/// `Command::defer`.
///
/// The short `--help` replaces clap's own `--help`, which would print the full text.
#[must_use]
pub fn help_on_a_screen(command: Command) -> Command {
    // Without this heading, clap would list the flags under the heading of the program's last flag, not under
    // "Options".
    let flag = |id: &'static str| Arg::new(id).help_heading(None::<&str>);
    let short = flag("help").short('h').long("help").action(ArgAction::HelpShort);
    let long = flag("help_all").long("help-all").action(ArgAction::HelpLong).hide_short_help(true);
    command
        .disable_help_flag(true)
        .arg(short.help("Print help (see more with '--help-all')"))
        .arg(long.help("Print help with every flag, in full"))
        .mut_subcommands(help_on_a_screen)
}
