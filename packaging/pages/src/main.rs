//! Writes the manual pages and the shell completions of all programs into a directory. Only the build of the packages
//! runs this program; the installed programs contain none of its code.

mod page;
mod program;
mod variables;

use std::{fs, path::Path};

use anyhow::Context;
use clap_complete::Shell;

use program::Program;

/// Pages that are written by hand; their marker lines are replaced by tables of environment variables.
const WRITTEN: [(&str, &str); 2] = [
    ("warren.7", include_str!("../../../docs/man/warren.7")),
    ("warren.conf.5", include_str!("../../../docs/man/warren.conf.5")),
];

fn main() -> anyhow::Result<()> {
    let directory = std::env::args_os().nth(1).context("usage: pages DIRECTORY")?;
    let directory = Path::new(&directory);
    let programs = program::all();
    for (file, text) in WRITTEN {
        write(directory, file, &variables::filled_in(text, &programs)?)?;
    }
    for program in programs {
        for page in page::pages(&program)? {
            write(directory, &page.file, &page.text)?;
        }
        complete(&program, &directory.join("completions"))?;
    }
    Ok(())
}

/// Writes a page into `man/manN/`, where N is the section that the file's name ends with.
fn write(directory: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    let section =
        file.rsplit('.').next().with_context(|| format!("the file name {file} has no section"))?;
    let directory = directory.join(format!("man/man{section}"));
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    let path = directory.join(file);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn complete(program: &Program, directory: &Path) -> anyhow::Result<()> {
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
        clap_complete::generate_to(shell, &mut program.command.clone(), program.name, &directory)
            .with_context(|| format!("write completions into {}", directory.display()))?;
    }
    Ok(())
}
