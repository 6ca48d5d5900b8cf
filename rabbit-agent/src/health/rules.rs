//! Applies the rules of health checks, one function per subject. Does no I/O.
//!
//! Each rule is applied with two sets of thresholds: one set beyond which a condition begins, and one set short of
//! which the condition ends.

mod drive;
mod mounted;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use storage::{
    Observed,
    desired::{NodeName, ObjectUid},
    health::{Facts, Link, Load, Memory, Pressure},
};

pub(super) use self::drive::temperature;
use super::{
    condition::{Finding, Kind, Severity, Subject},
    judge::Known,
};

/// The facts that one check read; a check may read only some kinds of facts.
#[derive(Debug, Clone, Copy)]
pub struct CheckFacts<'a> {
    /// Computes in the SystemConfiguration, by slot.
    pub computes: &'a BTreeMap<u8, NodeName>,
    /// Links to computes, by slot; `None` if the check did not read them.
    pub links: Option<&'a BTreeMap<u8, Link>>,
    /// Facts of the node; `None` if the check did not read them.
    pub facts: Option<&'a Facts>,
    pub drives: DrivesRead<'a>,
    /// Uids of all NnfNodeBlockStorages of the rabbit; `None` if the check does not need them.
    pub block_storage_uids: Option<&'a BTreeSet<ObjectUid>>,
}

#[derive(Debug, Clone, Copy)]
pub enum DrivesRead<'a> {
    /// The check did not read the drives.
    NotRead,
    /// The drives could not be read.
    Failed,
    Complete {
        observed: &'a Observed,
        /// Namespaces of Warren's that belong to no NnfNodeBlockStorage.
        unclaimed: &'a [String],
        /// Namespaces that an object's status names but no drive has; each text also names the object.
        lost: &'a [String],
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    pub(super) degrees: i64,
    /// Percentage points by which the spare blocks must exceed the drive's own threshold.
    pub(super) spare: u8,
    /// Percentage of memory that must be available.
    memory: u64,
    /// Share of the last minute in which every task waited for memory, in hundredths of a percent.
    pressure: u64,
    /// Load per processor, in hundredths of a task.
    load: u64,
}

/// Thresholds beyond which a condition begins.
pub(super) const ENTER: Thresholds =
    Thresholds { degrees: 0, spare: 0, memory: 5, pressure: 1000, load: 400 };
/// Thresholds short of which a condition ends.
pub(super) const LEAVE: Thresholds =
    Thresholds { degrees: 5, spare: 2, memory: 8, pressure: 500, load: 300 };

pub(super) type Findings = BTreeMap<(Subject, Kind), Finding>;

pub(super) fn findings(check: &CheckFacts<'_>, known: &Known, at: Thresholds) -> Findings {
    let mut found = Findings::new();
    computes(check, &mut found);
    if let Some(facts) = check.facts {
        node(facts, at, &mut found);
        mounted::file_systems(facts, known, &mut found);
        mounted::groups(facts, &mut found);
        if let Some(block_storage_uids) = check.block_storage_uids {
            mounted::unclaimed(facts, block_storage_uids, &mut found);
        }
    }
    match check.drives {
        DrivesRead::NotRead => {}
        DrivesRead::Failed => add_finding(
            &mut found,
            &Subject::Rabbit,
            Kind::DrivesUnreadable,
            Severity::Critical,
            &"the drives cannot be queried: see the log of rabbit-agent",
        ),
        DrivesRead::Complete { observed, unclaimed: strays, lost: gone } => {
            for drive in &observed.drives {
                drive::drive(
                    drive,
                    observed.smart.get(&drive.nqn),
                    check.facts,
                    known,
                    at,
                    &mut found,
                );
            }
            no_drive(observed, &mut found);
            unclaimed(strays, &mut found);
            add_lost(gone, known, &mut found);
        }
    }
    found
}

pub(super) fn add_finding(
    found: &mut Findings,
    subject: &Subject,
    kind: Kind,
    severity: Severity,
    text: &dyn Display,
) {
    found.insert((subject.clone(), kind), Finding { severity, text: text.to_string() });
}

fn computes(check: &CheckFacts<'_>, found: &mut Findings) {
    let links = check.links.into_iter().flatten();
    for (slot, link) in links {
        let Some(name) = check.computes.get(slot) else { continue };
        let subject = Subject::Compute(*slot);
        let text = format!("{name} (index {slot})");
        match link {
            Link::Down => {
                let text = format!(
                    "{text}: its PCIe link is down: power it on, or check its cable and the port"
                );
                add_finding(found, &subject, Kind::LinkLost, Severity::Critical, &text);
            }
            Link::Unread(why) => add_finding(
                found,
                &Subject::Compute(*slot),
                Kind::Unreadable,
                Severity::Warning,
                &format!("{text}: its PCIe link cannot be queried: {why}"),
            ),
            up @ Link::Up { .. } => check_link_rate(&subject, &text, up, found),
        }
    }
}

/// Adds a finding for a link that runs below the speed or width that both of its ends support.
pub(super) fn check_link_rate(subject: &Subject, name: &str, link: &Link, found: &mut Findings) {
    let Link::Up { current: Some(current), most: Some(most) } = link else { return };
    if current.is_less_than(*most) {
        let text = format!(
            "{name}: its PCIe link runs at {current}, and both ends support {most}: reseat it, or check its cable and the port"
        );
        add_finding(found, subject, Kind::LinkDegraded, Severity::Warning, &text);
    }
}

fn node(facts: &Facts, at: Thresholds, found: &mut Findings) {
    let mut warn =
        |kind, text: String| add_finding(found, &Subject::Rabbit, kind, Severity::Warning, &text);
    if !facts.unread.is_empty() {
        warn(
            Kind::Unreadable,
            format!("the check could not read everything: {}", facts.unread.join("; ")),
        );
    }
    if let Some(Memory { total, available }) = facts.memory
        && available.saturating_mul(100) < total.saturating_mul(at.memory)
    {
        warn(
            Kind::Memory,
            format!(
                "memory: {} MiB of {} MiB are available, less than {} %: see what uses it with ps --sort=-rss",
                available >> 20,
                total >> 20,
                at.memory
            ),
        );
    }
    if let Some(Pressure { memory }) = facts.pressure
        && memory >= at.pressure
    {
        warn(
            Kind::Pressure,
            format!(
                "memory: all tasks waited for memory in {} % of the last minute, {} % or more is too much: see what uses it with ps --sort=-rss",
                memory / 100,
                at.pressure / 100
            ),
        );
    }
    if let Some(Load { hundredths, processors }) = facts.load
        && hundredths >= at.load.saturating_mul(processors)
    {
        warn(
            Kind::Load,
            format!(
                "load: {} tasks ran or hung in the last five minutes, {} or more are too many for {processors} processors: see which with ps -eo stat,pid,wchan,args",
                hundredths / 100,
                at.load.saturating_mul(processors) / 100
            ),
        );
    }
}

fn no_drive(observed: &Observed, found: &mut Findings) {
    if observed.drives.iter().all(|drive| drive.capacity == 0) {
        let text = "no drive is usable: check the drives of this node and --drive-model, or name a pool with --file-pool";
        add_finding(found, &Subject::Rabbit, Kind::NoDrive, Severity::Critical, &text);
    }
}

/// Maximum number of names in a text: as many names as fit one line of a table.
const MAX_NAMES: usize = 8;

fn unclaimed(strays: &[String], found: &mut Findings) {
    if strays.is_empty() {
        return;
    }
    let text = format!(
        "{} namespaces belong to no NnfNodeBlockStorage and are never deleted by the agent; delete them by hand if their data is not needed: {}",
        strays.len(),
        join_some(strays, ", ")
    );
    add_finding(found, &Subject::Rabbit, Kind::Unclaimed, Severity::Warning, &text);
}

/// Adds a finding for namespaces that two checks in a row did not find. A single check does not suffice: while it ran,
/// the object that owns the namespaces may have been deleted.
fn add_lost(missing: &[String], known: &Known, found: &mut Findings) {
    let missing: Vec<_> = missing.iter().filter(|id| known.missed.contains(*id)).cloned().collect();
    if missing.is_empty() {
        return;
    }
    let text = format!(
        "{} namespaces are on no drive: put their drives back, or delete the objects that have them: {}",
        missing.len(),
        join_some(&missing, ", ")
    );
    add_finding(found, &Subject::Rabbit, Kind::Lost, Severity::Warning, &text);
}

/// Joins the first few texts, and adds the number of the texts left out.
pub(super) fn join_some(all: &[String], between: &str) -> String {
    let (first, more) = all.split_at(all.len().min(MAX_NAMES));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("{}{more}", first.join(between))
}
