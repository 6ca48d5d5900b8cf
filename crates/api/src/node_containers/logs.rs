//! Requests for the logs of running containers. A client writes the time of its request into an annotation; the agent
//! copies this time to `status.logsAnswered` once the status has the logs. A request is open while its time is later
//! than the time of the last answered request. Both times come from clients, so the agent's clock has no effect.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::NodeContainers;
use crate::{MicroTime, names::annotation};

impl NodeContainers {
    /// Returns the time of the last request for logs, if the agent has not answered it yet.
    #[must_use]
    pub fn unanswered_log_request(&self) -> Option<MicroTime> {
        let requested: Timestamp = self.annotations().get(annotation::LOGS_ASKED)?.parse().ok()?;
        // Compares whole microseconds, because the status stores no fractions of them.
        let is_new = |answered: Timestamp| answered.as_microsecond() < requested.as_microsecond();
        self.logs_answered().is_none_or(is_new).then_some(MicroTime(requested))
    }

    /// Returns the time for a new request for logs: `now`. If the last answered request has a later time, because its
    /// client's clock is ahead, returns the microsecond after that time.
    #[must_use]
    pub fn next_log_request(&self, now: Timestamp) -> MicroTime {
        let after =
            |time: Timestamp| time.checked_add(SignedDuration::from_micros(1)).unwrap_or(time);
        MicroTime(self.logs_answered().map_or(now, |answered| now.max(after(answered))))
    }

    fn logs_answered(&self) -> Option<Timestamp> {
        self.status.as_ref()?.logs_answered.map(|at| at.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(requested: Option<&str>, answered: Option<&str>) -> NodeContainers {
        serde_json::from_value(json!({
            "metadata": {"annotations": requested.map(|at| json!({annotation::LOGS_ASKED: at}))},
            "spec": {"userID": 1, "groupID": 1, "hostname": "r"},
            "status": {"state": "Ready", "attempt": 1, "logsAnswered": answered},
        }))
        .unwrap()
    }

    #[test]
    fn a_request_is_open_until_its_own_time_or_a_later_one_is_answered() {
        let times = ["2026-11-26T10:00:00.000001Z", "2026-11-26T10:00:00.000002Z"];
        let is_open =
            |requested, answered| object(requested, answered).unanswered_log_request().is_some();
        assert!(!is_open(None, None) && is_open(Some(times[0]), None));
        assert!(is_open(Some(times[1]), Some(times[0])));
        assert!(!is_open(Some(times[0]), Some(times[0])));
        assert!(!is_open(Some(times[0]), Some(times[1])));
        assert!(!is_open(Some("yesterday"), None), "no agent could answer this request");
    }

    #[test]
    fn a_request_with_nanoseconds_is_answered_by_its_time_in_microseconds() {
        let mut object = object(Some("2026-11-26T10:00:00.123456789+01:00"), None);
        let requested = object.unanswered_log_request();
        let status = object.status.as_mut().unwrap();
        status.logs_answered =
            serde_json::from_value(json!(requested.unwrap().to_string())).unwrap();
        assert_eq!(object.unanswered_log_request(), None);
    }

    #[test]
    fn a_client_whose_clock_is_behind_can_still_make_a_new_request() {
        let last = "2026-11-26T10:00:00.5Z";
        for now in ["2026-11-26T09:00:00Z", last, "2026-11-26T11:00:00Z"] {
            let next = object(None, Some(last)).next_log_request(now.parse().unwrap()).to_string();
            let is_open = object(Some(&next), Some(last)).unanswered_log_request().is_some();
            assert!(is_open, "{now}: {next}");
        }
    }
}
