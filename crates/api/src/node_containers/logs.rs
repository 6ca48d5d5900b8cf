//! Questions for the logs of containers that run. Whoever asks writes the moment into an annotation; the agent answers with it, once
//! the status has the logs. No clock is compared with another's: a question counts when its moment is later than that of the last one
//! that was answered.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::NodeContainers;
use crate::{MicroTime, names::annotation};

impl NodeContainers {
    /// The moment of a question for logs that nobody answered yet.
    #[must_use]
    pub fn unanswered(&self) -> Option<MicroTime> {
        let asked: Timestamp = self.annotations().get(annotation::LOGS_ASKED)?.parse().ok()?;
        // An answer has whole microseconds.
        let is_new = |answered: Timestamp| answered.as_microsecond() < asked.as_microsecond();
        self.answered().is_none_or(is_new).then_some(MicroTime(asked))
    }

    /// The moment of a question that nobody has answered yet, asked now. The clock by which the last one was asked may be ahead.
    #[must_use]
    pub fn question(&self, now: Timestamp) -> MicroTime {
        let later = |one: Timestamp| one.checked_add(SignedDuration::from_micros(1)).unwrap_or(one);
        MicroTime(self.answered().map_or(now, |answered| now.max(later(answered))))
    }

    fn answered(&self) -> Option<Timestamp> {
        self.status.as_ref()?.logs_answered.map(|at| at.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(asked: Option<&str>, answered: Option<&str>) -> NodeContainers {
        serde_json::from_value(json!({
            "metadata": {"annotations": asked.map(|at| json!({annotation::LOGS_ASKED: at}))},
            "spec": {"userID": 1, "groupID": 1, "hostname": "r"},
            "status": {"state": "Ready", "attempt": 1, "logsAnswered": answered},
        }))
        .unwrap()
    }

    #[test]
    fn a_question_is_open_until_its_own_moment_or_a_later_one_is_answered() {
        let moments = ["2026-11-26T10:00:00.000001Z", "2026-11-26T10:00:00.000002Z"];
        let is_open = |asked, answered| object(asked, answered).unanswered().is_some();
        assert!(!is_open(None, None) && is_open(Some(moments[0]), None));
        assert!(is_open(Some(moments[1]), Some(moments[0])));
        assert!(!is_open(Some(moments[0]), Some(moments[0])));
        assert!(!is_open(Some(moments[0]), Some(moments[1])));
        assert!(!is_open(Some("yesterday"), None), "nobody could answer it");
    }

    #[test]
    fn what_an_answer_cannot_tell_of_a_moment_keeps_no_question_open() {
        let mut object = object(Some("2026-11-26T10:00:00.123456789+01:00"), None);
        let asked = object.unanswered();
        let status = object.status.as_mut().unwrap();
        status.logs_answered = serde_json::from_value(json!(asked.unwrap().to_string())).unwrap();
        assert_eq!(object.unanswered(), None);
    }

    #[test]
    fn a_clock_that_is_behind_asks_a_new_question_all_the_same() {
        let last = "2026-11-26T10:00:00.5Z";
        for now in ["2026-11-26T09:00:00Z", last, "2026-11-26T11:00:00Z"] {
            let asked = object(None, Some(last)).question(now.parse().unwrap()).to_string();
            assert!(object(Some(&asked), Some(last)).unanswered().is_some(), "{now}: {asked}");
        }
    }
}
