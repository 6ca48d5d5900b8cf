//! NnfDataMovement: copies of a job's data from or to the storage on this rabbit.
//!
//! # Flow
//! ```text
//! NnfDataMovement ─ desired ─► Desired ┐
//!                                      ├─ plan (pure) ─► Step ─ movers ─► datamover
//! reports of datamover, state directory ─► MovementState ┘
//! Desired, MovementState ─ report (pure) ─► status
//! ```
//! One process of `datamover` carries out one movement, as the job's user. `plan::turns` chooses the movements that
//! start: no more run at once than the configuration allows, and users take turns.
//!
//! # Guarantees
//! * The agent carries out only movements whose source or destination is a Servers. Other programs carry out the rest,
//!   and containers carry out those with the label `mpi-run`.
//! * No copy starts before its roots are mount points: `datamover` never writes into the directory beneath a missing
//!   mount.
//! * A restarted agent continues the movements of the previous process: each movement has a directory beneath the state
//!   directory with its journal, the number of its starts, and its end.
//! * Two processes never work on one movement: `datamover` locks its journal, and the agent starts no process while the
//!   lock is held.
//! * Once the status has a final state, no process is started for the movement.
//! * A deleted object stays until its process has ended and its temporary files are gone.
//!
//! # Caveats
//! * Times are those of this rabbit's clock.
//! * A process that hangs in the kernel delays the deletion of its object until the kernel releases the process; the
//!   status names the process.

pub mod args;
pub mod desired;
pub mod movers;
mod order;
pub mod plan;
mod reconcile;
pub mod record;
pub mod report;
mod scope;

use api::NnfDataMovement;
use kube::ResourceExt;

pub use movers::Movers;
pub use reconcile::{MovementView, reconcile};

/// Whether the agent has to copy: the movement concerns a Servers, is not carried out by MPI, has not ended, and is
/// neither cancelled nor deleted.
#[must_use]
pub fn is_wanted(object: &NnfDataMovement) -> bool {
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    object.is_ours()
        && !object.is_by_mpi()
        && !object.is_finished()
        && !object.spec.cancel
        && !is_deleted
}

/// Returns the facts that decide the movement's turn; `None` when the movement is not wanted.
#[must_use]
pub fn waiting(object: &NnfDataMovement) -> Option<plan::Waiting> {
    let status = object.status.as_ref();
    is_wanted(object).then_some(())?;
    Some(plan::Waiting {
        uid: desired::uid_of(object).ok()?,
        user: object.spec.user_id,
        created: object.creation_timestamp()?.0,
        has_begun: status.is_some_and(|status| status.start_time.is_some()),
    })
}
