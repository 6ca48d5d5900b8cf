//! Tests allocations on simulated drives of a rabbit that has no PCI bus.

use storage::{
    ConvergeError, Converger, Desired, Host, Observed, Rejection, Step,
    desired::{Access, Allocation, Endpoint, Reported, Spread},
    host::ObserveError,
    observed::{Drive, Namespace, NamespaceOwner},
    plan::RejectionClass,
};

use super::{
    super::{
        admin::{Admin, opcode},
        change::failed,
        drive::NvmeDrive,
        fake::{Lost, Simulated},
        ledger::Wanted,
    },
    *,
};

const MIB: u64 = 1 << 20;

/// A rabbit whose drives are in memory and whose ledgers are on disk.
#[derive(Debug)]
struct Chassis {
    simulated: Vec<Simulated>,
    drives: Vec<(Nqn, NvmeDrive)>,
}

impl Chassis {
    /// Starts an agent that knows only the ledgers in `state`.
    fn start(simulated: &[Simulated], state: &Path) -> Arc<Self> {
        let drive = |(slot, simulated): (usize, &Simulated)| {
            let nqn: Nqn = format!("nqn.2019-08.org.qemu:drive{slot}").parse().unwrap();
            let ledger = Arc::new(Ledger::open(state, &nqn).unwrap());
            simulated.state().nqn = nqn.to_string();
            let admin = Admin::new(Box::new(simulated.clone()));
            (nqn.clone(), NvmeDrive::new(nqn, admin, ledger))
        };
        let drives = simulated.iter().enumerate().map(drive).collect();
        Arc::new(Self { simulated: simulated.to_vec(), drives })
    }

    fn drive(&self, nqn: &Nqn) -> &NvmeDrive {
        &self.drives.iter().find(|(known, _)| known == nqn).unwrap().1
    }

    fn unallocated(&self) -> Vec<u64> {
        self.simulated.iter().map(|drive| drive.state().unallocated()).collect()
    }
}

impl Host for Chassis {
    fn observe(&self, _: &Desired) -> Result<Observed, ObserveError> {
        let mut observed = Observed::default();
        for (slot, (_, drive)) in (0..).zip(&self.drives) {
            let contents = drive.look().unwrap();
            observed.drives.push(Drive { slot, ..contents.drive });
            let namespaces = contents.namespaces.into_iter().map(|(namespace, _)| {
                let device = (!namespace.access.is_empty()).then(|| "/dev/null".into());
                Namespace { device, ..namespace }
            });
            observed.namespaces.extend(namespaces);
            observed.vanished.extend(contents.lost);
        }
        Ok(observed)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let done = match step {
            Step::CreateNamespace { allocation, drive, size, members } => {
                let wanted = Wanted { size: *size, members: *members };
                self.drive(drive).create(*allocation, wanted, 1).map(drop)
            }
            Step::AdoptNamespace { id, allocation, size, members } => self
                .drive(&id.subsystem)
                .adopt(id.nsid, *allocation, Wanted { size: *size, members: *members }),
            Step::Attach { id, endpoint, node } => {
                self.drive(&id.subsystem).attach(id.nsid, *endpoint, node)
            }
            Step::Detach { id, node } => self.drive(&id.subsystem).detach(id.nsid, node),
            Step::EraseNamespace { id, allocation } => {
                self.drive(&id.subsystem).erase(id.nsid, *allocation)
            }
            Step::DeleteNamespace { id, allocation } => {
                self.drive(&id.subsystem).delete(id.nsid, *allocation)
            }
            other => panic!("{other}"),
        };
        done.map_err(|error| failed(step.kind(), step.on(), error))
    }
}

fn simulated(count: usize) -> Vec<Simulated> {
    (0..count).map(|_| Simulated::new(64 * MIB, 17)).collect()
}

fn allocation() -> Allocation {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
    let id = AllocationId { owner, index: 0 };
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse().unwrap() };
    Allocation::new(id, 16 * MIB, Spread::RABBIT, [rabbit].into())
}

fn reported_allocation(host: &Chassis) -> Allocation {
    let namespaces = host.observe(&Desired::Inventory).unwrap().namespaces.into_iter();
    let reported = namespaces.map(|namespace| Reported {
        id: namespace.id,
        size: namespace.size,
        contested: false,
    });
    Allocation { reported: reported.collect(), ..allocation() }
}

#[test]
fn a_failed_creation_on_one_of_sixteen_drives_leaves_no_namespace() {
    let (simulated, state) = (simulated(16), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    for lost in [Lost::Before, Lost::After] {
        simulated[5].state().lose = Some((opcode::NAMESPACE_MANAGEMENT, lost));
        let error =
            Converger::new(host.clone()).converge(&Desired::Allocated(allocation())).unwrap_err();
        let ConvergeError::Step(failed) = &error else { panic!("{error}") };
        assert!(failed.step.to_string().contains("drive5 for"), "{error}");
        // After `Lost::After`, the drive has the namespace although its answer was lost. The agent finds and deletes
        // this namespace by the recorded intent.
        assert_eq!(host.unallocated(), [64 * MIB; 16], "{lost:?}");
    }
    let host = Chassis::start(&simulated, state.path());
    let converger = Converger::new(host.clone());
    converger.converge(&Desired::Allocated(allocation())).unwrap();
    assert_eq!(host.unallocated(), [63 * MIB; 16]);
    converger.converge(&Desired::Released(allocation().id)).unwrap();
    assert_eq!(host.unallocated(), [64 * MIB; 16]);
}

#[test]
fn a_drive_that_refuses_for_want_of_room_fails_the_allocation_without_leftovers() {
    let (simulated, state) = (simulated(16), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    for status in [0x4115, 0x4116] {
        simulated[5].state().refuses = Some(status);
        let error = Converger::new(host.clone()).converge(&Desired::Allocated(allocation()));
        let Err(ConvergeError::Rejected(refused)) = error else { panic!("{error:?}") };
        assert_eq!(refused.class(), RejectionClass::Capacity);
        let text = refused.to_string();
        assert!(text.contains("drive5 refuses a namespace") && text.contains("0 of 32"), "{text}");
        assert_eq!(host.unallocated(), [64 * MIB; 16]);
    }
    simulated[5].state().refuses = None;
    simulated[5].state().most = 1;
    Admin::new(Box::new(simulated[5].clone())).create(256, 1).unwrap();
    Converger::new(host.clone()).converge(&Desired::Allocated(allocation())).unwrap();
    let taken = host.unallocated().iter().filter(|left| **left < 63 * MIB).count();
    assert_eq!(
        (taken, host.unallocated()[5]),
        (15, 63 * MIB),
        "the allocation uses the other 15 drives: {:?}",
        host.unallocated()
    );
}

#[test]
fn a_drive_that_fails_to_erase_keeps_its_namespace_and_is_named() {
    let (simulated, state) = (simulated(14), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    let converger = Converger::new(host.clone());
    converger.converge(&Desired::Allocated(allocation())).unwrap();
    simulated[9].state().lose = Some((opcode::FORMAT, Lost::Before));
    let error = converger.converge(&Desired::Released(allocation().id)).unwrap_err();
    let ConvergeError::Step(failed) = &error else { panic!("{error}") };
    assert!(failed.step.to_string().contains("drive9:1"), "{error}");
    assert!(failed.source.to_string().contains("drive9:1"), "{}", failed.source);
    let kept: Vec<_> = host.unallocated().iter().map(|left| *left < 64 * MIB).collect();
    assert_eq!(kept, (0..14).map(|slot| slot == 9).collect::<Vec<_>>());
    converger.converge(&Desired::Released(allocation().id)).unwrap();
    assert_eq!(host.unallocated(), [64 * MIB; 14]);
}

/// Returns the CNTLIDs to which each namespace is attached: the rabbit has 1, and a compute has its slot number plus 2.
fn reached(simulated: &[Simulated]) -> Vec<Vec<u16>> {
    let of_drive = |drive: &Simulated| -> Vec<u16> {
        drive.state().namespaces.values().flat_map(|namespace| namespace.attached.clone()).collect()
    };
    simulated.iter().map(of_drive).collect()
}

fn allocated_to(hosts: &[(Endpoint, &str)]) -> Desired {
    let access = hosts
        .iter()
        .map(|(endpoint, name)| Access { endpoint: *endpoint, node: name.parse().unwrap() });
    Desired::Allocated(Allocation { access: access.collect(), ..allocation() })
}

#[test]
fn a_compute_that_moves_to_another_slot_has_access_only_there() {
    use Endpoint::{Compute, Rabbit};
    let (simulated, state) = (simulated(14), tempfile::tempdir().unwrap());
    let rabbit = (Rabbit, "rabbit-1");
    for (hosts, controllers) in [
        (vec![rabbit, (Compute(3), "a")], vec![1, 5]),
        (vec![rabbit, (Compute(5), "a")], vec![1, 7]),
        (vec![rabbit, (Compute(5), "a"), (Compute(3), "b")], vec![1, 5, 7]),
        // The two computes exchanged their slots: both keep their access, now under their new endpoints.
        (vec![rabbit, (Compute(3), "a"), (Compute(5), "b")], vec![1, 5, 7]),
        (vec![rabbit, (Compute(3), "a")], vec![1, 5]),
        // Only the name of the compute differs.
        (vec![rabbit, (Compute(3), "c")], vec![1, 5]),
        (vec![], vec![]),
    ] {
        let converger = Converger::new(Chassis::start(&simulated, state.path()));
        converger.converge(&allocated_to(&hosts)).unwrap();
        assert_eq!(reached(&simulated), vec![controllers; 14], "{hosts:?}");
    }
}

#[test]
fn the_former_slot_of_a_compute_loses_access_even_when_the_new_slot_cannot_get_it() {
    use Endpoint::Compute;
    let few: Vec<_> = (0..14).map(|_| Simulated::new(64 * MIB, 6)).collect();
    let state = tempfile::tempdir().unwrap();
    let converger = Converger::new(Chassis::start(&few, state.path()));
    converger.converge(&allocated_to(&[(Compute(3), "a")])).unwrap();
    assert_eq!(reached(&few), vec![vec![5]; 14]);
    converger.converge(&allocated_to(&[(Compute(9), "a")])).unwrap_err();
    assert_eq!(reached(&few), vec![Vec::<u16>::new(); 14]);
}

#[test]
fn a_record_of_a_namespace_deleted_before_a_crash_is_removed_with_its_allocation() {
    let (simulated, state) = (simulated(14), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    Converger::new(host.clone()).converge(&Desired::Allocated(allocation())).unwrap();
    let nqn = host.drives[3].0.clone();
    Admin::new(Box::new(simulated[3].clone())).delete(1).unwrap();

    let host = Chassis::start(&simulated, state.path());
    let recorded = || Ledger::open(state.path(), &nqn).unwrap().records().len();
    let lost = host.observe(&Desired::Inventory).unwrap().vanished;
    let id = NamespaceId { subsystem: nqn.clone(), nsid: 1 };
    assert_eq!(lost, [(id.clone(), NamespaceOwner::Ours(allocation().id))].into());
    let converger = Converger::new(host.clone());
    let another = AllocationId { index: 9, ..allocation().id };
    assert_eq!(converger.converge(&Desired::Released(another)).unwrap().steps, []);
    assert_eq!(recorded(), 1, "the allocation still exists");
    let steps = converger.converge(&Desired::Released(allocation().id)).unwrap().steps;
    assert!(steps.contains(&Step::DeleteNamespace { id, allocation: allocation().id }));
    assert_eq!(recorded(), 0);
    assert_eq!(host.unallocated(), [64 * MIB; 14]);
}

#[test]
fn an_allocation_on_thirteen_drives_is_rejected() {
    let (simulated, state) = (simulated(13), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    let error = Converger::new(host.clone()).converge(&Desired::Allocated(allocation()));
    let Err(ConvergeError::Rejected(refused)) = error else { panic!("{error:?}") };
    assert!(matches!(refused, Rejection::TooFewDrives { usable: 13, least: 14, .. }), "{refused}");
    assert_eq!(host.unallocated(), [64 * MIB; 13]);
}

#[test]
fn an_allocation_without_ledgers_is_adopted_from_the_status_of_its_object() {
    let (simulated, state) = (simulated(16), tempfile::tempdir().unwrap());
    let host = Chassis::start(&simulated, state.path());
    Converger::new(host.clone()).converge(&Desired::Allocated(allocation())).unwrap();
    let known = reported_allocation(&host);
    let orphan = Admin::new(Box::new(simulated[2].clone())).create(256, 1).unwrap();
    let lost = tempfile::tempdir().unwrap();
    let host = Chassis::start(&simulated, lost.path());
    let converger = Converger::new(host.clone());
    let nguids = |host: &Chassis| -> Vec<_> {
        let all = host.simulated.iter().map(|drive| drive.state().namespaces[&1].nguid);
        all.collect()
    };
    let before = nguids(&host);
    converger.converge(&Desired::Released(known.id)).unwrap();
    let steps = converger.converge(&Desired::Allocated(known.clone())).unwrap().steps;
    assert_eq!(steps.iter().filter(|step| step.kind() == "adopt-namespace").count(), 16);
    assert!(steps.iter().all(|step| step.kind() != "create-namespace"), "{steps:?}");
    assert_eq!(nguids(&host), before);
    converger.converge(&Desired::Released(known.id)).unwrap();
    let namespaces = host.observe(&Desired::Inventory).unwrap().namespaces;
    let [left] = &namespaces[..] else { panic!("{namespaces:?}") };
    assert_eq!((left.id.nsid, &left.owner), (orphan, &NamespaceOwner::Unknown));
}
