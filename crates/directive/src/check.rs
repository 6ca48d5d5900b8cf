//! Whether the directives of a workflow fit each other, and what the site has.

mod container;
mod copy;
mod fault;
mod submitted;

use std::collections::BTreeMap;

use crate::breakdown::{self, BreakdownFault};
use crate::command::{Command, FileSystem};
use crate::directive::Directive;
use crate::problem::{Fault, Gathered, Problems};
use crate::profile::{ContainerProfile, StorageProfile};
pub use fault::MeaningFault;
pub use submitted::{submitted, unserved};

/// What the site has, as far as the directives may name it. All lists are complete: what is not in them does not exist.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The workflow's user.
    pub user: u32,
    /// The workflow's group.
    pub group: u32,
    /// NnfStorageProfiles by name, without pinned copies.
    pub storage_profiles: BTreeMap<String, StorageProfile>,
    /// Names of those with `data.default`.
    pub default_storage_profiles: Vec<String>,
    /// Names of NnfDataMovementProfiles, without pinned copies.
    pub movement_profiles: Vec<String>,
    /// Names of those with `data.default`.
    pub default_movement_profiles: Vec<String>,
    /// NnfContainerProfiles by name.
    pub container_profiles: BTreeMap<String, ContainerProfile>,
    /// PersistentStorageInstances of the workflow's namespace by name.
    pub persistent: BTreeMap<String, Persistent>,
    /// `spec.mountRoot` of each LustreFileSystem; `None` when nobody knows.
    pub lustre_roots: Option<Vec<String>>,
    /// Whether the certificate that user containers authenticate with is there.
    pub has_container_certificate: bool,
}

/// Persistent storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistent {
    /// Its kind.
    pub file_system: FileSystem,
    /// Its owner.
    pub user: u32,
    /// Whether it is about to go.
    pub is_deleted: bool,
    /// Whether every user may use it.
    pub is_public: bool,
}

/// Checks the directives of a workflow that obey the rules, and says what they mean.
///
/// # Errors
/// All problems of all directives.
pub fn workflow(
    lines: &[String],
    directives: &[Directive],
    known: &Known,
) -> Result<Vec<Command>, Problems> {
    let mut problems = Gathered::of(lines);
    let commands = among_themselves(directives, &mut problems);
    for (index, command) in &commands {
        for fault in faults(command, &commands, known) {
            problems.add(*index, fault);
        }
    }
    problems.or(commands.into_iter().map(|(_, command)| command).collect())
}

/// Reads the directives, and reports what is wrong with each and with all together, whatever the site has.
fn among_themselves(
    directives: &[Directive],
    problems: &mut Gathered<'_>,
) -> Vec<(usize, Command)> {
    let commands = understood(directives, problems);
    alone(&commands, problems);
    variables(&commands, problems);
    commands
}

/// Reports a directive that cannot be understood, and leaves it out.
fn understood(directives: &[Directive], problems: &mut Gathered<'_>) -> Vec<(usize, Command)> {
    let mut commands = Vec::new();
    for (index, directive) in directives.iter().enumerate() {
        match Command::try_from(directive) {
            Ok(command) => commands.push((index, command)),
            Err(fault) => problems.add(index, fault),
        }
    }
    commands
}

/// A create or destroy has no company, and containers are one directive.
fn alone(commands: &[(usize, Command)], problems: &mut Gathered<'_>) {
    for (index, command) in commands {
        let is_lonely =
            matches!(command, Command::CreatePersistent(_) | Command::DestroyPersistent(_));
        if is_lonely && commands.len() > 1 {
            problems.add(
                *index,
                MeaningFault::NotAlone { command: command.word(), others: commands.len() - 1 },
            );
        }
    }
    let mut containers =
        commands.iter().filter(|(_, command)| matches!(command, Command::Container(_)));
    if let Some((other, _)) = containers.next() {
        for (index, _) in containers {
            problems.add(*index, MeaningFault::SecondContainer { other: *other });
        }
    }
}

/// Two storages of one workflow never share a variable, whose name has `_` where theirs have `-`.
fn variables(commands: &[(usize, Command)], problems: &mut Gathered<'_>) {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for (index, command) in commands {
        let prefix =
            if matches!(command, Command::Jobdw(_)) { "DW_JOB_" } else { "DW_PERSISTENT_" };
        let Some(name) = command.mounted_name() else { continue };
        let variable = format!("{prefix}{}", name.replace('-', "_"));
        if let Some(other) = taken.get(&variable) {
            let fault =
                MeaningFault::SameVariable { name: name.to_owned(), other: *other, variable };
            problems.add(*index, fault);
        } else {
            taken.insert(variable, *index);
        }
    }
}

fn faults(command: &Command, commands: &[(usize, Command)], known: &Known) -> Vec<Fault> {
    let mut faults: Vec<Fault> = match command {
        Command::Jobdw(jobdw) => {
            let sets = |profile: &_| breakdown::of_jobdw(jobdw, profile).map(drop);
            storage(jobdw.profile.as_deref(), known, sets).into_iter().collect()
        }
        Command::CreatePersistent(create) => {
            let sets = |profile: &_| breakdown::of_persistent(create, profile).map(drop);
            let name = object_name(&create.name).map(Fault::from).into_iter();
            name.chain(storage(create.profile.as_deref(), known, sets)).collect()
        }
        Command::Persistentdw(used) => {
            persistent(&used.name, known).map(Fault::from).into_iter().collect()
        }
        Command::DestroyPersistent(_) => Vec::new(),
        Command::CopyIn(copy) | Command::CopyOut(copy) => {
            copy::faults(copy, commands, known).into_iter().map(Fault::from).collect()
        }
        Command::Container(container) => {
            container::faults(container, commands, known).into_iter().map(Fault::from).collect()
        }
    };
    if !command.requires().is_empty() && !known.has_container_certificate {
        faults.push(MeaningFault::NoCertificate { words: command.requires().join(",") }.into());
    }
    faults
}

/// Most characters of a persistent storage's name: labels of 63 characters hold the name of its Servers, which may be the storage's
/// name and a suffix of 11.
const LONGEST_NAME: usize = 52;

/// Whether Kubernetes takes the name of persistent storage as that of an object.
fn object_name(name: &str) -> Option<MeaningFault> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = name.len() <= LONGEST_NAME
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    let length = name.chars().count();
    (!fits).then(|| MeaningFault::ObjectName { name: name.to_owned(), length, most: LONGEST_NAME })
}

/// Whether the profile that a directive means exists and gives it storage.
fn storage(
    name: Option<&str>,
    known: &Known,
    sets: impl Fn(&StorageProfile) -> Result<(), BreakdownFault>,
) -> Option<Fault> {
    let kind = "NnfStorageProfile";
    let names: Vec<&String> = known.storage_profiles.keys().collect();
    let name = match chosen(name, &known.default_storage_profiles, &names, kind) {
        Ok(name) => name,
        Err(fault) => return Some(fault.into()),
    };
    let profile = known.storage_profiles.get(name)?;
    sets(profile).err().map(Fault::from)
}

/// The profile that a directive names, else the site's one default.
fn chosen<'a>(
    name: Option<&'a str>,
    defaults: &'a [String],
    all: &[&String],
    kind: &'static str,
) -> Result<&'a str, MeaningFault> {
    let Some(name) = name else {
        return match defaults {
            [one] => Ok(one),
            [] => Err(MeaningFault::NoDefault { kind, found: "none".to_owned() }),
            several => Err(MeaningFault::NoDefault { kind, found: several.join(" and ") }),
        };
    };
    if all.iter().any(|known| *known == name) {
        return Ok(name);
    }
    Err(MeaningFault::NoProfile {
        name: name.to_owned(),
        kind,
        known: choice("write", all.iter().copied()),
    })
}

/// `write a, b or c`, or that there is nothing to choose from.
fn choice<'a>(verb: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<&str> = known.map(String::as_str).collect();
    match known.as_slice() {
        [] => "the site has none".to_owned(),
        known => format!("{verb} {}", known.join(" or ")),
    }
}

fn persistent(name: &str, known: &Known) -> Option<MeaningFault> {
    let name = name.to_owned();
    let Some(found) = known.persistent.get(&name) else {
        return Some(MeaningFault::NoPersistent { name });
    };
    if found.is_deleted {
        return Some(MeaningFault::PersistentDeleted { name });
    }
    let is_allowed = found.is_public || found.user == known.user;
    (!is_allowed).then_some(MeaningFault::PersistentOfOther {
        name,
        owner: found.user,
        user: known.user,
    })
}

/// The kind of the storage that a directive of this workflow names.
fn file_system_of(
    name: &str,
    is_job: bool,
    commands: &[(usize, Command)],
    known: &Known,
) -> Option<FileSystem> {
    let named = |(_, command): &(usize, Command)| match command {
        Command::Jobdw(jobdw) if is_job && jobdw.name == name => Some(jobdw.file_system),
        // One that does not exist is reported where it is named; it has no kind that could be wrong.
        Command::Persistentdw(used) if !is_job && used.name == name => {
            Some(known.persistent.get(name).map_or(FileSystem::Lustre, |found| found.file_system))
        }
        _ => None,
    };
    commands.iter().find_map(named)
}

#[cfg(test)]
mod tests;
