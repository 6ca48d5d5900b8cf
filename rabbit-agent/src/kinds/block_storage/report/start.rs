//! Compares the start time in a status with the start time of this agent.

use std::sync::Arc;

use api::{NnfNodeBlockStorage, NnfNodeBlockStorageStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

/// Returns whether the agent that started at `started` found the paths in this status. Kubernetes keeps
/// times in whole seconds.
pub fn is_current(status: &NnfNodeBlockStorageStatus, started: &Time) -> bool {
    status.ready && is_observed_by(status, started)
}

/// Returns whether the agent that started at `started` observed all allocations in this status, ready or not.
pub fn is_observed_by(status: &NnfNodeBlockStorageStatus, started: &Time) -> bool {
    let at = status.pod_start_time.as_ref();
    at.is_some_and(|at| at.0.as_second() == started.0.as_second())
}

/// Returns the start time for the reports of an agent that starts at `now`. The time is later than all start times
/// reported before, even if the clock is wrong after a reboot, so that no reader takes device paths of an earlier boot
/// for current ones.
pub fn started_after<'a>(
    now: Timestamp,
    objects: impl Iterator<Item = &'a Arc<NnfNodeBlockStorage>>,
) -> Time {
    let reported = objects.filter_map(|block| block.status.as_ref()?.pod_start_time.as_ref());
    let after = reported.map(|at| at.0.as_second().saturating_add(1)).max();
    // Kubernetes keeps whole seconds of a time.
    let second = after.map_or(now.as_second(), |after| after.max(now.as_second()));
    Time(Timestamp::from_second(second).unwrap_or(now))
}

/// Returns the start time of the agent that reported last.
pub fn latest_start<'a>(
    objects: impl Iterator<Item = &'a Arc<NnfNodeBlockStorage>>,
) -> Option<Time> {
    objects.filter_map(|block| block.status.as_ref()?.pod_start_time.clone()).max_by_key(|at| at.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_start_time_is_later_than_every_reported_one() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let objects = ["2026-06-01T07:12:09Z", "2026-05-01T00:00:00Z"].map(|reported| {
            let mut object = samples::block_storage_ready(1);
            let status = object.status.as_mut().unwrap();
            status.pod_start_time = Some(Time(at(reported)));
            Arc::new(object)
        });
        for (now, started) in [
            ("2026-06-02T00:00:00.75Z", "2026-06-02T00:00:00Z"),
            ("2026-06-01T07:12:09.5Z", "2026-06-01T07:12:10Z"),
            ("1970-01-01T00:00:05Z", "2026-06-01T07:12:10Z"),
        ] {
            assert_eq!(started_after(at(now), objects.iter()), Time(at(started)), "{now}");
        }
        let first = started_after(at("2026-06-02T00:00:00.75Z"), [].iter());
        assert_eq!(first, Time(at("2026-06-02T00:00:00Z")));
    }
}
