//! Faults of directives that contradict other directives of the workflow, or that name objects which the site lacks.

use thiserror::Error;

use crate::command::FileSystem;

/// Error: a directive contradicts another directive of the workflow, or names an object that the site lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeaningFault {
    #[error(
        "command {command} must be the only directive of its workflow; move the other {others} directive(s) to another workflow"
    )]
    NotOnlyDirective { command: &'static str, others: usize },
    #[error(
        "command container: directive {other} is a container directive too, and a workflow may have only one; remove one of them"
    )]
    SecondContainer { other: usize },
    #[error(
        "argument name={name}: the storage of directive {other} has the same variable {variable}; write another name"
    )]
    SameVariable { name: String, other: usize, variable: String },
    #[error(
        "argument name={name}: the name has {length} characters, and Kubernetes objects get this name; write at most {most} lower case letters, digits and '-', with a letter or digit at both ends"
    )]
    ObjectName { name: String, length: usize, most: usize },
    #[error("argument profile={name}: no such {kind}; {known}")]
    NoProfile { name: String, kind: &'static str, known: String },
    #[error(
        "argument profile is missing, and the site has {found} as default {kind}; add profile=NAME, or ask the administrator to set data.default: true in exactly one"
    )]
    NoDefault { kind: &'static str, found: String },
    #[error(
        "argument requires={words}: the site has no Secret nnf-dm-usercontainer-server-tls; remove the argument, or ask the administrator to create the Secret"
    )]
    NoCertificate { words: String },
    #[error(
        "argument name={name}: no such persistent storage; correct the name, or create the storage with create_persistent in an earlier job"
    )]
    NoPersistent { name: String },
    #[error("Warren does not support {what}: this version {why}; remove the {kind}")]
    Unsupported { what: String, why: &'static str, kind: &'static str },
    #[error(
        "argument name={name}: this persistent storage is being destroyed; name another storage"
    )]
    PersistentDeleted { name: String },
    #[error(
        "argument name={name}: this persistent storage belongs to user {owner}, and the workflow's user is {user}; name a storage of this user"
    )]
    PersistentOfOther { name: String, owner: u32, user: u32 },
    #[error(
        "argument {key}={value}: this workflow has no directive {needed} name={name}; add this directive, or correct the name"
    )]
    NoStorage { key: String, value: String, needed: &'static str, name: String },
    #[error(
        "argument {key}={value}: storage {name} has type raw, which has no files to copy; write another type in its directive"
    )]
    Raw { key: String, value: String, name: String },
    #[error("argument {key}={value}: no global Lustre is mounted there; {known}")]
    NoLustre { key: String, value: String, known: String },
    #[error(
        "argument profile={name}: this profile is the pinned copy of another workflow; name a profile of the site"
    )]
    Pinned { name: String },
    #[error(
        "argument profile={name}: this profile is only for {whom} {only}, and the workflow's {whom} is {actual}; name another profile"
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
