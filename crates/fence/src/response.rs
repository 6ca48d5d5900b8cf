//! Defines the answers to the fence requests of Pacemaker's agent. An answer of success also marks its node as fenced.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::request::Request;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The node reaches no GFS2 any more. The text lists the detached namespaces.
    Detached(String),
    /// The node had no GFS2 of this rabbit, and reaches none now.
    Nothing(String),
    /// The node may still reach a GFS2. The text gives the reason.
    NotProved(String),
}

impl Verdict {
    pub(super) fn is_success(&self) -> bool {
        match self {
            Self::Detached(_) | Self::Nothing(_) => true,
            Self::NotProved(_) => false,
        }
    }

    /// Returns the same verdict with `more` added to its text.
    pub(super) fn and(&self, more: &str) -> Self {
        match self {
            Self::Detached(text) => Self::Detached(format!("{text}; {more}")),
            Self::Nothing(text) => Self::Nothing(format!("{text}; {more}")),
            Self::NotProved(text) => Self::NotProved(format!("{text}; {more}")),
        }
    }

    pub(super) fn text(&self) -> &str {
        let (Self::Detached(text) | Self::Nothing(text) | Self::NotProved(text)) = self;
        text
    }
}

/// The answer to a request. It repeats all fields of the request.
#[derive(Debug, Serialize)]
pub(super) struct Response<'a> {
    #[serde(flatten)]
    request: Request,
    success: bool,
    message: &'a str,
    /// The action that Pacemaker's agent (the sites' `fence_recorder`) reports to Pacemaker: `off` for every verdict.
    action_performed: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

impl<'a> Response<'a> {
    /// Returns the answer to `request`, made at `now`.
    pub(super) fn new(request: &Request, verdict: &'a Verdict, now: Timestamp) -> Self {
        let mut request = request.clone();
        // As in the Go agent, an answer to a request for a node without a GFS2 has the time of the answer; all other
        // answers have the time of their request.
        let nothing = matches!(verdict, Verdict::Nothing(_));
        if nothing {
            request.timestamp = now.to_string();
        }
        Self {
            request,
            success: verdict.is_success(),
            message: verdict.text(),
            action_performed: "off",
            status: nothing.then_some("success"),
        }
    }
}

/// The fields by which an answer marks its node as fenced. Answers of the Go agent have the same fields.
#[derive(Debug, Deserialize)]
struct Marker {
    success: Option<bool>,
    status: Option<String>,
}

/// Returns whether an answer says that its node is fenced.
pub(super) fn is_marker(bytes: &[u8]) -> Result<bool, serde_json::Error> {
    let marker: Marker = serde_json::from_slice(bytes)?;
    Ok(marker.success == Some(true) || marker.status.as_deref() == Some("success"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::request::tests::{ID, body, name};

    fn answer_with(verdict: &Verdict) -> Value {
        let mut body_with_more = body("compute-01");
        body_with_more["later"] = json!({"a": 1});
        let request =
            Request::read(&name("compute-01"), body_with_more.to_string().as_bytes()).unwrap();
        let now = "2026-06-01T07:12:11Z".parse().unwrap();
        serde_json::to_value(Response::new(&request, verdict, now)).unwrap()
    }

    #[test]
    fn an_answer_repeats_the_request_and_has_the_verdict() {
        let answer = answer_with(&Verdict::Detached("gone".into()));
        assert_eq!(
            answer,
            json!({
                "request_id": ID, "timestamp": "2026-06-01T07:12:09.123456+00:00", "action": "off",
                "target_node": "compute-01", "recorder_node": "rabbit-1", "later": {"a": 1},
                "success": true, "message": "gone", "action_performed": "off"
            })
        );
    }

    #[test]
    fn an_answer_without_detachment_has_the_keys_of_the_go_agent() {
        let answer = answer_with(&Verdict::Nothing("none".into()));
        assert_eq!(
            (&answer["success"], &answer["status"], &answer["timestamp"]),
            (&json!(true), &json!("success"), &json!("2026-06-01T07:12:11Z"))
        );
    }

    #[test]
    fn only_success_marks_a_node_as_fenced() {
        for (verdict, marks) in [
            (Verdict::Detached(String::new()), true),
            (Verdict::Nothing(String::new()), true),
            (Verdict::NotProved(String::new()), false),
        ] {
            assert_eq!(is_marker(answer_with(&verdict).to_string().as_bytes()).unwrap(), marks);
        }
        assert!(is_marker(br#"{"status":"success"}"#).unwrap());
        assert!(!is_marker(b"{}").unwrap());
        assert!(is_marker(br#"{"success":tr"#).is_err() && is_marker(b"").is_err());
    }
}
