//! Limits of a site: who may create persistent storage, and how much storage a job, a user and a project may have. Pure.
//!
//! A project is the group (gid) of a Workflow. Root (uid 0) has no limits. Used bytes are those that objects ask for: the
//! Servers, or before they are filled the DirectiveBreakdowns.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use directive::Presets;
use thiserror::Error;

pub use file::{LimitsFault, Name, parse};

/// The content of a site's limits file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Path of the file, for refusals.
    pub file: String,
    /// Who may create persistent storage; `None` for every user.
    pub creators: Option<Creators>,
    /// Most bytes of one job.
    pub job: Option<u64>,
    /// Most storage of each user.
    pub user: Most,
    /// Most storage of each project.
    pub project: Most,
    /// Most storage by uid, in the place of `user`.
    pub users: BTreeMap<i64, Named>,
    /// Most storage by gid, in the place of `project`.
    pub projects: BTreeMap<i64, Named>,
    pub presets: Arc<Presets>,
}

/// The users who may create persistent storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Creators {
    pub users: BTreeSet<i64>,
    pub groups: BTreeSet<i64>,
}

/// Most storage of one user or project; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    pub bytes: Option<u64>,
    pub persistent: Option<u64>,
}

/// The limits of a user or project that the file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The key in the file: a name or a number.
    pub key: String,
    pub most: Most,
}

/// Storage, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub bytes: u64,
    /// Number of persistent storages.
    pub persistent: u64,
}

/// Storage of the other Workflows, and persistent storage, of a user and of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub user: Amount,
    pub project: Amount,
}

/// The storage that one Workflow asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub user: i64,
    pub group: i64,
    pub amount: Amount,
}

/// A limit that a request exceeds: its field, its value, the request, and the file that sets it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Exceeded {
    #[error(
        "user {user} with group {group} may not create persistent storage, because createPersistent in {file} names neither; use jobdw, or ask the administrator to add one there"
    )]
    Creator { user: i64, group: i64, file: String },
    #[error(
        "the job asks for at least {asked} bytes, and {field} in {file} is {most}; ask for fewer, or ask the administrator to raise that limit"
    )]
    Job { asked: u64, field: &'static str, most: u64, file: String },
    #[error(
        "the job asks for at least {asked} bytes, {who} has {used} bytes in other storage, and {field} in {file} is {most}; end a job or destroy persistent storage, or ask the administrator to raise that limit"
    )]
    Bytes { asked: u64, who: String, used: u64, field: String, most: u64, file: String },
    #[error(
        "{who} has {used} persistent storages, and {field} in {file} is {most}; destroy one first, or ask the administrator to raise that limit"
    )]
    Count { who: String, used: u64, field: String, most: u64, file: String },
}

impl Limits {
    /// Returns true if the file limits what users and projects may have, so that the storage of others matters.
    #[must_use]
    pub fn counts_others(&self) -> bool {
        let named = self.users.values().chain(self.projects.values()).map(|named| named.most);
        let all = [self.user, self.project].into_iter().chain(named);
        all.into_iter().any(|most| most != Most::default())
    }

    /// Checks a request against all limits.
    ///
    /// # Errors
    /// The first limit that the request exceeds.
    pub fn check(&self, asked: &Asked, used: &Used) -> Result<(), Exceeded> {
        let Asked { user, group, amount } = *asked;
        if user == 0 || amount == Amount::default() {
            return Ok(());
        }
        let may_create = |creators: &Creators| {
            creators.users.contains(&user) || creators.groups.contains(&group)
        };
        if amount.persistent > 0 && !self.creators.as_ref().is_none_or(may_create) {
            return Err(Exceeded::Creator { user, group, file: self.file.clone() });
        }
        if let Some(most) = self.job.filter(|most| amount.bytes > *most) {
            let (field, file) = ("job.bytes", self.file.clone());
            return Err(Exceeded::Job { asked: amount.bytes, field, most, file });
        }
        let limits = limits_of(self.users.get(&user), ("user", "users"), self.user);
        self.check_sum(format!("user {user}"), limits, amount, used.user)?;
        let named = self.projects.get(&group);
        let limits = limits_of(named, ("project", "projects"), self.project);
        self.check_sum(format!("group {group}"), limits, amount, used.project)
    }

    fn check_sum(
        &self,
        who: String,
        (bytes, persistent): (Limit, Limit),
        asked: Amount,
        used: Amount,
    ) -> Result<(), Exceeded> {
        let file = self.file.clone();
        if let Some(most) = bytes.exceeded(asked.bytes, used.bytes) {
            let (asked, used, field) = (asked.bytes, used.bytes, bytes.field);
            return Err(Exceeded::Bytes { asked, who, used, field, most, file });
        }
        match persistent.exceeded(asked.persistent, used.persistent) {
            None => Ok(()),
            Some(most) => {
                let (used, field) = (used.persistent, persistent.field);
                Err(Exceeded::Count { who, used, field, most, file })
            }
        }
    }
}

/// One limit, and the field that sets it.
struct Limit {
    field: String,
    most: Option<u64>,
}

impl Limit {
    /// Returns the limit if a request exceeds it. A request for nothing exceeds no limit.
    fn exceeded(&self, asked: u64, used: u64) -> Option<u64> {
        self.most.filter(|most| asked > 0 && used.saturating_add(asked) > *most)
    }
}

/// Returns the limits of one user or project on bytes and on persistent storages: those of its own entry, else those of
/// all.
fn limits_of(named: Option<&Named>, (each, all): (&str, &str), most: Most) -> (Limit, Limit) {
    let limit = |name: &str, value: fn(&Most) -> Option<u64>| {
        let own = named.and_then(|named| Some((&named.key, value(&named.most)?)));
        match own {
            Some((key, own)) => Limit { field: format!("{all}.{key}.{name}"), most: Some(own) },
            None => Limit { field: format!("{each}.{name}"), most: value(&most) },
        }
    };
    (limit("bytes", |most| most.bytes), limit("persistentStorages", |most| most.persistent))
}

#[cfg(test)]
mod tests;
