//! The only place where the agent turns an error into the texts that users and tools read, and decides when to try again.

use std::io;

use api::{ErrorType, ResourceError, Severity};
use controller::Retry;
use daemon::chain;
use storage::{
    ConvergeError, Panicked, Rejection, Step,
    desired::{MountPointError, Phase},
    execute::ExecuteError,
    host::{ObserveError, StepError},
    plan::{RejectionClass, without_remedy},
};

use crate::{
    desired::{Goal, MountError, MountProblem, ObjectError, ReferenceError},
    records::RecordError,
};

/// The remedy that the owner of a job reads where only an administrator can do anything.
pub const ASK: &str = "ask the administrators of this system";

/// One failure, with a text for users and one for administrators, as [`ResourceError`] has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether the user, the workload manager or the node is at fault.
    pub error_type: ErrorType,
    pub severity: Severity,
    /// Text for the owner of the job: what is wrong and what to do.
    pub user: String,
    /// Text for administrators: the whole chain of causes with errno.
    pub debug: String,
    /// When the agent tries again.
    pub retry: Retry,
    /// Process ids that keep something in use: when they have ended the agent tries again at once.
    pub holders: Box<[i32]>,
}

impl Failure {
    fn new(error_type: ErrorType, severity: Severity, retry: Retry, text: String) -> Self {
        let (user, holders) = (text.clone(), Box::default());
        Self { error_type, severity, user, debug: text, retry, holders }
    }

    /// A mistake in an object: the agent does nothing until somebody changes the object.
    pub fn input(text: String) -> Self {
        Self::new(ErrorType::User, Severity::Fatal, Retry::OnChange, text)
    }

    /// The agent waits for another object; its change wakes this one.
    pub fn waiting(text: String) -> Self {
        Self::new(ErrorType::Internal, Severity::Minor, Retry::OnChange, text)
    }

    /// A unit of any object that did not converge.
    pub fn of_convergence(error: &ConvergeError) -> Self {
        let (error_type, severity, retry) = class(error);
        let failure = Self {
            holders: holders(error),
            ..Self::new(error_type, severity, retry, chain(error))
        };
        match error {
            ConvergeError::Rejected(rejection) if rejection.is_for_operators() => {
                failure.for_operators()
            }
            // The device appears once access is granted, or an administrator has to look at the PCIe link.
            ConvergeError::Rejected(rejection @ Rejection::NoDevice { .. }) => Self {
                user: format!("{}: wait for access, or {ASK}", rejection.problem()),
                ..failure
            },
            _ => failure,
        }
    }

    /// A panic, which is a defect of the agent.
    pub fn of_panic(panicked: &Panicked) -> Self {
        let (error_type, severity, retry) = internal();
        Self::new(error_type, severity, retry, panicked.to_string())
    }

    /// The same failure, where only an administrator can apply the remedy: the owner reads whom to ask.
    #[must_use]
    pub fn for_operators(self) -> Self {
        let problem = without_remedy(&self.user).to_owned();
        self.with_owner_text(&problem)
    }

    /// The same failure with this problem in the owner's text, and whom to ask.
    #[must_use]
    pub fn with_owner_text(self, problem: &str) -> Self {
        Self { user: format!("{problem}: {ASK}"), ..self }
    }

    /// A mount that did not converge. `debugMessage` begins with the prefix that the sites' tools look for.
    pub fn of_mount(goal: Goal, error: &ConvergeError) -> Self {
        let mut failure = Self::of_convergence(error);
        failure.debug = format!("{}: {}", prefix(goal, error), failure.debug);
        failure
    }

    /// The failure as `status.error`, for an object for which nothing else failed.
    pub fn to_resource_error(&self, node: &str, context: &str) -> ResourceError {
        let context = if context.is_empty() { String::new() } else { format!("{context}: ") };
        ResourceError {
            debug_message: format!("{context}{}", self.debug),
            severity: self.severity.clone(),
            error_type: self.error_type.clone(),
            user_message: Some(format!("{node}: {}", self.user)),
        }
    }
}

impl From<&ObjectError> for Failure {
    fn from(error: &ObjectError) -> Self {
        match error {
            // A grant wakes the object. The agent also tries later, because an administrator may have unmounted meanwhile.
            ObjectError::ProfileForbidden(_) => {
                Self::new(ErrorType::Internal, Severity::Major, Retry::Later, error.to_string())
                    .for_operators()
            }
            _ => Self::input(error.to_string()),
        }
    }
}

impl From<&RecordError> for Failure {
    fn from(error: &RecordError) -> Self {
        let (error_type, severity, retry) = internal();
        let failure = Self::new(error_type, severity, retry, chain(error));
        failure.with_owner_text("what is mounted cannot be recorded on the node")
    }
}

impl From<&MountError> for Failure {
    fn from(error: &MountError) -> Self {
        match &error.problem {
            // The rabbit is still making the block storage.
            MountProblem::Reference(ReferenceError::NotReady(_)) => {
                Self::new(ErrorType::Internal, Severity::Minor, Retry::Soon, error.to_string())
            }
            // The agent looks again later: an administrator or the clean-up may have unmounted it.
            MountProblem::UnknownPath(_) => {
                Self::new(ErrorType::Internal, Severity::Major, Retry::Later, error.to_string())
                    .for_operators()
            }
            MountProblem::MountPath(MountPointError::OutsideRoots { .. }) => {
                let failure = Self::input(error.to_string());
                let debug =
                    format!("{}, or start the agent with another --mount-root", failure.debug);
                Self { debug, ..failure }
            }
            _ => Self::input(error.to_string()),
        }
    }
}

/// Orders severities, the worst highest. An unknown severity counts as Major: it is no reason to give up.
pub fn rank(severity: &Severity) -> u8 {
    match severity {
        Severity::Minor => 0,
        Severity::Major | Severity::Other(_) => 1,
        Severity::Fatal => 2,
    }
}

/// The processes that keep something in use.
fn holders(error: &ConvergeError) -> Box<[i32]> {
    match error {
        ConvergeError::Rejected(Rejection::StillInUse { holders, .. }) => {
            holders.processes.as_slice().into()
        }
        ConvergeError::Step(ExecuteError { source, .. }) => source.holders().into_iter().collect(),
        _ => Box::default(),
    }
}

fn class(error: &ConvergeError) -> (ErrorType, Severity, Retry) {
    match error {
        ConvergeError::Rejected(rejection) => rejection_class(rejection),
        ConvergeError::Step(ExecuteError { source, .. }) => step_class(source),
        ConvergeError::Observe(
            ObserveError::Read { .. }
            | ObserveError::Command(_)
            | ObserveError::Malformed { .. }
            | ObserveError::Panicked(_),
        )
        | ConvergeError::NotConverging { .. }
        | ConvergeError::Panicked(_) => internal(),
    }
}

/// An administrator has to do something on the node.
fn internal() -> (ErrorType, Severity, Retry) {
    (ErrorType::Internal, Severity::Major, Retry::Later)
}

fn rejection_class(rejection: &Rejection) -> (ErrorType, Severity, Retry) {
    match rejection.class() {
        RejectionClass::Waiting => (ErrorType::Internal, Severity::Minor, Retry::Soon),
        RejectionClass::Capacity => (ErrorType::Wlm, Severity::Fatal, Retry::OnChange),
        RejectionClass::Lost => (ErrorType::Internal, Severity::Major, Retry::Later),
        RejectionClass::Input => (ErrorType::User, Severity::Fatal, Retry::OnChange),
        RejectionClass::Unsupported => (ErrorType::Internal, Severity::Fatal, Retry::OnChange),
        // Something else is at the path; once it is gone the agent can mount.
        RejectionClass::InTheWay => (ErrorType::User, Severity::Major, Retry::Later),
        RejectionClass::Foreign => match rejection {
            // The data may belong to somebody: the agent does nothing until a person has decided and changed the object.
            Rejection::ForeignSignature { .. } | Rejection::WrongFileSystem { .. } => {
                (ErrorType::Internal, Severity::Fatal, Retry::OnChange)
            }
            _ => (ErrorType::User, Severity::Major, Retry::Later),
        },
    }
}

fn step_class(error: &StepError) -> (ErrorType, Severity, Retry) {
    match error {
        // A process uses the mount, or something on the node changed meanwhile: both pass by themselves.
        StepError::System { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
            (ErrorType::Internal, Severity::Minor, Retry::Soon)
        }
        StepError::Held { .. } | StepError::Changed(_) => {
            (ErrorType::Internal, Severity::Minor, Retry::Soon)
        }
        StepError::Several { first, .. } => step_class(first),
        _ => (ErrorType::Internal, Severity::Major, Retry::Later),
    }
}

/// The prefixes that the sites' agents write, by what failed.
fn prefix(goal: Goal, error: &ConvergeError) -> &'static str {
    let by_goal = match goal {
        Goal::Mounted => "unable to mount file system",
        Goal::Unmounted => "unable to unmount file system",
    };
    match error {
        ConvergeError::Observe(_) => "unable to get file system information",
        ConvergeError::Rejected(Rejection::NoDevice { .. } | Rejection::TooManyDevices { .. }) => {
            "unable to activate block device"
        }
        ConvergeError::Rejected(_)
        | ConvergeError::NotConverging { .. }
        | ConvergeError::Panicked(_) => by_goal,
        ConvergeError::Step(ExecuteError { step, .. }) => match &**step {
            Step::RunHook { id, .. } => hook_prefix(id.phase),
            Step::SetOwner { .. } => "unable to set owner and group for file system",
            Step::WriteFile { .. } => "unable to dump servers resource to file on clientmount path",
            _ => by_goal,
        },
    }
}

fn hook_prefix(phase: Phase) -> &'static str {
    match phase {
        Phase::PreActivate => "unable to run block device PreActivate commands",
        Phase::PostActivate => "unable to run block device PostActivate commands",
        Phase::PreMount => "unable to run file system PreMount commands",
        Phase::PostMount => "unable to run file system PostMount commands",
        Phase::PreUnmount => "unable to run file system PreUnmount commands",
        Phase::PostUnmount => "unable to run file system PostUnmount commands",
        Phase::PreDeactivate => "unable to run block device PreDeactivate commands",
        Phase::PostDeactivate | Phase::PostSetup | Phase::PreTeardown | Phase::PostTeardown => {
            "unable to run block device PostDeactivate commands"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_reads_what_is_wrong_and_the_operator_what_to_do_on_the_node() {
        let volume = || "group/lv".to_owned();
        let foreign = Rejection::ForeignSignature {
            device: "/dev/loop0".into(),
            kind: "ext4".into(),
            uuid: Some("4711".into()),
        };
        let broken = Rejection::PoolBroken { pool: "pool-0".into(), state: "FAULTED".into() };
        let many = Rejection::TooManyDevices { volume: volume(), count: 2 };
        let away = Rejection::NoDevice { volume: volume(), missing: Vec::new() };
        for (rejection, problem, remedy) in [
            (foreign, "4711", "wipe it by hand"),
            (broken, "zpool pool-0 is FAULTED", "bring its drives back"),
            (many, "group/lv has 2 namespaces", "--volumes lvm"),
            (away, "no device for group/lv", "check the PCIe link"),
        ] {
            let failure = Failure::of_convergence(&ConvergeError::Rejected(rejection));
            assert!(failure.debug.contains(remedy), "{}", failure.debug);
            let user = &failure.user;
            let is_told = user.contains(problem) && !user.contains(remedy) && user.ends_with(ASK);
            assert!(is_told, "{user}");
        }
    }

    #[test]
    fn a_path_outside_of_the_roots_is_the_owners_and_the_roots_are_not() {
        let source =
            MountPointError::OutsideRoots { path: "/etc/x".into(), roots: "/mnt/nnf".into() };
        let problem = MountProblem::MountPath(source);
        let failure = Failure::from(&MountError { index: 0, path: "/etc/x".into(), problem });
        assert!(failure.user.ends_with("use a path under /mnt/nnf"), "{}", failure.user);
        assert!(failure.debug.ends_with("with another --mount-root"), "{}", failure.debug);
    }

    #[test]
    fn a_busy_umount_is_retried_soon_and_keeps_errno() {
        let target = storage::desired::AllowedRoots::new(["/mnt/nnf".into()])
            .and_then(|roots| storage::desired::MountPoint::parse("/mnt/nnf/a", &roots))
            .unwrap();
        let error = ConvergeError::Step(ExecuteError {
            step: Box::new(Step::Unmount {
                target,
                device: storage::observed::DeviceNumber { major: 7, minor: 0 },
                line: "/mnt/nnf/a".into(),
            }),
            source: StepError::System {
                call: "umount(2)",
                target: "/mnt/nnf/a".into(),
                source: io::Error::from_raw_os_error(16),
            },
        });
        let failure = Failure::of_mount(Goal::Unmounted, &error);
        assert_eq!((failure.severity, failure.retry), (Severity::Minor, Retry::Soon));
        assert!(
            failure.debug.starts_with("unable to unmount file system: unmount /mnt/nnf/a"),
            "{}",
            failure.debug
        );
        assert!(
            failure.debug.ends_with("Device or resource busy (os error 16)"),
            "{}",
            failure.debug
        );
    }

    #[test]
    fn of_many_that_are_held_every_holder_is_told() {
        let held = |processes: &[i32]| StepError::Held {
            call: "umount(2)",
            target: "/mnt/nnf/job-0".into(),
            holders: storage::observed::Holders { names: Vec::new(), processes: processes.into() },
            source: io::Error::from_raw_os_error(16),
        };
        let of = |source| {
            let step = Step::RemoveMapping {
                name: "group-volume".into(),
                number: storage::observed::DeviceNumber { major: 253, minor: 0 },
            };
            ExecuteError { step: Box::new(step), source }
        };
        let others = vec![of(StepError::Changed("a mount".into())), of(held(&[9, 7]))];
        let several = StepError::Several { first: Box::new(held(&[7, 8])), others };
        let failure = Failure::of_convergence(&ConvergeError::Step(of(several)));
        assert_eq!(*failure.holders, [7, 8, 9]);
    }
}
