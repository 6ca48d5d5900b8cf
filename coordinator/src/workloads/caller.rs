//! Who calls, and for which users the caller may act. Pure.

use std::fmt;
use std::sync::Arc;

use api::Workflow;
use nix::unistd::Uid;
use tonic::Status;

use crate::peer::Peer;

/// What the kernel tells of a user that has no number in our user namespace (user_namespaces(7), overflowuid). All such
/// users look alike, so none of them may act.
const UNKNOWN: u32 = 65_534;

/// Who may act for every user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    /// Users of this host, beside root and our own, each with the workload manager whose jobs are its own.
    pub users: Arc<[(u32, String)]>,
    /// Names of certificates.
    pub operators: Arc<[String]>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A caller who may act for every user, with its own uid on this host. Its jobs are those of the workload managers in `only`;
    /// `None`: of all.
    Manager { who: String, own: Option<(u32, u32)>, only: Option<Vec<String>> },
    /// A caller who may act for one user only: the caller's own.
    User { user: u32, group: u32 },
}

impl Caller {
    /// The caller, from its socket or its certificate.
    ///
    /// # Errors
    /// `PermissionDenied` for the certificate of a node, `Unauthenticated` when the kernel does not tell who it is.
    pub(super) fn of(peer: &Peer, managers: &Managers) -> Result<Self, Status> {
        let Peer::Local { user, group } = *peer else {
            peer.check_operator(&managers.operators)?;
            return Ok(Self::Manager { who: peer.to_string(), own: None, only: None });
        };
        if user == UNKNOWN {
            return Err(Status::unauthenticated(
                "the coordinator runs in a user namespace, where the kernel does not tell it who calls: its unit needs PrivateUsers=no, or call as root",
            ));
        }
        let manager =
            |only| Self::Manager { who: peer.to_string(), own: Some((user, group)), only };
        if user == 0 || user == Uid::effective().as_raw() {
            return Ok(manager(None));
        }
        let of_user = managers.users.iter().filter(|(manager, _)| *manager == user);
        let names: Vec<String> = of_user.map(|(_, name)| name.clone()).collect();
        Ok(if names.is_empty() { Self::User { user, group } } else { manager(Some(names)) })
    }

    /// Checks that the caller may name this workload manager: a manager names itself, and a user may act on its own jobs of all.
    ///
    /// # Errors
    /// `PermissionDenied` with the names that it may use.
    pub(super) fn check_manager(&self, manager: &str) -> Result<(), Status> {
        match self {
            Self::Manager { who, only: Some(only), .. }
                if !only.iter().any(|one| one == manager) =>
            {
                Err(Status::permission_denied(format!(
                    "argument job.manager: {manager:?}: {who} acts for {} only, as the coordinator's --wlm-user says",
                    only.join(" and ")
                )))
            }
            Self::Manager { .. } | Self::User { .. } => Ok(()),
        }
    }

    /// Checks that the caller may take a new job's id: ids belong to the workload manager, and a user has ids of its own.
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
            "argument job.manager: {manager:?}: the ids of its jobs are its own; user {user} makes jobs of the manager {own} (warren workload --manager {own}), or the administrator names user {user} with the coordinator's --wlm-user MANAGER=USER"
        )))
    }

    /// The user and group of a new job.
    ///
    /// # Errors
    /// When it may not act for them, or they are not told.
    pub(super) fn owner(
        &self,
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<(u32, u32), Status> {
        match (self, user, group) {
            (Self::Manager { .. }, Some(user), Some(group)) => Ok((user, group)),
            (Self::Manager { own: Some(own), .. }, None, None) => Ok(*own),
            (Self::Manager { .. }, ..) => Err(Status::invalid_argument(
                "argument user_id and group_id: name both, as the job's owner has them",
            )),
            (Self::User { user: own, group: own_group }, user, group) => {
                let (user, group) = (user.unwrap_or(*own), group.unwrap_or(*own_group));
                if (user, group) == (*own, *own_group) {
                    return Ok((user, group));
                }
                Err(Status::permission_denied(format!(
                    "argument user_id and group_id: user {own} with group {own_group} asks for user {user} with group {group}; leave them out, or have the administrator name user {own} with the coordinator's --wlm-user"
                )))
            }
        }
    }

    /// Checks that the caller may act on a job.
    ///
    /// # Errors
    /// `PermissionDenied` when the job is somebody else's.
    pub(super) fn check(&self, workflow: &Workflow) -> Result<(), Status> {
        match self {
            Self::Manager { .. } => Ok(()),
            Self::User { user, .. } if i64::from(*user) == workflow.spec.user_id => Ok(()),
            Self::User { user, .. } => Err(Status::permission_denied(format!(
                "argument job: the job is another user's, and user {user} acts for itself only; have the administrator name it with the coordinator's --wlm-user"
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
        Caller::of(&Peer::Local { user, group: user }, &managers()).unwrap()
    }

    #[test]
    fn a_user_acts_for_itself_only() {
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
    fn ids_belong_to_a_manager_and_users_have_their_own() {
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
    fn a_user_that_the_kernel_does_not_name_is_refused() {
        let nobody = Caller::of(&Peer::Local { user: 65_534, group: 65_534 }, &managers());
        let refused = nobody.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("PrivateUsers=no"), "{}", refused.message());
    }

    #[test]
    fn root_and_the_workload_manager_act_for_everybody() {
        for user in [0, 400] {
            let manager = local(user);
            assert_eq!(manager.owner(Some(1001), Some(1002)).unwrap(), (1001, 1002));
            assert_eq!(manager.owner(None, None).unwrap(), (user, user));
            assert_eq!(manager.owner(Some(1001), None).unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn an_operators_certificate_names_the_owner_and_a_nodes_is_refused() {
        let peer = |name: &str| Peer::Certificate(vec![name.to_owned()]);
        let operator = Caller::of(&peer("ops"), &managers()).unwrap();
        assert_eq!(operator.owner(Some(1001), Some(1001)).unwrap(), (1001, 1001));
        assert_eq!(operator.owner(None, None).unwrap_err().code(), Code::InvalidArgument);
        let node = Caller::of(&peer("compute-1"), &managers()).unwrap_err();
        assert_eq!(node.code(), Code::PermissionDenied);
    }
}
