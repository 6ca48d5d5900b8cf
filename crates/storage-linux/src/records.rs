//! Records which hooks ran, because an observation of the node cannot show that.
//!
//! ```text
//! <state>/hooks/<scope>/<hook point>.<index>     empty files
//! ```
//! A scope is open while its directory exists: the scope's tear-down hooks must still run.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use storage::desired::{HookId, HookScope};

use files::none_if_absent;

/// The directory of records.
#[derive(Debug)]
pub(super) struct Records(PathBuf);

impl Records {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let hooks = state.join("hooks");
        fs::create_dir_all(&hooks)?;
        Ok(Self(hooks))
    }

    pub(super) fn is_open(&self, scope: &HookScope) -> io::Result<bool> {
        self.scope(scope).try_exists()
    }

    pub(super) fn has(&self, id: &HookId) -> io::Result<bool> {
        self.record(id).try_exists()
    }

    pub(super) fn open_scope(&self, scope: &HookScope) -> io::Result<()> {
        fs::create_dir_all(self.scope(scope))?;
        files::sync_directory(&self.0)
    }

    pub(super) fn put(&self, id: &HookId) -> io::Result<()> {
        self.open_scope(&id.scope)?;
        File::create(self.record(id))?.sync_all()?;
        files::sync_directory(&self.scope(&id.scope))
    }

    /// Removes all records of the scope at once, by one rename. If the records were removed one by one, then after a
    /// crash in between some hooks would run again and others would not.
    pub(super) fn forget(&self, scope: &HookScope) -> io::Result<()> {
        let renamed = self.0.join(format!(".{}", scope.as_str()));
        none_if_absent(files::remove_tree(&renamed))?;
        none_if_absent(fs::rename(self.scope(scope), &renamed))?;
        files::sync_directory(&self.0)?;
        none_if_absent(files::remove_tree(&renamed)).map(drop)
    }

    fn scope(&self, scope: &HookScope) -> PathBuf {
        self.0.join(scope.as_str())
    }

    fn record(&self, id: &HookId) -> PathBuf {
        self.scope(&id.scope).join(format!("{}.{}", id.phase.as_str(), id.index))
    }
}
