//! Parses a limits file (YAML). Pure: the caller looks names up.

use std::collections::BTreeMap;
use std::sync::Arc;

use directive::{PresetError, Presets, capacity};
use serde::Deserialize;
use thiserror::Error;

use super::{Creators, Limits, Most, Named};

/// A name that the file has in the place of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    User(&'a str),
    Group(&'a str),
}

/// Fault of a limits file.
#[derive(Debug, Error)]
pub enum LimitsFault {
    #[error("{0}")]
    Yaml(String),
    #[error("{field} is {value:?}: {source}")]
    Size { field: String, value: String, source: capacity::CapacityError },
    #[error(
        "{field} names {value:?}, and this host has no such {kind}: correct the name, or write the number"
    )]
    Unknown { field: &'static str, value: String, kind: &'static str },
    #[error("{field} names {value:?} and {other:?}, which are the same: remove one")]
    Twice { field: &'static str, value: String, other: String },
    #[error("presets.{name} is {value:?}: {source}")]
    Preset { name: String, value: String, source: PresetError },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct File {
    create_persistent: Option<CreatorNames>,
    job: JobEntry,
    user: Entry,
    project: Entry,
    users: BTreeMap<String, Entry>,
    projects: BTreeMap<String, Entry>,
    presets: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CreatorNames {
    users: Vec<String>,
    groups: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JobEntry {
    bytes: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Entry {
    bytes: Option<String>,
    persistent_storages: Option<u64>,
}

/// Parses the text of a limits file. `find` returns the number of a user or group.
///
/// # Errors
/// The first fault: its field, value and remedy.
pub fn parse(
    text: &str,
    file: &str,
    find: &dyn Fn(Name<'_>) -> Option<u32>,
) -> Result<Limits, LimitsFault> {
    // An empty file has no limits, and is no YAML mapping.
    let is_empty = text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'));
    let read: File = match is_empty {
        true => File::default(),
        false => {
            serde_saphyr::from_str(text).map_err(|error| LimitsFault::Yaml(error.to_string()))?
        }
    };
    let user = |field| move |name: &String| number(field, Name::User(name), find);
    let group = |field| move |name: &String| number(field, Name::Group(name), find);
    let creators = |names: CreatorNames| {
        let users =
            names.users.iter().map(user("createPersistent.users")).collect::<Result<_, _>>()?;
        let groups = names.groups.iter().map(group("createPersistent.groups"));
        Ok(Creators { users, groups: groups.collect::<Result<_, _>>()? })
    };
    let mut presets = Presets::default();
    for (name, value) in read.presets {
        let fault =
            |source| LimitsFault::Preset { name: name.clone(), value: value.clone(), source };
        presets.add(&name, &value).map_err(fault)?;
    }
    Ok(Limits {
        file: file.to_owned(),
        creators: read.create_persistent.map(creators).transpose()?,
        job: size("job", read.job.bytes)?,
        user: most("user", read.user)?,
        project: most("project", read.project)?,
        users: named("users", read.users, &user("users"))?,
        projects: named("projects", read.projects, &group("projects"))?,
        presets: Arc::new(presets),
    })
}

fn number(
    field: &'static str,
    name: Name<'_>,
    find: &dyn Fn(Name<'_>) -> Option<u32>,
) -> Result<i64, LimitsFault> {
    let (value, kind) = match name {
        Name::User(value) => (value, "user"),
        Name::Group(value) => (value, "group"),
    };
    let number = value.parse().ok().or_else(|| find(name)).map(i64::from);
    number.ok_or_else(|| LimitsFault::Unknown { field, value: value.to_owned(), kind })
}

fn named(
    field: &'static str,
    entries: BTreeMap<String, Entry>,
    number: &dyn Fn(&String) -> Result<i64, LimitsFault>,
) -> Result<BTreeMap<i64, Named>, LimitsFault> {
    let mut all: BTreeMap<i64, Named> = BTreeMap::new();
    for (key, entry) in entries {
        let most = most(&format!("{field}.{key}"), entry)?;
        let value = key.clone();
        if let Some(other) = all.insert(number(&key)?, Named { key, most }) {
            return Err(LimitsFault::Twice { field, value, other: other.key });
        }
    }
    Ok(all)
}

fn most(field: &str, entry: Entry) -> Result<Most, LimitsFault> {
    Ok(Most { bytes: size(field, entry.bytes)?, persistent: entry.persistent_storages })
}

fn size(field: &str, text: Option<String>) -> Result<Option<u64>, LimitsFault> {
    let Some(value) = text else { return Ok(None) };
    let bytes = capacity::bytes(&value);
    let fault = |source| LimitsFault::Size { field: format!("{field}.bytes"), value, source };
    bytes.map(Some).map_err(fault)
}
