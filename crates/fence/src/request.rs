//! Parses requests of Pacemaker's agent, and the file names of requests and answers.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use storage::desired::NodeName;
use thiserror::Error;
use uuid::Uuid;

/// Maximum bytes of a request; a usual request has a few hundred.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

/// The file name `<node>-<uuid>.json` of a request and of its answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileName {
    node: NodeName,
    id: Uuid,
}

/// The kinds of file names in the two directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParsedName {
    File(FileName),
    /// A file without the suffix `.json`, or a dot file that is still being written.
    Other,
    /// A JSON file whose name does not consist of a node and the uuid of a request.
    Invalid,
}

/// Why a file is not a valid request.
#[derive(Debug, Error)]
pub(super) enum RequestError {
    #[error("it is not a valid request")]
    Malformed(#[source] serde_json::Error),
    #[error("its name says {named}, and its target_node {target:?}: make them the same")]
    OtherTarget { named: NodeName, target: String },
    #[error("its name says {named}, and its request_id {id:?}: make them the same")]
    OtherId { named: Uuid, id: String },
}

/// Why the agent does not carry out a valid request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum UnsupportedAction {
    /// The request asks to give access back, which only an administrator may decide.
    #[error(
        "action {0:?} is not supported, only off and reboot are: to let a fenced node back, delete its answer from the directory of responses"
    )]
    Action(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) request_id: String,
    /// Time of the request, as its text in the file.
    pub(super) timestamp: String,
    pub(super) action: String,
    pub(super) target_node: String,
    pub(super) recorder_node: String,
    /// Further fields, which the answer repeats.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl FileName {
    pub(super) fn read(name: &str) -> ParsedName {
        let Some(stem) = name.strip_suffix(".json").filter(|_| !name.starts_with('.')) else {
            return ParsedName::Other;
        };
        let parts = stem.len().checked_sub(UUID).and_then(|at| stem.split_at_checked(at));
        let file = parts.and_then(|(node, id)| {
            let (node, id) = (node.strip_suffix('-')?.parse().ok()?, Uuid::try_parse(id).ok()?);
            Some(Self { node, id })
        });
        // Rejects a name that parses to the same node and uuid but is spelled differently: such a name belongs to
        // another file.
        file.filter(|file| file.to_string() == name).map_or(ParsedName::Invalid, ParsedName::File)
    }

    pub(super) fn node(&self) -> &NodeName {
        &self.node
    }
}

const UUID: usize = uuid::fmt::Hyphenated::LENGTH;

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.json", self.node, self.id)
    }
}

impl Request {
    pub(super) fn read(name: &FileName, bytes: &[u8]) -> Result<Self, RequestError> {
        let request: Self = serde_json::from_slice(bytes).map_err(RequestError::Malformed)?;
        if request.target_node != name.node.as_str() {
            let target = request.target_node;
            return Err(RequestError::OtherTarget { named: name.node.clone(), target });
        }
        if Uuid::try_parse(&request.request_id) != Ok(name.id) {
            return Err(RequestError::OtherId { named: name.id, id: request.request_id });
        }
        Ok(request)
    }

    /// Checks that the agent supports the requested action.
    pub(super) fn check_action(&self) -> Result<(), UnsupportedAction> {
        // Treats `reboot` like `off`: a reboot takes the storage from the node too.
        match self.action.as_str() {
            "off" | "reboot" => Ok(()),
            other => Err(UnsupportedAction::Action(other.to_owned())),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) const ID: &str = "0b9b8c1e-6d0f-4f0e-9a53-1d2c3b4a5f60";

    pub(crate) fn name(node: &str) -> FileName {
        let ParsedName::File(name) = FileName::read(&format!("{node}-{ID}.json")) else {
            panic!("a name")
        };
        name
    }

    /// Returns a request in the form that the sites' fence_recorder writes.
    pub(crate) fn body(node: &str) -> Value {
        json!({
            "request_id": ID, "timestamp": "2026-06-01T07:12:09.123456+00:00", "action": "off",
            "target_node": node, "recorder_node": "rabbit-1"
        })
    }

    #[test]
    fn a_file_name_has_a_node_whose_name_may_contain_dashes() {
        let found = name("compute-01");
        assert_eq!(found.node().as_str(), "compute-01");
        assert_eq!(found.to_string(), format!("compute-01-{ID}.json"));
        for (text, named) in [
            (format!(".compute-01-{ID}.json"), ParsedName::Other),
            (format!("compute-01-{ID}.json.tmp"), ParsedName::Other),
            ("notes.txt".to_owned(), ParsedName::Other),
            (format!("{ID}.json"), ParsedName::Invalid),
            (format!("-{ID}.json"), ParsedName::Invalid),
            ("compute-01.json".to_owned(), ParsedName::Invalid),
            (format!("compute-01-{}.json", ID.to_uppercase()), ParsedName::Invalid),
            (format!("a b-{ID}.json"), ParsedName::Invalid),
            ("é-0b9b8c1e-6d0f-4f0e-9a53-1d2c3b4a5f6é.json".to_owned(), ParsedName::Invalid),
        ] {
            assert_eq!(FileName::read(&text), named, "{text}");
        }
    }

    #[test]
    fn a_request_must_be_complete_and_match_its_file_name() {
        let file = name("compute-01");
        let read = |value: Value| Request::read(&file, value.to_string().as_bytes());
        assert_eq!(read(body("compute-01")).unwrap().recorder_node, "rabbit-1");
        assert!(matches!(read(body("compute-02")), Err(RequestError::OtherTarget { .. })));
        for key in ["request_id", "timestamp", "action", "target_node", "recorder_node"] {
            let mut without = body("compute-01");
            without.as_object_mut().unwrap().remove(key);
            assert!(matches!(read(without), Err(RequestError::Malformed(_))), "{key}");
            let mut number = body("compute-01");
            number[key] = json!(1);
            assert!(matches!(read(number), Err(RequestError::Malformed(_))), "{key}");
        }
        let mut other = body("compute-01");
        other["request_id"] = json!(ID.replace('0', "1"));
        assert!(matches!(read(other), Err(RequestError::OtherId { .. })));
        let torn = body("compute-01").to_string();
        for length in 0..torn.len() {
            assert!(Request::read(&file, &torn.as_bytes()[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn only_off_and_reboot_are_supported() {
        let read = |action: &str| {
            let mut body = body("compute-01");
            body["action"] = json!(action);
            Request::read(&name("compute-01"), body.to_string().as_bytes()).unwrap().check_action()
        };
        assert_eq!((read("off"), read("reboot")), (Ok(()), Ok(())));
        assert!(read("on").is_err() && read("").is_err());
    }
}
