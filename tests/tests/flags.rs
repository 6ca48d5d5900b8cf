//! Every flag in the documents, manual pages, scripts, units and manifests is in a program's `--help-all`, and every
//! link of a document leads to a file and a heading.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use regex::Regex;
use tests::{help::commands as commands_of, program::command};

const PROGRAMS: [&str; 4] = ["clientmount-agent", "rabbit-agent", "coordinator", "warren"];

const SCRIPTS: [&str; 2] =
    ["packaging/kubernetes/node-identities", "packaging/kubernetes/renew-token"];

/// Flags of other programs that occur in the documents, each with its program.
const THEIRS: [(&str, &str); 47] = [
    ("--allow-run-as-root", "mpirun"),
    ("--hostfile", "mpirun"),
    ("--progress", "dcp"),
    ("--uid", "dcp"),
    ("--gid", "dcp"),
    ("--test", "cargo"),
    ("--no-default-features", "cargo"),
    ("--create", "systemd-tmpfiles"),
    ("--cli", "nnf-node-manager"),
    ("--direct", "nnf-node-manager"),
    ("--initializeAndExit", "nnf-node-manager"),
    ("--leader-elect", "nnf-node-manager"),
    ("--persistence", "nnf-node-manager"),
    ("--purge", "nnf-node-manager"),
    ("--zap-", "nnf-node-manager"),
    ("--default", "flux"),
    ("--update", "flux"),
    ("--path", "systemd-escape"),
    ("--reference", "chown"),
    ("--locked", "cargo"),
    ("--release", "cargo"),
    ("--clusterrole", "kubectl"),
    ("--devices", "lvm"),
    ("--drop", "lvmlockctl"),
    ("--param", "mkfs.lustre"),
    ("--duration", "kubectl"),
    ("--confirm", "stonith_admin"),
    ("--group", "kubectl"),
    ("--overwrite", "kubectl"),
    ("--server-side", "kubectl"),
    ("--serviceaccount", "kubectl"),
    ("--service-account-max-token-expiration", "kube-apiserver"),
    ("--set", "helm"),
    ("--now", "systemctl"),
    ("--hard-dereference", "tar"),
    ("--no-recursion", "tar"),
    ("--refresh", "lvchange"),
    ("--repair", "pvck"),
    ("--bb", "sbatch"),
    ("--dependency", "sbatch"),
    ("--no-requeue", "sbatch"),
    ("--format", "squeue"),
    ("--Format", "squeue"),
    ("--jobs", "squeue"),
    ("--noheader", "squeue"),
    ("--states", "squeue"),
    ("--oneliner", "scontrol"),
];

type Flags = BTreeSet<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn flags_in(text: &str) -> Flags {
    let flag =
        Regex::new(r"(?m)(?:^|[^-\w])(--[a-zA-Z][a-zA-Z0-9-]*)").expect("a valid expression");
    flag.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Returns the flags of a program and of all its verbs.
fn flags_of(program: &str, help: &str) -> anyhow::Result<Flags> {
    let commands = commands_of(program, help)?;
    Ok(commands.iter().flat_map(|(_, text)| flags_in(text)).collect())
}

#[test]
fn help_fits_a_screen_of_80_by_50() -> anyhow::Result<()> {
    let mut long = Vec::new();
    for program in PROGRAMS {
        for (typed, text) in commands_of(program, "--help")? {
            // Counts a long usage line as several lines: clap does not wrap it, so the terminal does.
            let lines: usize = text.lines().map(|line| line.len().div_ceil(80).max(1)).sum();
            if lines > 50 {
                long.push(format!("{typed}: {lines} lines"));
            }
        }
    }
    ensure!(long.is_empty(), "too long: {long:#?}");
    Ok(())
}

/// Lists the files below a folder of the tree whose names have one of these endings.
fn files(place: &str, endings: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let place = root().join(place);
    if place.is_file() {
        return Ok(vec![place]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&place).with_context(|| place.display().to_string())? {
        let path = entry?.path();
        let below = path.strip_prefix(root())?.display().to_string();
        if path.is_dir() || endings.iter().any(|ending| below.ends_with(ending)) {
            found.extend(files(&below, endings)?);
        }
    }
    Ok(found)
}

/// Reads all documents, scripts, units and manifests, by path.
fn documents() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut found = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    found.extend(files("docs", &[".md"])?);
    found.extend(files("docs/man", &[".5", ".7", ".last"])?);
    found.extend(
        ["prolog", "epilog", "job.bash", "flux.conf"]
            .map(|file| root().join("packaging/flux").join(file)),
    );
    found.extend(
        ["prolog", "epilog", "job.bash", "give-back", "settings", "burst_buffer.lua"]
            .map(|file| root().join("packaging/slurm").join(file)),
    );
    found.push(root().join("packaging/perilog/agent.bash"));
    found.extend(files("systemd", &[".service", ".socket", ".timer"])?);
    found.extend(files("packaging/kubernetes", &[".yaml", ".tpl", ".md"])?);
    ensure!(found.len() > 20, "only {found:?}");
    // roff writes a hyphen as `\-`.
    let text = |path: &Path| fs::read_to_string(path).map(|text| text.replace("\\-", "-"));
    found.into_iter().map(|path| Ok((path.clone(), text(&path)?))).collect()
}

/// Returns the commands in a text: `ExecStart=` of units, indented lines with their continuation lines,
/// and text in backticks.
fn commands_in(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let typed = |line: &&str| line.starts_with("    ") || line.starts_with("ExecStart=");
    let spans = Regex::new(r"`([^`\n]+)`").expect("a valid expression");
    let spans = spans.captures_iter(&text).map(|found| found[1].to_owned());
    text.lines().filter(typed).map(str::to_owned).chain(spans).collect()
}

#[test]
fn every_flag_in_the_documents_is_in_the_help() -> anyhow::Result<()> {
    let mut ours = BTreeMap::new();
    for program in PROGRAMS {
        ours.insert(program, flags_of(program, "--help-all")?);
    }
    ours.insert("podhelper", flags_of("podhelper", "--help")?);
    for script in SCRIPTS {
        let output = command(root().join(script)).arg("--help").output()?;
        ensure!(output.status.success(), "{script} --help: {output:?}");
        ours.insert(script, flags_in(&String::from_utf8(output.stdout)?));
    }
    let all: Flags = ours.values().flatten().cloned().collect();
    // The expression matches the program that the command runs, not a program that is only an argument.
    let command_line = Regex::new(
        r"^(?:\s*|\s*sudo |ExecStart=\S*/)(clientmount-agent|rabbit-agent|coordinator|warren|podhelper) ([^;|&#]*)",
    )?;
    let (mut wrong, mut named) = (Vec::new(), Flags::new());
    for (path, text) in documents()? {
        let flags = flags_in(&text);
        let known =
            |flag: &&String| all.contains(*flag) || THEIRS.iter().any(|theirs| theirs.0 == *flag);
        wrong.extend(
            flags
                .iter()
                .filter(|flag| !known(flag))
                .map(|flag| format!("{}: {flag}", path.display())),
        );
        for typed in commands_in(&text) {
            let Some(found) = command_line.captures(&typed) else { continue };
            let (program, words) = (&found[1], &found[2]);
            let not_its = flags_in(words).into_iter().filter(|flag| !ours[program].contains(flag));
            wrong.extend(not_its.map(|flag| format!("{}: {program} {flag}", path.display())));
        }
        named.extend(flags);
    }
    ensure!(wrong.is_empty(), "no help has these:\n  {}", wrong.join("\n  "));
    let unnamed: Vec<_> = THEIRS.iter().filter(|(flag, _)| !named.contains(*flag)).collect();
    ensure!(
        unnamed.is_empty(),
        "no document names these flags of other programs; remove them from THEIRS: {unnamed:?}"
    );
    ensure!(named.iter().filter(|flag| all.contains(*flag)).count() > 40, "{named:?}");
    Ok(())
}

/// Returns the anchors that GitHub generates for a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let kept = |char: &char| char.is_alphanumeric() || matches!(char, '-' | '_' | ' ');
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let text = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    text.map(|heading| heading.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() -> anyhow::Result<()> {
    let link = Regex::new(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")?;
    let (mut followed, mut wrong) = (0, Vec::new());
    for (path, text) in documents()? {
        for found in link.captures_iter(&text).filter(|found| !found[1].starts_with("https://")) {
            let target =
                if found[1].is_empty() { path.clone() } else { path.with_file_name(&found[1]) };
            let heading = found.get(2).map(|heading| heading.as_str());
            let leads = target.exists()
                && heading.is_none_or(|heading| {
                    fs::read_to_string(&target).is_ok_and(|page| anchors(&page).contains(heading))
                });
            if !leads {
                wrong.push(format!("{}: {}", path.display(), &found[0]));
            }
            followed += 1;
        }
    }
    ensure!(wrong.is_empty(), "these links lead nowhere:\n  {}", wrong.join("\n  "));
    ensure!(followed > 40, "only {followed} links");
    Ok(())
}
