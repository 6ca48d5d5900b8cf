//! Tests drives behind simulated switches: how drives are found and brought up, which hosts have access, and refusals.

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use drives::{
    Drives, NvmeConfig, NvmeDrives, Switches,
    nvme::{
        PhysicalFunction,
        admin::Admin,
        fake::{Down, Lost, Simulated},
    },
};
use storage::{
    Converged, Converger, Desired, Host, Observed, Step,
    desired::{Access, AllocationId, Endpoint, NamespaceId, NodeName, Nqn},
    host::{ObserveError, StepError},
    observed::{LinkEnd, LinkState, Namespace, NamespaceOwner},
    plan::{bring_up, prepare},
};

use super::{
    behind::Pace,
    command::Command,
    fabric::{Fabric, Found},
    fake::{Chassis, Drive, Opens, PATIENCE},
    record::{Recorded, replay::Replayed},
    switch::Switch,
    topology::{Port, Seat, seat, slots},
    transport::Devices,
    tunnel::Tunnel,
};

mod recorded;
mod tunnel;

const MIB: u64 = 1 << 20;
const EAGER: Pace = Pace { tunnel: PATIENCE, reset: Duration::ZERO, fresh: Duration::ZERO };

fn nqn(index: u8) -> Nqn {
    format!("nqn.2019-08.org.qemu:drive{index}").parse().unwrap()
}

fn drive(index: u8, functions: u16) -> Simulated {
    let drive = Simulated::new(64 * MIB, functions);
    drive.state().nqn = nqn(index).to_string();
    drive
}

/// Returns a chassis with fault-free drives in these slots.
fn chassis(indexes: &[u8]) -> (Chassis, BTreeMap<u8, Simulated>) {
    let chassis = Chassis::new();
    let drives: BTreeMap<_, _> = indexes.iter().map(|index| (*index, drive(*index, 17))).collect();
    for (index, drive) in &drives {
        chassis.plug(*index, drive);
    }
    (chassis, drives)
}

fn fabric(chassis: &Chassis) -> Fabric {
    Fabric::over(Arc::new(chassis.clone()), EAGER)
}

fn places(found: &[Found]) -> Vec<(u8, String)> {
    found.iter().map(|drive| (drive.behind.slot.index, drive.nqn.to_string())).collect()
}

fn ready(found: &Found) -> Result<(), String> {
    let admin = found.behind.admin();
    let functions = found.behind.functions(&found.nqn, &admin)?;
    let mut actions = bring_up(&functions).into_iter();
    actions.try_for_each(|action| found.behind.change(&action, &found.nqn, &admin))
}

/// Returns the port of the drive in the slot with this index.
fn at(index: u8) -> Port {
    slots(index / 9)[usize::from(index % 9)].at
}

#[test]
fn drives_are_found_in_the_same_slots_after_the_switches_device_names_changed() {
    let (chassis, _) = chassis(&[0, 8, 9, 17]);
    let before = places(&fabric(&chassis).found());
    let expected: Vec<_> = [0, 8, 9, 17].map(|index| (index, nqn(index).to_string())).into();
    assert_eq!(before, expected);
    chassis.state().devices = [("switchtec0".to_owned(), 1), ("switchtec7".to_owned(), 0)].into();
    assert_eq!(places(&fabric(&chassis).found()), expected, "the device numbers changed");
}

#[test]
fn drives_stay_known_while_their_switches_are_silent_or_return_under_other_device_names() {
    let (chassis, _) = chassis(&[0, 9]);
    let fabric = fabric(&chassis);
    assert_eq!(fabric.found().len(), 2);
    chassis.state().silent = [0, 1].into();
    assert_eq!(fabric.found().len(), 2, "a silent switch does not prove that its drives are gone");
    chassis.state().devices = [("switchtec2".to_owned(), 1), ("switchtec3".to_owned(), 0)].into();
    chassis.state().silent.clear();
    for found in fabric.found() {
        ready(&found).unwrap();
    }
}

#[test]
fn switches_stay_present_after_a_switch_was_seen_once() {
    let (chassis, _) = chassis(&[]);
    let fabric = fabric(&chassis);
    let devices = std::mem::take(&mut chassis.state().devices);
    assert!(!fabric.are_present().unwrap());
    chassis.state().devices = devices;
    assert!(fabric.are_present().unwrap());
    chassis.state().devices.clear();
    assert!(
        fabric.are_present().unwrap(),
        "without its switches, the virtual functions do not count as drives"
    );
}

#[test]
fn a_tunnel_that_never_opens_times_out() {
    let (chassis, _) = chassis(&[0, 1]);
    chassis.with(at(0), |drive| drive.tunnel = Opens::Never);
    let devices: Arc<dyn Devices> = Arc::new(chassis.clone());
    let patience = PATIENCE;
    let tunnel = Tunnel::new(Arc::new(Switch::new(0, devices)), 0x1000, patience);
    let error = Admin::new(Box::new(tunnel)).controller().unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains("PAX 0 did not open its tunnel to function 1000h"), "{text}");
    assert_eq!(
        chassis.count(Command::Tunnel),
        1 + 1 + 3,
        "one status read, the request to open the tunnel, three status reads"
    );
    let fabric = fabric(&chassis);
    assert_eq!(
        places(&fabric.found()),
        [(1, nqn(1).to_string())],
        "the other drive continues to work"
    );
    let count = chassis.count(Command::Tunnel);
    assert_eq!(fabric.found().len(), 1);
    let again = chassis.count(Command::Tunnel) - count;
    assert_eq!(
        again,
        (1 + 1 + 1) + 1,
        "only one observation waited for the tunnel, and the other tunnel is open"
    );
}

#[test]
fn reset_through_a_tunnel_always_fails() {
    let error = super::fake::tunnel_to(&drive(0, 17)).reset().unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("not reset"), "{why}");
}

#[test]
fn every_function_is_brought_online_and_bound_to_its_host() {
    let (chassis, drives) = chassis(&[12]);
    let down = (1..=17).map(|number| (number, Down { stuck: true, ..Down::default() }));
    drives[&12].state().down = down.collect();
    let found = fabric(&chassis).found().remove(0);
    ready(&found).unwrap();
    assert!(drives[&12].state().down.is_empty());
    let (bound, resets) = chassis.with(at(12), |drive| (drive.bound.clone(), drive.resets.clone()));
    assert_eq!(
        resets,
        (0x1c01..=0x1c11).collect::<Vec<_>>(),
        "each virtual function once, and not the physical function"
    );
    let slot = slots(1)[3];
    for (endpoint, pdfid) in super::topology::hosts().zip(0x1c01..) {
        assert_eq!(bound.get(&pdfid), seat(endpoint, &slot).as_ref(), "{endpoint:?}");
    }
    let count = chassis.count(Command::Bind);
    ready(&found).unwrap();
    assert_eq!(chassis.count(Command::Bind), count, "bound functions are not bound again");
    assert_eq!(chassis.with(at(12), |drive| drive.resets.len()), 17);
}

#[test]
fn preset_functions_get_neither_a_reset_nor_resources() {
    let (chassis, drives) = chassis(&[0]);
    let kioxia = "nqn.2019-10.com.kioxia:KCM7XRJE1T92:Z2L0A00PT1K8";
    drives[&0].state().nqn = kioxia.to_owned();
    let preset = Down { queues: 4, interrupts: 4, stuck: false };
    drives[&0].state().down = [(3, preset)].into();
    ready(&fabric(&chassis).found().remove(0)).unwrap();
    assert!(drives[&0].state().down.is_empty());
    assert!(chassis.with(at(0), |drive| drive.resets.is_empty()));
    assert_eq!(chassis.count(Command::Register), 0);
}

#[test]
fn a_drive_with_too_few_functions_is_faulty_and_gets_no_bindings() {
    for (functions, text) in [(0, "shows no virtual functions"), (16, "shows 16 virtual functions")]
    {
        let (chassis, _) = chassis(&[]);
        chassis.plug(0, &drive(0, functions));
        let why = ready(&fabric(&chassis).found().remove(0)).unwrap_err();
        assert!(why.contains(text) && why.contains("slot 8"), "{why}");
        assert_eq!(chassis.count(Command::Bind), 0);
    }
}

#[test]
fn a_function_bound_to_another_host_makes_its_drive_faulty() {
    let (chassis, drives) = chassis(&[0]);
    drives[&0].state().down = [(4, Down::default())].into();
    let stolen = Seat { host: Port { pax: 0, port: 42 }, logical: 0 };
    chassis.with(at(0), |drive| drive.bound.insert(0x1002, stolen));
    let fabric = fabric(&chassis);
    let why = ready(&fabric.found()[0]).unwrap_err();
    assert!(why.contains("function 2, of compute 0, bound to compute 5"), "{why}");
    assert_eq!((chassis.count(Command::Bind), chassis.count(Command::Register)), (0, 0));
    assert_eq!(drives[&0].state().down.len(), 1, "the drive did not change");
    // An admin unbinds the function.
    chassis.with(at(0), |drive| drive.bound.clear());
    ready(&fabric.found()[0]).unwrap();
    assert_eq!(chassis.with(at(0), |drive| drive.bound.len()), 17);
}

#[test]
fn a_drive_whose_link_drops_is_absent_and_is_brought_up_again_after_its_return() {
    let (chassis, _) = chassis(&[0, 1]);
    let fabric = fabric(&chassis);
    let before = fabric.found();
    chassis.state().links.insert(at(0), (0x0100, 0, 0));
    assert_eq!(places(&fabric.found()), [(1, nqn(1).to_string())]);
    let links = fabric.links();
    let state_of = |index| {
        let is_it =
            |end: &LinkEnd| matches!(end, LinkEnd::Drive { index: slot, .. } if *slot == index);
        links.iter().find(|link| is_it(&link.end)).unwrap().state.clone()
    };
    assert_eq!((state_of(0), state_of(1)), (LinkState::Down, LinkState::Up));
    chassis.state().links.clear();
    let after = fabric.found();
    assert_eq!(places(&after), places(&before));
    assert!(
        after[0].behind.generation() != before[0].behind.generation(),
        "the drive must be brought up again"
    );
    assert!(
        after[1].behind.generation() == before[1].behind.generation(),
        "the other drive must not be brought up again"
    );
}

#[test]
fn a_drive_whose_functions_were_unbound_is_brought_up_again() {
    let (chassis, _) = chassis(&[0]);
    let fabric = fabric(&chassis);
    ready(&fabric.found()[0]).unwrap();
    let before = fabric.found().remove(0);
    assert!(fabric.found()[0].behind.generation() == before.behind.generation());
    chassis.with(at(0), |drive| drive.bound.clear());
    assert!(fabric.found()[0].behind.generation() != before.behind.generation());
}

#[test]
fn functions_that_go_offline_are_brought_up_again() {
    let (chassis, drives) = chassis(&[0]);
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    assert_eq!(rabbit.faults(), [None]);
    drives[&0].state().down.insert(2, Down::default());
    assert_eq!(rabbit.faults(), [None]);
    assert!(drives[&0].state().down.is_empty());
}

#[test]
fn an_observation_changes_neither_the_drives_nor_the_switches() {
    let (chassis, drives) = chassis(&[0, 9]);
    for drive in drives.values() {
        let mut state = drive.state();
        state.down = (1..=17).map(|number| (number, Down::default())).collect();
        state.refuses_changes = true;
    }
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    let files = || std::fs::read_dir(state.path().join("drives")).unwrap().count();
    let before = files();
    let observed = rabbit.drives.inventory().unwrap();
    assert!(observed.drives.iter().all(|drive| drive.fault.is_none()), "{:?}", observed.drives);
    assert_eq!(files(), before, "no ledger was written");
    assert_eq!(chassis.count(Command::Bind) + chassis.count(Command::Register), 0);
    let steps = prepare(&Desired::Inventory, &observed);
    let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
    let steps_of = |nqn: Nqn| {
        [
            format!("bring online virtual functions 1-17 of drive {nqn}"),
            format!("bind 17 virtual functions to their hosts of drive {nqn}"),
        ]
    };
    assert_eq!(steps, [steps_of(nqn(0)), steps_of(nqn(9))].concat());

    drives[&9].state().refuses_changes = false;
    let prepared = rabbit.prepare();
    assert_eq!(prepared.steps.len(), 2, "{:?}", prepared.steps);
    let faults: Vec<_> = prepared.observed.drives.into_iter().map(|drive| drive.fault).collect();
    let [Some(fault), None] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.starts_with("bring online virtual functions 1-17 of drive"), "{fault}");
    assert!(rabbit.prepare().steps.is_empty(), "a drive that is ready needs no more steps");
}

#[test]
fn a_drive_counts_as_replaced_only_after_all_plugged_in_drives_reported_their_nqns() {
    let (chassis, drives) = chassis(&[0]);
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    create(&rabbit, 0).unwrap();
    rabbit.faults();
    chassis.plug(0, &drive(1, 17));
    chassis.plug(1, &drives[&0]);
    chassis.with(at(1), |drive| drive.tunnel = Opens::Never);
    let inventory = rabbit.drives.inventory().unwrap();
    assert!(inventory.replaced.is_empty());
    let fault = inventory.drives.iter().find_map(|drive| drive.fault.clone()).unwrap();
    assert!(fault.contains("the drive in slot 7 has not reported its NQN"), "{fault}");
    chassis.with(at(1), |drive| drive.tunnel = Opens::Open);
    assert_eq!(rabbit.faults(), [None, None]);
    chassis.plug(1, &drive(2, 17));
    assert_eq!(rabbit.drives.inventory().unwrap().replaced, [nqn(0)].into());
}

#[test]
fn a_new_drive_in_a_slot_is_found_with_its_own_nqn() {
    let (chassis, _) = chassis(&[0]);
    let fabric = fabric(&chassis);
    let before = fabric.found().remove(0);
    chassis.plug(0, &drive(5, 17));
    let after = fabric.found().remove(0);
    assert_eq!(after.nqn, nqn(5));
    assert!(after.behind.generation() != before.behind.generation());
}

#[test]
fn a_lost_or_slow_link_is_reported_with_its_compute() {
    let (chassis, _) = chassis(&[]);
    chassis.state().links.insert(Port { pax: 1, port: 34 }, (0x0000, 0, 0));
    chassis.state().links.insert(Port { pax: 0, port: 46 }, (0x0003, 2, 4));
    let links = fabric(&chassis).links();
    assert_eq!(links.len(), 38);
    let link_of =
        |k| links.iter().find(|link| link.end == LinkEnd::Host(Endpoint::Compute(k))).unwrap();
    assert_eq!(link_of(9).state, LinkState::Down);
    assert_eq!((link_of(7).width.now, link_of(7).width.full), (2, 4));
    let well = (0..16).filter(|k| link_of(*k).state == LinkState::Up && link_of(*k).width.now == 4);
    assert_eq!(well.count(), 14);
}

#[test]
fn known_drives_are_listed_without_waiting_for_a_busy_switch() {
    let (chassis, _) = chassis(&[0]);
    let fabric = fabric(&chassis);
    let before = fabric.found();
    let switch = Arc::clone(&before[0].behind.switches[0]);
    let _format_takes_minutes = switch.lock().unwrap();
    let count = chassis.state().said.iter().filter(|(pax, _)| *pax == 0).count();
    assert_eq!(places(&fabric.found()), places(&before));
    assert_eq!(chassis.state().said.iter().filter(|(pax, _)| *pax == 0).count(), count);
}

/// An agent of a simulated chassis.
struct Rabbit {
    drives: Arc<NvmeDrives>,
    _sysfs: tempfile::TempDir,
}

/// A host that has only drives.
#[derive(Debug)]
struct OnlyDrives(Arc<NvmeDrives>);

impl Host for OnlyDrives {
    fn observe(&self, _: &Desired) -> Result<Observed, ObserveError> {
        self.0.inventory()
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.0.apply(step)
    }
}

impl Rabbit {
    fn start(chassis: &Chassis, state: &Path) -> Self {
        let (node, long) = ("rabbit-1".parse().unwrap(), Duration::from_secs(60));
        let sysfs = tempfile::tempdir().unwrap();
        let config = NvmeConfig {
            node,
            models: Vec::new(),
            switches: Some(Arc::new(fabric(chassis))),
            ledgers: state.join("drives"),
            sysfs: sysfs.path().to_owned(),
            look: long,
            change: long,
        };
        Self { drives: Arc::new(NvmeDrives::open(config).unwrap()), _sysfs: sysfs }
    }

    /// Makes the drives ready; returns the steps and the last observation.
    fn prepare(&self) -> Converged {
        let host = Arc::new(OnlyDrives(Arc::clone(&self.drives)));
        Converger::new(host).converge(&Desired::Inventory).unwrap()
    }

    fn faults(&self) -> Vec<Option<String>> {
        self.prepare().observed.drives.into_iter().map(|drive| drive.fault).collect()
    }
}

fn allocation(index: u32) -> AllocationId {
    AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index }
}

fn attach(id: &NamespaceId, endpoint: Endpoint, node: &NodeName) -> Step {
    Step::Attach { id: id.clone(), endpoint, node: node.clone() }
}

fn delete(rabbit: &Rabbit, id: &NamespaceId, index: u32) -> Result<(), StepError> {
    let (id, allocation) = (id.clone(), allocation(index));
    rabbit.drives.apply(&Step::EraseNamespace { id: id.clone(), allocation })?;
    rabbit.drives.apply(&Step::DeleteNamespace { id, allocation })
}

fn create(rabbit: &Rabbit, index: u8) -> Result<(), String> {
    let created = rabbit.drives.apply(&Step::CreateNamespace {
        allocation: allocation(index.into()),
        drive: nqn(index),
        size: 8 * MIB,
        members: 1,
    });
    created.map_err(|error| error.to_string())
}

#[test]
fn an_allocation_is_created_attached_and_deleted_behind_the_switches() {
    let (chassis, drives) = chassis(&[2, 11]);
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    assert_eq!(rabbit.faults(), [None, None]);
    let found_drives = rabbit.drives.inventory().unwrap().drives;
    let mut places: Vec<_> = found_drives.iter().map(|drive| (drive.slot, &*drive.label)).collect();
    places.sort_unstable();
    assert_eq!(places, [(2, "15"), (11, "6")], "the label is the printed slot number");
    let compute: NodeName = "compute-10".parse().unwrap();
    for index in [2, 11] {
        create(&rabbit, index).unwrap();
        let id = NamespaceId { subsystem: nqn(index), nsid: 1 };
        rabbit.drives.apply(&attach(&id, Endpoint::Compute(9), &compute)).unwrap();
        assert_eq!(drives[&index].state().namespaces[&1].attached, [11].into());
        let bound = chassis.with(at(index), |drive| drive.bound[&(drive.physical + 11)]);
        assert_eq!(
            bound,
            Seat { host: Port { pax: 1, port: 34 }, logical: index },
            "the port of compute 9"
        );
    }
    chassis.with(at(2), |drive| drive.bound.remove(&(drive.physical + 2)));
    let id = NamespaceId { subsystem: nqn(2), nsid: 1 };
    let other =
        rabbit.drives.apply(&attach(&id, Endpoint::Compute(0), &"compute-1".parse().unwrap()));
    assert!(other.is_err(), "the namespace would reach the next host of the function");
    assert_eq!(drives[&2].state().namespaces[&1].attached, [11].into());
    drop(rabbit);
    let rabbit = Rabbit::start(&chassis, state.path());
    let inventory = rabbit.drives.inventory().unwrap();
    assert_eq!(inventory.drives.iter().map(|drive| drive.slot).collect::<Vec<_>>(), [11, 2]);
    let owners: Vec<_> =
        inventory.namespaces.iter().map(|namespace| namespace.owner.clone()).collect();
    assert_eq!(owners, [11, 2].map(|index| NamespaceOwner::Ours(allocation(index))));
    let reached = Access { endpoint: Endpoint::Compute(9), node: compute.clone() };
    let is_given = |namespace: &Namespace| namespace.access == [reached.clone().into()].into();
    assert!(inventory.namespaces.iter().all(is_given));
    for index in [2, 11] {
        let id = NamespaceId { subsystem: nqn(index), nsid: 1 };
        rabbit.drives.apply(&Step::Detach { id: id.clone(), node: compute.clone() }).unwrap();
        delete(&rabbit, &id, index.into()).unwrap();
        assert_eq!(drives[&index].state().unallocated(), 64 * MIB);
    }
    assert!(rabbit.drives.inventory().unwrap().namespaces.is_empty());
}

#[test]
fn a_namespace_whose_creation_answer_was_lost_in_the_switch_is_found_and_deleted() {
    for lost in [Lost::Before, Lost::After] {
        let (chassis, drives) = chassis(&[0]);
        let state = tempfile::tempdir().unwrap();
        let rabbit = Rabbit::start(&chassis, state.path());
        drives[&0].state().lose = Some((0x0d, lost));
        create(&rabbit, 0).unwrap_err();
        let inventory = rabbit.drives.inventory().unwrap();
        for namespace in &inventory.namespaces {
            assert_eq!(namespace.owner, NamespaceOwner::Partial(allocation(0)), "{lost:?}");
            delete(&rabbit, &namespace.id, 0).unwrap();
        }
        create(&rabbit, 0).unwrap();
        assert_eq!(drives[&0].state().unallocated(), 56 * MIB, "{lost:?}");
    }
}

#[test]
fn namespaces_behind_a_silent_switch_stay_listed_and_drives_behind_the_other_switch_work() {
    let (chassis, drives) = chassis(&[0, 9]);
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    rabbit.faults();
    create(&rabbit, 0).unwrap();
    chassis.state().silent = [0].into();
    let [Some(fault), None] = &rabbit.faults()[..] else { panic!("{:?}", rabbit.faults()) };
    assert!(fault.contains("no /dev/switchtec* answers as PAX 0"), "{fault}");
    let inventory = rabbit.drives.inventory().unwrap();
    assert_eq!(
        inventory.namespaces.len(),
        1,
        "the namespace is still listed, because its state is unknown"
    );
    assert!(create(&rabbit, 0).unwrap_err().contains("create namespace"));
    create(&rabbit, 9).unwrap();
    let links = rabbit.drives.links().unwrap();
    let unknown = |link: &&storage::observed::PortLink| matches!(link.state, LinkState::Unknown(_));
    assert_eq!(links.iter().filter(unknown).count(), 19);
    chassis.state().silent.clear();
    assert_eq!(rabbit.faults(), [None, None], "the drive recovers without help");
    assert_eq!(drives[&0].state().namespaces.len(), 1);
}

#[test]
fn a_drive_bound_to_the_wrong_host_is_faulty_and_gets_no_namespace() {
    let (chassis, drives) = chassis(&[0]);
    chassis.with(at(0), |drive: &mut Drive| {
        drive.bound.insert(0x1001, Seat { host: Port { pax: 1, port: 24 }, logical: 0 })
    });
    let state = tempfile::tempdir().unwrap();
    let rabbit = Rabbit::start(&chassis, state.path());
    let [Some(fault)] = &rabbit.faults()[..] else { panic!() };
    assert!(fault.contains("function 1, of the rabbit, bound to the rabbit (PAX 1"), "{fault}");
    assert!(drives[&0].state().namespaces.is_empty());
}
