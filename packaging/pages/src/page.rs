//! A program's manual pages: one for the program, and one for each of its verbs.

use anyhow::Context;
use clap::{Arg, Command};
use clap_mangen::Man;

use crate::program::Program;

/// Date in the pages' last line: when the programs last changed. The date of the build would make each build different.
const DATE: &str = "2026-11-26";

/// A manual page: its file name, with the section, and its text as roff.
pub(crate) struct Page {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// Returns the program's page and the pages of its verbs.
pub(crate) fn pages(program: &Program) -> anyhow::Result<Vec<Page>> {
    let mut command =
        program.command.clone().disable_help_subcommand(true).mut_args(show_in_short_help);
    command.build();
    let mut pages = vec![page(&command, program.section, program.last)?];
    add_verbs(&command, program, &mut pages)?;
    Ok(pages)
}

fn add_verbs(command: &Command, program: &Program, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    let (name, section) = (program.name, program.section);
    let last = format!(".SH SEE ALSO\n.BR {name} ({section}),\n.BR warren (7)\n");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        pages.push(page(verb, section, &last)?);
        add_verbs(verb, program, pages)?;
    }
    Ok(())
}

/// Shows a flag in the short help too: clap_mangen leaves out the help of a flag that the short help hides.
fn show_in_short_help(flag: Arg) -> Arg {
    flag.hide_short_help(false)
}

/// Returns the sections that clap generates, then `last`. clap's section EXTRA is left out: `last` says more.
fn page(command: &Command, section: &str, last: &str) -> anyhow::Result<Page> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone())
        .section(section)
        .date(DATE)
        .source(format!("Warren {version}"))
        .manual("Warren");
    let file = man.get_filename();
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let text = String::from_utf8(text).with_context(|| file.clone())?;
    Ok(Page { file, text: merge_breaks(&text) + last })
}

/// Merges line breaks that follow each other: clap_mangen breaks the line before and after a blank one, and mandoc reports that.
fn merge_breaks(text: &str) -> String {
    text.replace("\n.br\n\n.br\n", "\n.sp\n").replace("\n\n.br\n", "\n")
}
