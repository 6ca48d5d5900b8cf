//! A program's pages: one of its own, and one for each of its verbs.

use anyhow::Context;
use clap::{Arg, Command};
use clap_mangen::Man;

use crate::program::Program;

/// When what the programs do last changed, for the pages' last line: a date of the build would make each build another.
const DATE: &str = "2026-11-26";

/// One page.
pub(crate) struct Page {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The program's own page, and those of its verbs.
pub(crate) fn pages(program: &Program) -> anyhow::Result<Vec<Page>> {
    let mut command = program.command.clone().disable_help_subcommand(true).mut_args(in_full);
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

/// clap_mangen leaves out the help of a flag that `--help` does not show.
fn in_full(flag: Arg) -> Arg {
    flag.hide_short_help(false)
}

/// clap's part with the program's last sections; without clap's "EXTRA", of which those tell more.
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
    Ok(Page { file, text: one_break(&text) + last })
}

/// clap_mangen breaks the line before and after a blank one, which mandoc calls a mistake.
fn one_break(text: &str) -> String {
    text.replace("\n.br\n\n.br\n", "\n.sp\n").replace("\n\n.br\n", "\n")
}
