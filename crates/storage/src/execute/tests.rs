use std::{
    collections::BTreeMap,
    fmt::Write,
    io,
    sync::{Barrier, Mutex, Once},
};

use log::{
    Log, Metadata, Record,
    kv::{Key, Value, VisitSource},
};

use super::*;
use crate::{
    Desired, Observed,
    desired::{AllocationId, AllowedRoots, MountPoint, NamespaceId},
    host::ObserveError,
    observed::DeviceNumber,
};

/// The log: one line per record, with its key-values.
static LINES: Mutex<Vec<(String, BTreeMap<String, String>)>> = Mutex::new(Vec::new());

struct Capture;

struct Pairs(BTreeMap<String, String>);

impl<'kv> VisitSource<'kv> for Pairs {
    fn visit_pair(&mut self, key: Key<'kv>, value: Value<'kv>) -> Result<(), log::kv::Error> {
        self.0.insert(key.to_string(), value.to_string());
        Ok(())
    }
}

impl Log for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut pairs = Pairs(BTreeMap::new());
        record.key_values().visit(&mut pairs).unwrap();
        let mut text = String::new();
        write!(text, "{} {}", record.target(), record.args()).unwrap();
        LINES.lock().unwrap().push((text, pairs.0));
    }

    fn flush(&self) {}
}

fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Capture).unwrap();
        log::set_max_level(log::LevelFilter::Info);
    });
}

/// Refuses to unmount paths that contain "busy".
#[derive(Debug)]
struct Picky;

impl Host for Picky {
    fn observe(&self, _: &Desired) -> Result<Observed, ObserveError> {
        Ok(Observed::default())
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::Unmount { target, .. } if target.to_string().contains("busy") => {
                Err(StepError::System {
                    call: "umount(2)",
                    target: target.to_string(),
                    source: io::Error::from_raw_os_error(crate::fake::errno::EBUSY),
                })
            }
            _ => Ok(()),
        }
    }
}

fn point(name: &str) -> MountPoint {
    let roots = AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    MountPoint::parse(&format!("/mnt/nnf/{name}"), &roots).unwrap()
}

fn take_away(names: &[&str]) -> Vec<Step> {
    let both = |name: &&str| {
        let (target, device) = (point(name), DeviceNumber { major: 7, minor: 1 });
        let line = target.to_string();
        [Step::Unmount { target: target.clone(), device, line }, Step::RemoveMountPoint { target }]
    };
    names.iter().flat_map(both).collect()
}

#[test]
fn execute_each_continues_after_a_failure_and_returns_all_failures() {
    let steps = take_away(&["a", "busy-1", "b", "busy-2", "c"]);
    let mut done = Vec::new();
    let error = execute_each(&Picky, steps, &mut done).unwrap_err();
    assert_eq!(done, take_away(&["a", "b", "c"]));
    assert_eq!(*error.step, take_away(&["busy-1"])[0]);
    let others = "other steps failed too (unmount /mnt/nnf/busy-2: /mnt/nnf/busy-2: umount(2) /mnt/nnf/busy-2: \
                  Device or resource busy (os error 16))";
    assert_eq!(error.source.to_string(), others);
    let StepError::Several { first, .. } = error.source else { panic!("{}", error.source) };
    assert_eq!(first.to_string(), "umount(2) /mnt/nnf/busy-1");

    let alone = execute_each(&Picky, take_away(&["busy-1", "a"]), &mut Vec::new()).unwrap_err();
    assert!(matches!(alone.source, StepError::System { .. }), "{}", alone.source);
}

#[test]
fn execute_stops_at_the_first_failure() {
    let mut done = Vec::new();
    execute(&Picky, take_away(&["a", "busy-1", "b"]), &mut done).unwrap_err();
    assert_eq!(done, take_away(&["a"]));
}

#[test]
fn a_step_is_logged_once_in_one_line() {
    capture();
    execute(&Picky, take_away(&["logged"]), &mut Vec::new()).unwrap();
    let lines = LINES.lock().unwrap();
    let ours: Vec<_> = lines.iter().filter(|(_, pairs)| pairs["on"].contains("logged")).collect();
    let [unmount, remove] = ours[..] else { panic!("{lines:?}") };
    assert_eq!(unmount.0, "storage::execute unmount /mnt/nnf/logged: /mnt/nnf/logged");
    assert_eq!(remove.0, "storage::execute remove mount point /mnt/nnf/logged");
    assert_eq!(unmount.1.keys().collect::<Vec<_>>(), ["kind", "on", "seconds"]);
    assert_eq!((&*unmount.1["kind"], &*remove.1["kind"]), ("unmount", "remove-mount-point"));
}

#[test]
fn the_error_of_a_failed_command_quotes_its_line_once() {
    let step = Step::RunHook {
        id: crate::desired::HookId {
            scope: crate::desired::HookScope::mount(
                "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap(),
                &point("flagged"),
            ),
            phase: crate::desired::HookPoint::PostMount,
            index: 0,
        },
        line: "touch /flag".to_owned(),
    };
    let failed = causes::CommandError::Failed {
        command: "touch /flag".to_owned(),
        status: "exit status: 1".to_owned(),
        stderr: "no".to_owned(),
    };
    let error = ExecuteError { step: Box::new(step), source: StepError::Command(failed) };
    let chain = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert_eq!(chain, "run hook postMount[0]: touch /flag: exit status: 1: no");
}

/// Lets no deletion end before all deletions have begun; refuses the steps on two namespaces.
#[derive(Debug)]
struct Meeting(Barrier);

impl Host for Meeting {
    fn observe(&self, _: &Desired) -> Result<Observed, ObserveError> {
        Ok(Observed::default())
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        if let Step::DeleteNamespace { .. } = step {
            self.0.wait();
        }
        match step.on().to_string() {
            text if text.ends_with("drive-1:1") => Err(StepError::Changed("faster".to_owned())),
            text if text.ends_with("drive-3:1") => Err(StepError::System {
                call: "erase",
                target: text,
                source: io::Error::from_raw_os_error(crate::fake::errno::EIO),
            }),
            _ => Ok(()),
        }
    }
}

fn of_drive(drive: u32, nsid: u32) -> NamespaceId {
    NamespaceId { subsystem: format!("nqn.2026-01.io.warren:drive-{drive}").parse().unwrap(), nsid }
}

fn delete(drive: u32, nsid: u32) -> Step {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
    Step::DeleteNamespace {
        id: of_drive(drive, nsid),
        allocation: AllocationId { owner, index: 0 },
    }
}

fn detach(drive: u32) -> Step {
    Step::Detach { id: of_drive(drive, 1), node: "compute-1".parse().unwrap() }
}

#[test]
fn execute_runs_steps_of_one_kind_in_parallel_per_drive_and_in_order_on_each_drive() {
    let host = Meeting(Barrier::new(4));
    let steps = [0, 2, 4, 5].map(|drive| delete(drive, 1)).to_vec();
    let mut done = Vec::new();
    execute(&host, steps.clone(), &mut done).unwrap();
    assert_eq!(done, steps);
    let ordered = vec![detach(0), detach(2), detach(0), detach(4)];
    let mut done = Vec::new();
    execute(&host, ordered.clone(), &mut done).unwrap();
    assert_eq!(done, [detach(0), detach(0), detach(2), detach(4)]);
}

#[test]
fn execute_skips_later_steps_of_a_drive_after_its_failure_and_returns_the_failures_of_all_drives() {
    let host = Meeting(Barrier::new(4));
    let steps = vec![delete(0, 1), delete(1, 1), delete(2, 1), delete(3, 1), delete(3, 2)];
    let mut done = Vec::new();
    let error = execute(&host, [steps, vec![detach(0)]].concat(), &mut done).unwrap_err();
    assert_eq!(done, [delete(0, 1), delete(2, 1)], "the following steps do not start");
    assert_eq!(*error.step, delete(3, 1), "an error other than `Changed` comes first");
    let StepError::Several { first, others } = &error.source else { panic!("{error:?}") };
    assert!(first.to_string().contains("erase nqn.2026-01.io.warren:drive-3:1"), "{first}");
    assert_eq!(others.len(), 1);
    let alone = execute(&Meeting(Barrier::new(1)), vec![delete(1, 1)], &mut Vec::new());
    assert!(matches!(alone.unwrap_err().source, StepError::Changed(_)));
}

#[test]
fn execute_does_not_start_deletions_after_a_detachment_failed() {
    let mut done = Vec::new();
    let steps = vec![detach(0), detach(3), delete(0, 1), delete(2, 1)];
    execute(&Meeting(Barrier::new(1)), steps, &mut done).unwrap_err();
    assert_eq!(done, [detach(0)]);
}
