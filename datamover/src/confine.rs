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

/// Rights that stay.
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

/// Changes user and groups. Capabilities go with root's user id (capabilities(7)), and no program that is started gets any back.
pub(crate) fn become_user(user: &User) -> Result<(), ConfineError> {
    // Open directories, two for each level of a tree, need descriptors. The limit that a service gets at first is 1,024.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    // The modes of copies are those of their sources.
    umask(Mode::empty());
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let become_it = || {
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        prctl::set_no_new_privs()
    };
    become_it().map_err(|source| ConfineError::User { uid: user.uid, gid: user.gid, source })
}

/// Allows reading beneath the source and everything beneath the destination, and no other file access. A kernel
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
