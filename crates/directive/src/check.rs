//! Checks whether a workflow's directives contradict each other, and whether the site has the objects that they name.

mod container;
mod copy;
mod fault;
mod submitted;

use std::collections::BTreeMap;

use crate::breakdown::{self, BreakdownFault};
use crate::command::{Command, FileSystem};
use crate::directive::Directive;
use crate::problem::{Fault, ProblemList, Problems};
use crate::profile::{ContainerProfile, StorageProfile};
pub use fault::MeaningFault;
pub use submitted::{submitted, unsupported};

/// The objects of the site that directives may name. All lists are complete: an object that is not
/// listed does not exist.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// User id (UID) of the workflow.
    pub user: u32,
    /// Group id (GID) of the workflow.
    pub group: u32,
    /// NnfStorageProfiles by name, without pinned copies.
    pub storage_profiles: BTreeMap<String, StorageProfile>,
    /// Names of the NnfStorageProfiles with `data.default`.
    pub default_storage_profiles: Vec<String>,
    /// Names of the NnfDataMovementProfiles, without pinned copies.
    pub movement_profiles: Vec<String>,
    /// Names of the NnfDataMovementProfiles with `data.default`.
    pub default_movement_profiles: Vec<String>,
    /// NnfContainerProfiles by name, pinned copies included.
    pub container_profiles: BTreeMap<String, ContainerProfile>,
    /// PersistentStorageInstances of the workflow's namespace, by name.
    pub persistent: BTreeMap<String, Persistent>,
    /// `spec.mountRoot` of each LustreFileSystem; `None` while the LustreFileSystems are unknown.
    pub lustre_roots: Option<Vec<String>>,
    /// Other directories of the site from and to which jobs may copy.
    pub copy_roots: Vec<String>,
    /// True if the site has the certificate by which user containers authenticate.
    pub has_container_certificate: bool,
}

/// Properties of a PersistentStorageInstance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistent {
    /// Type of the file system.
    pub file_system: FileSystem,
    /// User id (UID) of the owner.
    pub user: u32,
    /// True if the storage is being destroyed.
    pub is_deleted: bool,
    /// True if every user may use the storage.
    pub is_public: bool,
}

/// Checks directives that have passed the site's rules, and returns them as commands.
///
/// # Errors
/// All problems of all directives.
pub fn workflow(
    lines: &[String],
    directives: &[Directive],
    known: &Known,
) -> Result<Vec<Command>, Problems> {
    let mut problems = ProblemList::new(lines);
    let commands = read_and_compare(directives, &mut problems);
    for (index, command) in &commands {
        for fault in faults(command, &commands, known) {
            problems.add(*index, fault);
        }
    }
    problems.into_result(commands.into_iter().map(|(_, command)| command).collect())
}

/// Reads the directives, and reports the faults that do not depend on the site: faults of one directive,
/// and contradictions between directives.
fn read_and_compare(
    directives: &[Directive],
    problems: &mut ProblemList<'_>,
) -> Vec<(usize, Command)> {
    let commands = read_commands(directives, problems);
    check_single_commands(&commands, problems);
    check_variables(&commands, problems);
    commands
}

/// Reads the directives as commands. A directive that cannot be read is reported and left out.
fn read_commands(
    directives: &[Directive],
    problems: &mut ProblemList<'_>,
) -> Vec<(usize, Command)> {
    let mut commands = Vec::new();
    for (index, directive) in directives.iter().enumerate() {
        match Command::try_from(directive) {
            Ok(command) => commands.push((index, command)),
            Err(fault) => problems.add(index, fault),
        }
    }
    commands
}

/// Reports a `create_persistent` or `destroy_persistent` that is not the only directive, and a second `container`.
fn check_single_commands(commands: &[(usize, Command)], problems: &mut ProblemList<'_>) {
    for (index, command) in commands {
        let must_be_only =
            matches!(command, Command::CreatePersistent(_) | Command::DestroyPersistent(_));
        if must_be_only && commands.len() > 1 {
            problems.add(
                *index,
                MeaningFault::NotOnlyDirective {
                    command: command.word(),
                    others: commands.len() - 1,
                },
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

/// Reports two storages of a workflow whose paths would be in the same variable. The variable's name is the storage's
/// name with `_` for each `-`.
fn check_variables(commands: &[(usize, Command)], problems: &mut ProblemList<'_>) {
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
            let name = object_name_fault(&create.name).map(Fault::from).into_iter();
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

/// Longest name of persistent storage, in characters. The storage's Servers has this name, or this name and a suffix of
/// 11 characters, and labels of at most 63 characters hold the name of the Servers.
const LONGEST_NAME: usize = 52;

/// Returns a fault if Kubernetes does not accept the name of persistent storage as an object's name.
fn object_name_fault(name: &str) -> Option<MeaningFault> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = name.len() <= LONGEST_NAME
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    let length = name.chars().count();
    (!fits).then(|| MeaningFault::ObjectName { name: name.to_owned(), length, most: LONGEST_NAME })
}

/// Returns a fault unless the directive's profile exists and can make the storage that the directive asks for.
fn storage(
    name: Option<&str>,
    known: &Known,
    sets: impl Fn(&StorageProfile) -> Result<(), BreakdownFault>,
) -> Option<Fault> {
    let kind = "NnfStorageProfile";
    let names: Vec<&String> = known.storage_profiles.keys().collect();
    let name = match find_profile(name, &known.default_storage_profiles, &names, kind) {
        Ok(name) => name,
        Err(fault) => return Some(fault.into()),
    };
    let profile = known.storage_profiles.get(name)?;
    sets(profile).err().map(Fault::from)
}

/// Returns the profile that a directive names; without a name, the site's only default profile.
fn find_profile<'a>(
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
        known: list_choices("write", all.iter().copied()),
    })
}

/// Returns a text such as `write a or b or c`, or `the site has none` without choices.
fn list_choices<'a>(verb: &str, known: impl Iterator<Item = &'a String>) -> String {
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

/// Returns the file system of the storage that a directive of this workflow makes or uses.
fn file_system_of(
    name: &str,
    is_job: bool,
    commands: &[(usize, Command)],
    known: &Known,
) -> Option<FileSystem> {
    let file_system = |(_, command): &(usize, Command)| match command {
        Command::Jobdw(jobdw) if is_job && jobdw.name == name => Some(jobdw.file_system),
        // Storage that does not exist counts as Lustre here, because no check that calls this function refuses Lustre:
        // the check of the `persistentdw` already reports the missing storage.
        Command::Persistentdw(used) if !is_job && used.name == name => {
            Some(known.persistent.get(name).map_or(FileSystem::Lustre, |found| found.file_system))
        }
        _ => None,
    };
    commands.iter().find_map(file_system)
}

#[cfg(test)]
mod tests;
