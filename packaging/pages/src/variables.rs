//! Tables of the variables that a program's environment file may set, generated from the program's flags.

use anyhow::{Context, ensure};
use clap::Arg;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::program::Program;

/// Returns the line of a page in whose place the table of this program goes.
fn marker(program: &Program) -> String {
    format!(".\\\" VARIABLES {}\n", program.name)
}

/// Returns the page with each program's table in the place of its marker.
pub(crate) fn filled_in(page: &str, programs: &[Program]) -> anyhow::Result<String> {
    let mut page = page.to_owned();
    for program in programs {
        page = page.replace(&marker(program), &table(program)?);
    }
    ensure!(!page.contains("VARIABLES "), "a marker VARIABLES in a manual page names no program");
    Ok(page)
}

fn table(program: &Program) -> anyhow::Result<String> {
    let mut command = program.command.clone();
    command.build();
    let mut roff = Roff::new();
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        if let Some(variable) = flag.get_env() {
            entry(&mut roff, &variable.to_string_lossy(), flag);
        }
    }
    let mut text = Vec::new();
    roff.to_writer(&mut text)?;
    String::from_utf8(text).with_context(|| format!("the variables of {}", program.name))
}

fn entry(roff: &mut Roff, variable: &str, flag: &Arg) {
    let value = flag.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.unwrap_or_else(|| "true".to_owned());
    roff.control("TP", []);
    roff.text([bold(variable), roman("="), italic(value)]);
    let help = flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
    roff.text([roman(format!("{}.", help.unwrap_or_default()))]);
    let defaults: Vec<_> =
        flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && flag.get_action().takes_values() {
        roff.text([roman("Default: "), bold(defaults.join(" ")), roman(".")]);
    }
    if let Some(long) = flag.get_long() {
        roff.text([roman("Flag: "), bold(format!("--{long}")), roman(".")]);
    }
}
