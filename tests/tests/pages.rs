//! Tests of the manual pages and shell completions that the packages install.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tests::{
    help::{commands, output_of},
    program::{binary, command},
};

const PROGRAMS: [(&str, &str); 4] =
    [("clientmount-agent", "8"), ("rabbit-agent", "8"), ("coordinator", "8"), ("warren", "1")];

/// Runs `pages` and returns the files that it writes, by their path in the directory.
fn generate_pages() -> anyhow::Result<BTreeMap<String, String>> {
    let directory = TempDir::new()?;
    let output = command(binary("pages")?).arg(directory.path()).output()?;
    ensure!(output.status.success(), "pages: {output:?}");
    let mut found = BTreeMap::new();
    gather(directory.path(), directory.path(), &mut found)?;
    Ok(found)
}

fn gather(place: &Path, root: &Path, found: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, root, found)?;
        } else {
            let name = path.strip_prefix(root)?.display().to_string();
            found.insert(name, fs::read_to_string(path)?);
        }
    }
    Ok(())
}

/// Returns the long flags that a help text explains, that is, the flags at the beginning of a line.
fn explained_flags(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start);
    let flag = |line: &str| {
        let line = line.split_once(", ").map_or(line, |(_, long)| long);
        let end = line.find(|letter: char| letter != '-' && !letter.is_alphanumeric());
        line.starts_with("--").then(|| line[..end.unwrap_or(line.len())].to_owned())
    };
    lines.filter(|line| line.starts_with('-')).filter_map(flag).collect()
}

#[test]
fn every_program_has_a_page_with_all_its_flags_and_completions() -> anyhow::Result<()> {
    let written = generate_pages()?;
    for (program, section) in PROGRAMS {
        let name = format!("man/man{section}/{program}.{section}");
        let page = written.get(&name).with_context(|| name.clone())?;
        let page = page.replace("\\-", "-");
        let flags = explained_flags(&output_of(program, &["--help-all"])?);
        ensure!(flags.len() > 5, "{program}: {flags:?}");
        for flag in flags {
            ensure!(page.contains(&format!("\\fB{flag}\\fR")), "{name} has no {flag}");
        }
        for part in [".SH EXIT STATUS", ".SH FILES", ".SH SEE ALSO"] {
            ensure!(page.contains(part), "{name} has no {part}");
        }
        for name in [
            format!("bash/{program}.bash"),
            format!("zsh/_{program}"),
            format!("fish/{program}.fish"),
        ] {
            let script = written.get(&format!("completions/{name}")).context(name.clone())?;
            ensure!(script.contains("log-level") || program == "warren", "{name}");
        }
    }
    Ok(())
}

#[test]
fn every_verb_has_a_page() -> anyhow::Result<()> {
    let written = generate_pages()?;
    for (program, section) in PROGRAMS {
        for (typed, _) in commands(program, "--help-all")? {
            let name = format!("man/man{section}/{}.{section}", typed.replace(' ', "-"));
            ensure!(written.contains_key(&name), "{name} was not written");
        }
    }
    Ok(())
}

#[test]
fn every_variable_and_every_exit_status_is_explained() -> anyhow::Result<()> {
    let written = generate_pages()?;
    let settings = written["man/man5/warren.conf.5"].replace("\\-", "-");
    for (program, _) in PROGRAMS {
        let help = output_of(program, &["--help-all"])?;
        let variables: Vec<_> =
            help.split("[env: ").skip(1).filter_map(|rest| rest.split('=').next()).collect();
        ensure!(!variables.is_empty(), "{program} has no variables");
        for variable in variables {
            ensure!(settings.contains(&format!("\\fB{variable}\\fR=")), "no {variable}");
        }
    }
    let codes = output_of("warren", &["--help-all"])?;
    let codes = codes.lines().skip_while(|line| *line != "Exit status:").skip(1);
    let codes: Vec<_> =
        codes.filter_map(|line| line.strip_prefix("  ")?.split("  ").next()).collect();
    ensure!(codes.len() >= 8, "{codes:?}");
    for page in ["man/man7/warren.7", "man/man1/warren.1"] {
        let text = written.get(page).context(page)?;
        let statuses_of_verbs = text.split(".SH EXIT STATUS").nth(1).context(page)?;
        let statuses_of_verbs = statuses_of_verbs.split(".SS The daemons").next().context(page)?;
        for code in codes.iter().filter(|code| code.parse::<u8>().is_ok()) {
            ensure!(statuses_of_verbs.contains(&format!(".B {code}\n")), "{page} has no {code}");
        }
    }
    Ok(())
}

#[test]
fn two_runs_of_pages_write_the_same_bytes() -> anyhow::Result<()> {
    ensure!(generate_pages()? == generate_pages()?, "two runs differ");
    Ok(())
}

#[test]
fn mandoc_reports_no_warning() -> anyhow::Result<()> {
    if !gate::mandoc() {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let output = command(binary("pages")?).arg(directory.path()).output()?;
    ensure!(output.status.success(), "pages: {output:?}");
    let pages: Vec<_> =
        generate_pages()?.into_keys().filter(|name| name.starts_with("man/")).collect();
    ensure!(pages.len() > 10, "{pages:?}");
    let mut mandoc = command("mandoc");
    // mandoc's level below `warning`, `style`, would also report lines of more than 80 bytes.
    mandoc.args(["-T", "lint", "-W", "warning"]).args(pages).current_dir(directory.path());
    let output = mandoc.output()?;
    ensure!(
        output.status.success() && output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(())
}
