//! Faults of directives that do not fit each other, or that name objects which the site lacks.

use thiserror::Error;

use crate::command::FileSystem;

/// Error: a directive does not fit the other directives, or the site lacks what it names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeaningFault {
    #[error(
        "command {command} stands alone in a workflow; move the other {others} directive(s) to a workflow of their own"
    )]
    NotAlone { command: &'static str, others: usize },
    #[error("command container: directive {other} is one already; leave one out")]
    SecondContainer { other: usize },
    #[error(
        "argument name={name}: directive {other} takes the same variable {variable}; give each its own name"
    )]
    SameVariable { name: String, other: usize, variable: String },
    #[error(
        "argument name={name}: objects carry the name, which has {length} characters; write at most {most} lower case letters, digits and '-', with a letter or digit at both ends"
    )]
    ObjectName { name: String, length: usize, most: usize },
    #[error("argument profile={name}: no such {kind}; {known}")]
    NoProfile { name: String, kind: &'static str, known: String },
    #[error(
        "argument profile is missing and the site has {found} as default {kind}; add profile=NAME, or the administrator marks one with data.default: true"
    )]
    NoDefault { kind: &'static str, found: String },
    #[error(
        "argument requires={words}: the site has no Secret nnf-dm-usercontainer-server-tls; leave the argument out, or the administrator makes one"
    )]
    NoCertificate { words: String },
    #[error(
        "argument name={name}: no such persistent storage; correct the name, or make it with create_persistent in a job before this one"
    )]
    NoPersistent { name: String },
    #[error("{what} is not carried out here: this version of Warren {why}; leave the {kind} out")]
    Unserved { what: String, why: &'static str, kind: &'static str },
    #[error("argument name={name}: this persistent storage is being destroyed; name another one")]
    PersistentDeleted { name: String },
    #[error(
        "argument name={name}: this persistent storage belongs to user {owner}, and the workflow's user is {user}; name one of your own"
    )]
    PersistentOfOther { name: String, owner: u32, user: u32 },
    #[error(
        "argument {key}={value}: this workflow has no directive {needed} name={name}; add one, or correct the name"
    )]
    NoStorage { key: String, value: String, needed: &'static str, name: String },
    #[error("argument {key}={value}: {name} is raw, without files to copy; give it another type")]
    Raw { key: String, value: String, name: String },
    #[error("argument {key}={value}: no global Lustre is mounted there; {known}")]
    NoLustre { key: String, value: String, known: String },
    #[error(
        "argument profile={name}: a copy that belongs to another workflow; name the profile itself"
    )]
    Pinned { name: String },
    #[error(
        "argument profile={name}: only for {whom} {only}, and the workflow's is {actual}; name another profile"
    )]
    NotForUser { name: String, whom: &'static str, only: u32, actual: u32 },
    #[error(
        "argument {key}={value}: unsupported container filesystem {file_system}; use lustre, gfs2 or raw"
    )]
    ContainerFileSystem { key: String, value: String, file_system: FileSystem },
    #[error("argument {key}={value}: profile {profile} has no such storage; {known}")]
    UnknownStorage { key: String, value: String, profile: String, known: String },
    #[error("argument {key} is missing, which profile {profile} needs; add {key}=NAME")]
    MissingStorage { key: String, profile: String },
}
