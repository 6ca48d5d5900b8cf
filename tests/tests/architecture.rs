//! Tests of ARCHITECTURE.md: its table of crates is generated from `cargo metadata`, and the code obeys the page's
//! rules that tests can check.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use regex::Regex;
use serde::Deserialize;

const BEGIN: &str = "<!-- crates: begin -->";
const END: &str = "<!-- crates: end -->";
const REGENERATE: &str = "UPDATE_ARCHITECTURE=1 cargo test -p tests --test architecture";

/// Folders with production code.
const PRODUCTION: [&str; 8] = [
    "crates",
    "proto",
    "clientmount-agent",
    "rabbit-agent",
    "coordinator",
    "datamover",
    "podhelper",
    "warren",
];

/// Fields of `cargo metadata --no-deps` that these tests read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    description: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

impl Package {
    fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().filter(|d| d.kind.is_none()).map(|d| d.name.as_str())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the workspace")
}

#[expect(clippy::disallowed_methods, reason = "cargo itself knows the crates")]
fn metadata() -> anyhow::Result<Metadata> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the table of crates, in Markdown, in the order of their folders.
fn crate_table(metadata: &Metadata) -> anyhow::Result<String> {
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let mut rows = BTreeMap::new();
    for package in &metadata.packages {
        let folder = package.manifest_path.parent().context("a folder")?.strip_prefix(root())?;
        let description = package
            .description
            .as_deref()
            .with_context(|| format!("{} has no description in its Cargo.toml", package.name))?;
        let uses: BTreeSet<&str> = package.dependencies().filter(|d| ours.contains(d)).collect();
        let uses = uses.into_iter().collect::<Vec<_>>().join(", ");
        let row = format!("| `{}` | {description} | {uses} |\n", folder.display());
        rows.insert(folder.to_owned(), row.replace("  |", " |"));
    }
    let rows: String = rows.into_values().collect();
    Ok(format!("\n| crate | does | uses |\n|---|---|---|\n{rows}"))
}

#[test]
fn the_table_of_crates_matches_cargo_metadata() -> anyhow::Result<()> {
    let path = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path)?;
    let (before, rest) = text.split_once(BEGIN).context("the mark before the table")?;
    let (table, after) = rest.split_once(END).context("the mark after the table")?;
    let generated = crate_table(&metadata()?)?;
    if env::var_os("UPDATE_ARCHITECTURE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}\n{generated}\n{END}{after}"))?;
        return Ok(());
    }
    ensure!(table.trim() == generated.trim(), "ARCHITECTURE.md is stale: run {REGENERATE}");
    Ok(())
}

#[test]
fn storage_does_no_io_and_knows_no_kubernetes() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|p| (p.name.as_str(), p)).collect();
    let (mut waiting, mut dependencies) = (vec!["storage"], BTreeSet::new());
    while let Some(name) = waiting.pop() {
        if dependencies.insert(name) {
            waiting.extend(packages.get(name).into_iter().flat_map(|p| p.dependencies()));
        }
    }
    let forbidden = [
        "api",
        "block-devices",
        "drives",
        "files",
        "k8s-openapi",
        "kube",
        "libc",
        "linux-raw-sys",
        "nix",
        "process",
        "procfs",
        "proto",
        "rustix",
        "sys-mount",
        "tokio",
        "tonic",
    ];
    let found: Vec<_> = forbidden.iter().filter(|name| dependencies.contains(**name)).collect();
    ensure!(found.is_empty(), "storage depends on {found:?}");
    ensure!(
        dependencies.contains("causes"),
        "these are not the dependencies of storage: {dependencies:?}"
    );
    Ok(())
}

/// Returns the production code, by path, without comments, tests and stand-ins.
fn production_code() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    // A test module inside a source file stands at the file's end.
    let tests = Regex::new(r"#\[cfg\(test\)\]\n(#\[[^\n]*\n)*mod \w+ \{")?;
    let mut sources = BTreeMap::new();
    for folder in PRODUCTION {
        read_production(&root().join(folder), &tests, &mut sources)?;
    }
    ensure!(sources.len() > 300, "only {} files", sources.len());
    Ok(sources)
}

fn read_production(
    folder: &Path,
    tests: &Regex,
    sources: &mut BTreeMap<PathBuf, String>,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["tests", "fake", "fixtures", "target"].contains(&name) {
                read_production(&path, tests, sources)?;
            }
        } else if name.ends_with(".rs") && !["tests.rs", "testing.rs", "build.rs"].contains(&name) {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let code = tests.split(&text).next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            sources.insert(path.strip_prefix(root())?.to_owned(), code);
        }
    }
    Ok(())
}

/// Fails unless exactly the allowed files match the pattern.
fn ensure_only(pattern: &str, allowed: &[&str]) -> anyhow::Result<()> {
    let pattern = Regex::new(pattern)?;
    let sources = production_code()?;
    let matching = sources.iter().filter(|(_, code)| pattern.is_match(code));
    let found: BTreeSet<_> = matching.map(|(path, _)| path.display().to_string()).collect();
    let allowed: BTreeSet<_> = allowed.iter().map(|&path| path.to_owned()).collect();
    ensure!(found == allowed, "{pattern} is in {found:#?}, and may be in {allowed:#?}");
    Ok(())
}

#[test]
fn plans_and_reports_do_no_io_and_read_no_clock() -> anyhow::Result<()> {
    let decides = Regex::new(r"/src/(.*/)?(plan|report)(\.rs$|/)")?;
    let effect = Regex::new(
        r"\.await\b|\bstd::(env|fs|net|process|thread)\b|\btokio::|(Instant|SystemTime|Timestamp)::now|\bunsafe\b",
    )?;
    let sources = production_code()?;
    // Leaves out the verb `warren plan`: it only reads an agent's plan from that agent.
    let verb = Path::new("warren/src/verbs/plan.rs");
    let pure: Vec<_> = sources
        .iter()
        .filter(|(path, _)| path.as_path() != verb && decides.is_match(&path.to_string_lossy()))
        .collect();
    let wrong = pure.iter().filter(|(_, code)| effect.is_match(code));
    let wrong: Vec<_> = wrong.map(|(path, _)| path).collect();
    ensure!(wrong.is_empty(), "these are not pure: {wrong:?}");
    ensure!(pure.len() > 50, "only {} files", pure.len());
    Ok(())
}

#[test]
fn storage_uses_no_module_of_std_that_does_io() -> anyhow::Result<()> {
    let effect = Regex::new(r"\bstd::(env|fs|net|os|process)\b|\b(fs|process)::\w+\(|\bunsafe\b")?;
    let sources = production_code()?;
    let storage: Vec<_> =
        sources.iter().filter(|(path, _)| path.starts_with("crates/storage/src")).collect();
    let wrong = storage.iter().filter(|(_, code)| effect.is_match(code));
    let wrong: Vec<_> = wrong.map(|(path, _)| path).collect();
    ensure!(wrong.is_empty(), "these do I/O: {wrong:?}");
    ensure!(storage.len() > 50, "only {} files", storage.len());
    Ok(())
}

#[test]
fn only_the_named_files_start_programs() -> anyhow::Result<()> {
    ensure_only(
        r"\bprocess::(\{[^}]*\bCommand\b|Command\b)|\bfork\(",
        &[
            "clientmount-agent/src/subcommand/systemctl.rs",
            "crates/process/src/child.rs",
            "crates/process/src/cmd.rs",
            // Starts the program datamover, which runs for hours and exchanges messages with the agent; programs that
            // cmd.rs starts end within a deadline.
            "crates/process/src/worker.rs",
            "podhelper/src/init.rs",
            "podhelper/src/worker/rank.rs",
            "warren/src/workflow/launch.rs",
        ],
    )
}

#[test]
fn only_one_file_mounts_and_unmounts() -> anyhow::Result<()> {
    ensure_only(
        r"\bsys_mount::(\{[^}]*\bMount\b|unmount)|\bnix::mount\b|\brustix::mount\b|\blibc::u?mount",
        &["crates/storage-linux/src/mount.rs"],
    )
}

#[test]
fn no_production_code_calls_remove_dir_all() -> anyhow::Result<()> {
    ensure_only(r"\bremove_dir_all\b", &[])
}
