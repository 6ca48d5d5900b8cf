//! Builds one line for each mount of the node, with the processes that keep it in use.

use std::{
    collections::BTreeSet,
    fs,
    os::linux::fs::MetadataExt,
    time::{SystemTime, UNIX_EPOCH},
};

use procfs::{boot_time_secs, process::Process, ticks_per_second};
use proto::v1::{Holder, JobState, MountLine};

use crate::view::Viewed;
use agent::{
    desired::Goal,
    reconcile::{Failed, MountOutcome},
    site::Site,
};

/// The text for an object that the API has and the agent has not received.
pub(super) const NOT_RECEIVED: &str = "the agent has not received it yet";

/// Returns the lines of these objects, and of the objects that the API has but the agent has not received.
pub fn lines(viewed: &[(String, Viewed)], state: Option<&JobState>, site: &Site) -> Vec<MountLine> {
    let known: BTreeSet<_> = viewed.iter().map(|(uid, _)| uid.as_str()).collect();
    let mounts = state.map(|state| state.mounts.as_slice()).unwrap_or_default();
    let unreceived = mounts.iter().filter(|mount| !known.contains(mount.uid.as_str()));
    let unreceived = unreceived.map(|mount| MountLine {
        namespace: mount.namespace.clone(),
        name: mount.name.clone(),
        desired: mount.desired_state.clone(),
        why: NOT_RECEIVED.to_owned(),
        ..MountLine::default()
    });
    viewed.iter().flat_map(|(_, viewed)| lines_of_object(viewed, site)).chain(unreceived).collect()
}

fn lines_of_object(viewed: &Viewed, site: &Site) -> Vec<MountLine> {
    let received = &viewed.received;
    let goal = if viewed.gone { Goal::Unmounted } else { received.goal() };
    let units = received.units(viewed.gone, site).ok();
    let mounts = received.object().map(|object| object.spec.mounts.as_slice()).unwrap_or_default();
    let path = |index: usize| {
        let unit = units.as_ref().and_then(|units| units.mounts.get(index)?.as_ref().ok());
        unit.map_or_else(|| mounts[index].mount_path.clone(), |mount| mount.target.to_string())
    };
    let line = |index| {
        let path = path(index);
        let failed: Vec<_> = failures_at(viewed, &path).collect();
        let texts: Vec<_> = failed.iter().map(|failed| failed.failure.debug.as_str()).collect();
        MountLine {
            namespace: received.namespace.clone(),
            name: received.name.clone(),
            desired: goal.state().to_string(),
            state: state(viewed, index, goal).to_owned(),
            since: viewed.since.map_or(0, seconds),
            why: texts.join("; "),
            holders: holders(
                failed.iter().flat_map(|failed| failed.failure.holders.iter().copied()),
            ),
            path,
        }
    };
    (0..mounts.len()).map(line).collect()
}

fn failures_at<'a>(viewed: &'a Viewed, path: &'a str) -> impl Iterator<Item = &'a Failed> {
    let failures = viewed.outcome.iter().flat_map(|outcome| &outcome.failures);
    failures.filter(move |failed| failed.path.as_deref().is_none_or(|own| own == path))
}

fn state(viewed: &Viewed, index: usize, goal: Goal) -> &'static str {
    let outcome = viewed.outcome.as_ref().and_then(|outcome| outcome.mounts.get(index));
    match (outcome, goal) {
        (Some(MountOutcome::Ready), Goal::Mounted) => "mounted",
        (Some(MountOutcome::Ready), Goal::Unmounted) => "unmounted",
        (Some(MountOutcome::Failed), _) => "failed",
        (Some(MountOutcome::Withheld), _) => "withheld",
        (None, Goal::Mounted) => "mounting",
        (None, Goal::Unmounted) => "unmounting",
    }
}

/// Returns the processes that have not ended, with the kernel's information about each.
fn holders(processes: impl IntoIterator<Item = i32>) -> Vec<Holder> {
    let own = namespace("self");
    let all: BTreeSet<i32> = processes.into_iter().collect();
    all.into_iter().filter_map(|pid| holder(pid, own)).collect()
}

fn holder(pid: i32, own: Option<u64>) -> Option<Holder> {
    let process = Process::new(pid).ok()?;
    let (stat, status) = (process.stat().ok()?, process.status().ok()?);
    let began = || boot_time_secs().ok()?.checked_add(stat.starttime / ticks_per_second().max(1));
    let mount_namespace = namespace(&pid.to_string());
    Some(Holder {
        pid,
        command: stat.comm.clone(),
        user_id: status.ruid,
        since: began().and_then(|began| began.try_into().ok()).unwrap_or(0),
        mount_namespace: mount_namespace.unwrap_or(0),
        elsewhere: mount_namespace.is_some() && mount_namespace != own,
    })
}

fn namespace(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|found| found.st_ino())
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_running_process_is_listed_once_with_its_user_and_mount_namespace() {
        let own = i32::try_from(std::process::id()).unwrap();
        // The kernel's largest process id (PID_MAX_LIMIT) is 2^22: no process has the id 2^23.
        let found = holders([own, 1 << 23, own]);
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.pid, found.user_id), (own, nix::unistd::getuid().as_raw()));
        assert!(!found.elsewhere && found.mount_namespace > 0 && found.since > 0, "{found:?}");
    }
}
