//! Gives up root's rights for good.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
};
use movement::order::User;
use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Resource, getrlimit, setrlimit},
        stat::{Mode, umask},
    },
    unistd::{Gid, Uid, setgroups, setresgid, setresuid},
};
use thiserror::Error;

/// Why root's rights could not be given up.
#[derive(Debug, Error)]
pub(crate) enum ConfineError {
    #[error("become user {uid} with group {gid}")]
    User {
        uid: u32,
        gid: u32,
        #[source]
        source: Errno,
    },
    #[error("restrict file access by landlock")]
    Landlock(#[from] RulesetError),
}

/// Changes user and groups. The kernel drops root's capabilities with its user id (capabilities(7)), and `no_new_privs`
/// keeps started programs from gaining any.
pub(crate) fn become_user(user: &User) -> Result<(), ConfineError> {
    // Raises the limit of open files: each level of a tree needs two open directories, and a service starts with a
    // limit of 1,024 descriptors.
    if let Ok((_, maximum)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, maximum, maximum);
    }
    // A copy gets exactly the mode of its source.
    umask(Mode::empty());
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let change_ids = || {
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        prctl::set_no_new_privs()
    };
    change_ids().map_err(|source| ConfineError::User { uid: user.uid, gid: user.gid, source })
}

/// Allows read access beneath the source, all access beneath the destination, and no other file access. A kernel
/// without Landlock restricts nothing.
pub(crate) fn restrict(source: impl AsFd, destination: impl AsFd) -> Result<(), ConfineError> {
    let abi = ABI::V3;
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .create()?
        .add_rule(PathBeneath::new(source, AccessFs::from_read(abi)))?
        .add_rule(PathBeneath::new(destination, AccessFs::from_all(abi)))?
        .restrict_self()?;
    Ok(())
}
