//! Turns errors into the texts that users and tools read, and decides when to retry. No other module of the agent makes
//! such texts or such decisions.

use std::io;

use api::{ErrorType, ResourceError, Severity};
use controller::Retry;
use daemon::chain;
use storage::{
    ConvergeError, Panicked, Rejection, Step,
    desired::{HookPoint, MountPointError},
    execute::ExecuteError,
    host::{ObserveError, StepError},
    plan::{RejectionClass, without_remedy},
};

use crate::{
    desired::{Goal, MountError, MountProblem, ObjectError, ReferenceError},
    records::RecordError,
};

/// Remedy in texts for the owner of a job, if only an administrator can help.
pub const ASK_ADMINISTRATORS: &str = "ask the administrators of this system";

/// Fault type, severity, and when the agent retries.
type Class = (ErrorType, Severity, Retry);

/// One failure, with the two texts of a [`ResourceError`]: one for users, one for administrators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Party at fault: the user, the workload manager or the node.
    pub error_type: ErrorType,
    pub severity: Severity,
    /// Text for the owner of the job: what is wrong and what to do.
    pub user: String,
    /// Text for administrators: the whole chain of causes with errno.
    pub debug: String,
    /// When the agent retries.
    pub retry: Retry,
    /// Ids of the processes that keep a mount in use. Once all of them have ended, the agent retries at once.
    pub holders: Box<[i32]>,
}

impl Failure {
    fn new((error_type, severity, retry): Class, text: String) -> Self {
        let (user, holders) = (text.clone(), Box::default());
        Self { error_type, severity, user, debug: text, retry, holders }
    }

    /// Creates the failure of a mistake in an object: the agent does nothing until the object changes.
    pub fn input(text: String) -> Self {
        Self::new((ErrorType::User, Severity::Fatal, Retry::OnChange), text)
    }

    /// Creates the failure of an object that waits for another object. A change of the other object
    /// makes the agent retry.
    pub fn waiting(text: String) -> Self {
        Self::new((ErrorType::Internal, Severity::Minor, Retry::OnChange), text)
    }

    /// Creates the failure of a unit that did not converge.
    pub fn of_convergence(error: &ConvergeError) -> Self {
        let failure = Self { holders: holders(error), ..Self::new(classify(error), chain(error)) };
        match error {
            ConvergeError::Rejected(rejection) if rejection.is_for_operators() => {
                failure.for_operators()
            }
            // The device appears once the rabbit has granted access. If the device does not appear then, an
            // administrator has to check the PCIe link.
            ConvergeError::Rejected(rejection @ Rejection::NoDevice { .. }) => Self {
                user: format!("{}: wait for access, or {ASK_ADMINISTRATORS}", rejection.problem()),
                ..failure
            },
            _ => failure,
        }
    }

    /// Creates the failure of a panic: a defect of the agent.
    pub fn of_panic(panicked: &Panicked) -> Self {
        Self::new(internal(), panicked.to_string())
    }

    /// Returns the failure with a user text that ends with [`ASK_ADMINISTRATORS`], because only administrators
    /// can apply the remedy.
    #[must_use]
    pub fn for_operators(self) -> Self {
        let problem = without_remedy(&self.user).to_owned();
        self.with_owner_text(&problem)
    }

    /// Returns the failure with a text for the owner: this problem, and the advice to ask the administrators.
    #[must_use]
    pub fn with_owner_text(self, problem: &str) -> Self {
        Self { user: format!("{problem}: {ASK_ADMINISTRATORS}"), ..self }
    }

    /// Creates the failure of a mount that did not converge. `debugMessage`
    /// begins with the prefix that the sites' tools look for.
    pub fn of_mount(goal: Goal, error: &ConvergeError) -> Self {
        let mut failure = Self::of_convergence(error);
        failure.debug = format!("{}: {}", prefix(goal, error), failure.debug);
        failure
    }

    /// Returns the failure as `status.error` of an object that has no other failure.
    pub fn to_resource_error(&self, node: &str, context: &str) -> ResourceError {
        let context = if context.is_empty() { String::new() } else { format!("{context}: ") };
        ResourceError {
            debug_message: causes::message(&format!("{context}{}", self.debug)),
            severity: self.severity.clone(),
            error_type: self.error_type.clone(),
            user_message: Some(causes::message(&format!("{node}: {}", self.user))),
        }
    }
}

impl From<&ObjectError> for Failure {
    fn from(error: &ObjectError) -> Self {
        match error {
            // The agent retries when an administrator grants the right. It also retries after a while, because an
            // administrator may have unmounted the mounts by hand.
            ObjectError::ProfileForbidden(_) => {
                Self::new(internal(), error.to_string()).for_operators()
            }
            _ => Self::input(error.to_string()),
        }
    }
}

impl From<&RecordError> for Failure {
    fn from(error: &RecordError) -> Self {
        Self::new(internal(), chain(error))
            .with_owner_text("the node cannot record its mounts on disk")
    }
}

impl From<&MountError> for Failure {
    fn from(error: &MountError) -> Self {
        match &error.problem {
            // The rabbit is still creating the block storage.
            MountProblem::Reference(ReferenceError::NotReady(_)) => {
                Self::new(transient(), error.to_string())
            }
            // The agent retries after a while, because an administrator or the clean-up may have unmounted the mount.
            MountProblem::UnknownPath(_) => {
                Self::new(internal(), error.to_string()).for_operators()
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

/// Returns the rank of a severity; the worst severity has the highest rank. An unknown severity has the rank of Major,
/// so that the agent does not give up.
pub fn rank(severity: &Severity) -> u8 {
    match severity {
        Severity::Minor => 0,
        Severity::Major | Severity::Other(_) => 1,
        Severity::Fatal => 2,
    }
}

/// Returns the ids of the processes that keep a mount in use.
fn holders(error: &ConvergeError) -> Box<[i32]> {
    match error {
        ConvergeError::Rejected(Rejection::StillInUse { holders, .. }) => {
            holders.processes.as_slice().into()
        }
        ConvergeError::Step(ExecuteError { source, .. }) => source.holders().into_iter().collect(),
        _ => Box::default(),
    }
}

fn classify(error: &ConvergeError) -> Class {
    match error {
        ConvergeError::Rejected(rejection) => rejection_class(rejection),
        ConvergeError::Step(ExecuteError { source, .. }) => step_class(source),
        ConvergeError::Observe(
            ObserveError::Read { .. }
            | ObserveError::Command(_)
            | ObserveError::Malformed { .. }
            | ObserveError::Panicked(_),
        )
        | ConvergeError::NotConverging(_)
        | ConvergeError::Panicked(_) => internal(),
    }
}

/// Returns the class of failures that last until an administrator mends the node.
fn internal() -> Class {
    (ErrorType::Internal, Severity::Major, Retry::Later)
}

/// Returns the class of failures that end by themselves.
fn transient() -> Class {
    (ErrorType::Internal, Severity::Minor, Retry::Soon)
}

fn rejection_class(rejection: &Rejection) -> Class {
    match rejection.class() {
        RejectionClass::Waiting => transient(),
        RejectionClass::Capacity => (ErrorType::Wlm, Severity::Fatal, Retry::OnChange),
        RejectionClass::Lost => internal(),
        RejectionClass::Input => (ErrorType::User, Severity::Fatal, Retry::OnChange),
        RejectionClass::Unsupported => (ErrorType::Internal, Severity::Fatal, Retry::OnChange),
        // Another mount or file occupies the path: the agent can mount once that mount or file is removed.
        RejectionClass::InTheWay => (ErrorType::User, Severity::Major, Retry::Later),
        RejectionClass::Foreign => match rejection {
            // The foreign data may still be needed: the agent does nothing until a person has decided, and has changed
            // the object.
            Rejection::ForeignSignature { .. } | Rejection::WrongFileSystem { .. } => {
                (ErrorType::Internal, Severity::Fatal, Retry::OnChange)
            }
            _ => (ErrorType::User, Severity::Major, Retry::Later),
        },
    }
}

fn step_class(error: &StepError) -> Class {
    match error {
        // A process uses the mount, or the node changed between two steps.
        StepError::System { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
            transient()
        }
        StepError::Held { .. } | StepError::Changed(_) => transient(),
        StepError::Several { first, .. } => step_class(first),
        _ => internal(),
    }
}

/// Returns the prefix that the Go agents of the sites write for this kind of failure.
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
        | ConvergeError::NotConverging(_)
        | ConvergeError::Panicked(_) => by_goal,
        ConvergeError::Step(ExecuteError { step, .. }) => match &**step {
            Step::RunHook { id, .. } => hook_prefix(id.phase),
            Step::SetOwner { .. } => "unable to set owner and group for file system",
            Step::WriteFile { .. } => "unable to dump servers resource to file on clientmount path",
            _ => by_goal,
        },
    }
}

fn hook_prefix(phase: HookPoint) -> &'static str {
    match phase {
        HookPoint::PreActivate => "unable to run block device PreActivate commands",
        HookPoint::PostActivate => "unable to run block device PostActivate commands",
        HookPoint::PreMount => "unable to run file system PreMount commands",
        HookPoint::PostMount => "unable to run file system PostMount commands",
        HookPoint::PreUnmount => "unable to run file system PreUnmount commands",
        HookPoint::PostUnmount => "unable to run file system PostUnmount commands",
        HookPoint::PreDeactivate => "unable to run block device PreDeactivate commands",
        HookPoint::PostDeactivate
        | HookPoint::PostSetup
        | HookPoint::PreTeardown
        | HookPoint::PostTeardown => "unable to run block device PostDeactivate commands",
    }
}

#[cfg(test)]
mod tests;
