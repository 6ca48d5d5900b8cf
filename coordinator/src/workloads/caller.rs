//! The caller of `Workloads`, and the users and workload managers that the caller may act for. Pure.

use std::fmt;
use std::sync::Arc;

use api::Workflow;
use nix::unistd::Uid;
use tonic::Status;

use crate::peer::Peer;

/// Uid that the kernel reports for every user without a mapping in the coordinator's user namespace
/// (user_namespaces(7), overflowuid). Such users cannot be told apart, so none of them may act.
const OVERFLOW_UID: u32 = 65_534;

/// The callers that may act for every user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    /// Uids on this host that run a workload manager, each with the manager's name. Root and the coordinator's own user
    /// may act for every manager without being listed here.
    pub users: Arc<[(u32, String)]>,
    /// Names of certificates whose holders may act for every user.
    pub operators: Arc<[String]>,
}

/// The caller of `Workloads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A caller that may act for every user, with its own uid and gid on this host. It may use the jobs of the
    /// workload managers in `only`, or of all managers if `only` is `None`.
    Manager { who: String, own: Option<(u32, u32)>, only: Option<Vec<String>> },
    /// A caller that may act for its own user only.
    User { user: u32, group: u32 },
}

/// Whose objects a caller reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub user: u32,
    /// Workload managers whose Workflows the caller sees; `None` for all.
    pub only: Option<Vec<String>>,
}

impl Caller {
    /// Identifies the caller by its socket or its certificate.
    ///
    /// # Errors
    /// `PermissionDenied` for the certificate of a node, `Unauthenticated` if the kernel reports no uid.
    pub(super) fn identify(peer: &Peer, managers: &Managers) -> Result<Self, Status> {
        let Peer::Local { user, group } = *peer else {
            peer.check_operator(&managers.operators)?;
            return Ok(Self::Manager { who: peer.to_string(), own: None, only: None });
        };
        if user == OVERFLOW_UID {
            return Err(Status::unauthenticated(
                "the coordinator runs in a user namespace, in which the kernel does not report the caller's uid: set PrivateUsers=no in its unit, or call as root",
            ));
        }
        let manager =
            |only| Self::Manager { who: peer.to_string(), own: Some((user, group)), only };
        if user == 0 || user == Uid::effective().as_raw() {
            return Ok(manager(None));
        }
        let managers = managers.users.iter().filter(|(uid, _)| *uid == user);
        let names: Vec<String> = managers.map(|(_, name)| name.clone()).collect();
        Ok(if names.is_empty() { Self::User { user, group } } else { manager(Some(names)) })
    }

    /// Checks that the caller may use this workload manager's jobs. A manager may use only jobs that belong to it. A
    /// user may use jobs of every manager: [`Self::check`] makes sure that the jobs are the user's own.
    ///
    /// # Errors
    /// `PermissionDenied` with the names that the caller may use.
    pub(super) fn check_manager(&self, manager: &str) -> Result<(), Status> {
        match self {
            Self::Manager { who, only: Some(only), .. }
                if !only.iter().any(|name| name == manager) =>
            {
                Err(Status::permission_denied(format!(
                    "argument job.manager: {manager:?}: {who} acts for {} only, by the coordinator's --wlm-user: correct the argument or that option",
                    only.join(" and ")
                )))
            }
            Self::Manager { .. } | Self::User { .. } => Ok(()),
        }
    }

    /// Checks that the caller may create a job of this manager. A manager may create only jobs that belong to it; a
    /// user may create only jobs of the manager `user-UID`, with the user's own uid.
    ///
    /// # Errors
    /// `PermissionDenied` with the name that the caller may use.
    pub(super) fn check_new(&self, manager: &str) -> Result<(), Status> {
        self.check_manager(manager)?;
        let Self::User { user, .. } = self else { return Ok(()) };
        let own = format!("user-{user}");
        if manager == own {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "argument job.manager: {manager:?}: only this workload manager may create its jobs; user {user} creates jobs of the manager {own} (warren workload --manager {own}), or the administrator names user {user} with the coordinator's --wlm-user MANAGER=USER"
        )))
    }

    /// Returns the user and group of a new job.
    ///
    /// # Errors
    /// If the caller is not permitted to act for this user and group, or the request names only a user or only a group.
    pub(super) fn owner(
        &self,
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<(u32, u32), Status> {
        match (self, user, group) {
            (Self::Manager { .. }, Some(user), Some(group)) => Ok((user, group)),
            (Self::Manager { own: Some(own), .. }, None, None) => Ok(*own),
            (Self::Manager { .. }, ..) => Err(Status::invalid_argument(
                "argument user_id and group_id: give both, the uid and gid of the job's owner",
            )),
            (Self::User { user: own, group: own_group }, user, group) => {
                let (user, group) = (user.unwrap_or(*own), group.unwrap_or(*own_group));
                if (user, group) == (*own, *own_group) {
                    return Ok((user, group));
                }
                Err(Status::permission_denied(format!(
                    "argument user_id and group_id: user {own} with group {own_group} may not create a job of user {user} with group {group}; leave both arguments out, or have the administrator name user {own} with the coordinator's --wlm-user"
                )))
            }
        }
    }

    /// Returns whose objects the caller reads: its own by default.
    ///
    /// # Errors
    /// If a user names another user, or an operator names none.
    pub(super) fn sight(&self, user: Option<u32>) -> Result<Sight, Status> {
        match self {
            Self::Manager { own, only, .. } => {
                let user = user.or(own.map(|(user, _)| user)).ok_or_else(|| {
                    Status::invalid_argument(
                        "argument user_id: name the user whose objects you want",
                    )
                })?;
                Ok(Sight { user, only: only.clone() })
            }
            Self::User { user: own, .. } if user.is_none_or(|user| user == *own) => {
                Ok(Sight { user: *own, only: None })
            }
            Self::User { user: own, .. } => Err(Status::permission_denied(format!(
                "argument user_id: user {own} sees their own objects only: leave the argument out, or have the administrator name user {own} with the coordinator's --wlm-user"
            ))),
        }
    }

    /// Checks that the caller may act on a job.
    ///
    /// # Errors
    /// `PermissionDenied` if the job is another user's.
    pub(super) fn check(&self, workflow: &Workflow) -> Result<(), Status> {
        match self {
            Self::Manager { .. } => Ok(()),
            Self::User { user, .. } if i64::from(*user) == workflow.spec.user_id => Ok(()),
            Self::User { user, .. } => Err(Status::permission_denied(format!(
                "argument job: the job is another user's, and user {user} may act on their own jobs only; have the administrator name user {user} with the coordinator's --wlm-user"
            ))),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager { who, .. } => f.write_str(who),
            Self::User { user, .. } => write!(f, "user {user}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn managers() -> Managers {
        Managers { users: [(400, "slurm".to_owned())].into(), operators: ["ops".to_owned()].into() }
    }

    fn local(user: u32) -> Caller {
        Caller::identify(&Peer::Local { user, group: user }, &managers()).unwrap()
    }

    #[test]
    fn users_act_on_their_own_jobs_only() {
        let user = local(1001);
        assert_eq!(user.owner(None, None).unwrap(), (1001, 1001));
        assert_eq!(user.owner(Some(1001), Some(1001)).unwrap(), (1001, 1001));
        for (user_id, group_id) in [(Some(0), None), (None, Some(0)), (Some(1002), Some(1002))] {
            let refused = user.owner(user_id, group_id).unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied);
            assert!(refused.message().contains("--wlm-user"), "{}", refused.message());
        }
        let job = |user| {
            let owner = (user, user);
            workload::job("default", "s-1", ("s", "1"), owner, Vec::new())
        };
        assert!(user.check(&job(1001)).is_ok());
        assert_eq!(user.check(&job(1002)).unwrap_err().code(), Code::PermissionDenied);
    }

    #[test]
    fn only_a_manager_creates_its_jobs_and_users_create_jobs_of_their_own_manager() {
        for (user, manager, may_act, may_create) in [
            (0, "slurm", true, true),
            (0, "anything", true, true),
            (400, "slurm", true, true),
            (400, "pbs", false, false),
            (400, "user-400", false, false),
            (1001, "slurm", true, false),
            (1001, "wlm", true, false),
            (1001, "user-1001", true, true),
            (1001, "user-1002", true, false),
            (1001, "user-10", true, false),
        ] {
            let caller = local(user);
            assert_eq!(caller.check_manager(manager).is_ok(), may_act, "{user} {manager}");
            assert_eq!(caller.check_new(manager).is_ok(), may_create, "{user} {manager}");
        }
        let refused = local(1001).check_new("slurm").unwrap_err();
        assert!(refused.message().contains("--manager user-1001"), "{}", refused.message());
    }

    #[test]
    fn a_user_without_a_mapping_in_the_user_namespace_is_refused() {
        let unmapped = Caller::identify(&Peer::Local { user: 65_534, group: 65_534 }, &managers());
        let refused = unmapped.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("PrivateUsers=no"), "{}", refused.message());
    }

    #[test]
    fn root_and_the_workload_manager_act_for_every_user() {
        for user in [0, 400] {
            let manager = local(user);
            assert_eq!(manager.owner(Some(1001), Some(1002)).unwrap(), (1001, 1002));
            assert_eq!(manager.owner(None, None).unwrap(), (user, user));
            assert_eq!(manager.owner(Some(1001), None).unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn a_user_sees_their_own_objects_and_a_manager_those_of_its_jobs_of_any_user() {
        let sight =
            |user, only: Option<&str>| Sight { user, only: only.map(|name| vec![name.to_owned()]) };
        assert_eq!(local(1001).sight(None).unwrap(), sight(1001, None));
        assert_eq!(local(1001).sight(Some(1001)).unwrap(), sight(1001, None));
        assert_eq!(local(1001).sight(Some(0)).unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(local(0).sight(Some(1001)).unwrap(), sight(1001, None));
        assert_eq!(local(400).sight(Some(1001)).unwrap(), sight(1001, Some("slurm")));
        let operator = Peer::Certificate(vec!["ops".to_owned()]);
        let operator = Caller::identify(&operator, &managers()).unwrap();
        assert_eq!(operator.sight(None).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn an_operator_must_name_the_owner_of_a_job_and_a_nodes_certificate_is_refused() {
        let peer = |name: &str| Peer::Certificate(vec![name.to_owned()]);
        let operator = Caller::identify(&peer("ops"), &managers()).unwrap();
        assert_eq!(operator.owner(Some(1001), Some(1001)).unwrap(), (1001, 1001));
        assert_eq!(operator.owner(None, None).unwrap_err().code(), Code::InvalidArgument);
        let node = Caller::identify(&peer("compute-1"), &managers()).unwrap_err();
        assert_eq!(node.code(), Code::PermissionDenied);
    }
}
