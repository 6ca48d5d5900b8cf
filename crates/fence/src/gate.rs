//! The [`Host`] (interface to the drives) for passes over a GFS2: before it attaches a namespace to a compute, it asks
//! [`Fences`], the record of fenced computes, for permission.
//!
//! A pass may zero a namespace for hours before it attaches the namespace, and a fence cannot wait that long. So the
//! pass asks for permission only for the attachment itself, and keeps the permission until the attachment ends.

use std::{io, sync::Arc};

use storage::{
    Desired, Host, Observed, Step,
    desired::Endpoint,
    host::{ObserveError, StepError},
};

use super::Fences;

/// A [`Host`] that attaches nothing to a fenced compute, and does all other work of the host behind it.
#[derive(Debug)]
pub struct Gate {
    pub host: Arc<dyn Host>,
    pub fences: Fences,
}

impl Host for Gate {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.host.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let _grant = match step {
            Step::Attach { id, endpoint: Endpoint::Compute(_), node } => {
                // The next pass leaves the fenced compute out.
                let closed = |why| StepError::System {
                    call: "attach namespace",
                    target: id.to_string(),
                    source: io::Error::new(io::ErrorKind::ResourceBusy, why),
                };
                Some(self.fences.attach(node).map_err(closed)?)
            }
            _ => None,
        };
        self.host.apply(step)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use storage::{desired::NodeName, fake::FakeHost};

    use super::*;

    #[test]
    fn a_compute_that_is_fenced_during_a_pass_gets_no_attachment() {
        let rabbit: NodeName = "rabbit-1".parse().unwrap();
        let roots = storage::desired::AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
        let host = Arc::new(FakeHost::with_drives(rabbit.clone(), roots, 1, 1 << 30));
        let fences = Fences::default();
        let gate = Gate { host: Arc::<FakeHost>::clone(&host), fences: fences.clone() };
        let id = storage::desired::NamespaceId { subsystem: "nqn.x:d0".parse().unwrap(), nsid: 1 };
        let attach = |endpoint, node: &str| {
            let step = Step::Attach { id: id.clone(), endpoint, node: node.parse().unwrap() };
            gate.apply(&step).unwrap_err().to_string()
        };
        // The error is the drive's (there is no such namespace), so the gate let the step through.
        let error_of_drive = attach(Endpoint::Compute(0), "compute-01");
        fences.update(BTreeSet::from(["compute-01".parse().unwrap()]), BTreeSet::new());
        let closed = attach(Endpoint::Compute(0), "compute-01");
        assert_ne!(closed, error_of_drive);
        assert_eq!(attach(Endpoint::Rabbit, "rabbit-1"), error_of_drive);
        assert_eq!(attach(Endpoint::Compute(1), "compute-02"), error_of_drive);
    }
}
