//! Names of all tests of the workspace. Tests use them to check tables in documents and code that name tests.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context;
use regex::Regex;

/// Names of the functions of all our sources.
#[derive(Debug, Default)]
pub struct Sources {
    functions: BTreeSet<String>,
}

impl Sources {
    /// Reads every source file of the workspace.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
        let function = Regex::new(r"\bfn ([a-z0-9_]+)").context("an expression")?;
        let mut sources = Self::default();
        sources.take(root, &function)?;
        Ok(sources)
    }

    /// Returns whether a function of this name exists.
    #[must_use]
    pub fn has_test(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    fn take(&mut self, directory: &Path, function: &Regex) -> anyhow::Result<()> {
        let listed = fs::read_dir(directory);
        for entry in listed.with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                self.take(&path, function)?;
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                self.functions
                    .extend(function.captures_iter(&text).map(|found| found[1].to_owned()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tests_named_in_defects_md_exist() -> anyhow::Result<()> {
        let sources = Sources::read()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
        let text = fs::read_to_string(root.join("docs/develop/defects.md"))?;
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let columns = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
        let named = Regex::new("`([a-z0-9]+(?:_[a-z0-9]+){3,})`")?;
        let columns: String = columns.collect();
        let names: Vec<String> =
            named.captures_iter(&columns).map(|found| found[1].to_owned()).collect();
        let missing: Vec<_> = names.iter().filter(|name| !sources.has_test(name)).collect();
        assert!(
            missing.is_empty(),
            "docs/develop/defects.md names tests that do not exist: {missing:?}"
        );
        assert!(names.len() > 60, "only {} tests are named", names.len());
        Ok(())
    }
}
