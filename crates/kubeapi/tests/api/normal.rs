//! Removes from answers the values that are different on every server, such as uids and times. A rule may hide an error
//! of the embedded server, so each rule states why it is needed.

use serde_json::{Map, Value, json};

/// Uids, revisions and other names that a server has chosen, with their replacements in transcripts.
pub(crate) struct Names {
    namespace: String,
    group: String,
    uids: Vec<String>,
    revisions: Vec<String>,
    /// True while a client's request is processed: the test chose the revisions and times in the request, so they stay.
    sent: bool,
}

impl Names {
    pub(crate) fn new(namespace: &str, group: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            uids: Vec::new(),
            revisions: Vec::new(),
            sent: false,
        }
    }

    pub(crate) fn normal(&mut self, mut exchange: Value) -> Value {
        self.learn(&exchange);
        if let Some(answer) = exchange.get_mut("answer") {
            sort_causes(answer);
        }
        let mut sent = exchange.as_object_mut().and_then(|members| members.remove("sent"));
        self.apply(&mut exchange);
        if let Some(sent) = &mut sent {
            self.sent = true;
            self.apply(sent);
            self.sent = false;
            exchange["sent"] = sent.take();
        }
        exchange
    }

    /// Numbers uids and revisions in the order of their first occurrence, so that equal uids
    /// stay recognizable as equal.
    fn learn(&mut self, value: &Value) {
        let note = |known: &mut Vec<String>, text: &Value| {
            if let Some(text) = text.as_str().filter(|text| !text.is_empty())
                && !known.iter().any(|known| known == text)
            {
                known.push(text.to_owned());
            }
        };
        match value {
            Value::Object(map) => {
                if map.contains_key("creationTimestamp") && map.contains_key("uid") {
                    note(&mut self.uids, &map["uid"]);
                    note(&mut self.revisions, map.get("resourceVersion").unwrap_or(&Value::Null));
                }
                map.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    fn apply(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.apply_to_members(map),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            // Times in the cells of tables.
            Value::String(text) if is_time(text) => *text = "TIME".to_owned(),
            Value::String(text) if is_age(text) => *text = "AGE".to_owned(),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn apply_to_members(&self, map: &mut Map<String, Value>) {
        // `managedFields` serves server-side apply, which the embedded server lacks.
        map.remove("managedFields");
        // A hash of the group, which differs for each test.
        map.remove("storageVersionHash");
        // Addresses of the server.
        map.remove("serverAddressByClientCIDRs");
        let is_object = map.contains_key("uid");
        let named = std::mem::take(map).into_iter();
        for (name, mut value) in named {
            match (name.as_str(), &value) {
                // Other tests write to the same server and raise the revision of a list.
                ("resourceVersion", Value::String(text)) => {
                    let known = self.revisions.iter().position(|known| known == text);
                    if let Some(at) = known.filter(|_| is_object || self.sent) {
                        value = json!(format!("R{at}"));
                    } else if !self.sent && text.parse::<u64>().is_ok() {
                        value = json!("LATEST");
                    }
                }
                ("continue", Value::String(token)) if !token.is_empty() => value = json!("TOKEN"),
                (_, Value::String(text)) if is_time(text) => value = json!("TIME"),
                ("message", Value::String(text)) => value = json!(self.text(&message(text))),
                _ => self.apply(&mut value),
            }
            map.insert(self.text(&name), value);
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.replace(&self.group, "GROUP");
        for (at, uid) in self.uids.iter().enumerate() {
            text = text.replace(uid.as_str(), &format!("UID{at}"));
        }
        text.replace(&self.namespace, "NAMESPACE")
    }
}

/// Sorts causes, because Go iterates over maps in random order. The message repeats the causes.
fn sort_causes(answer: &mut Value) {
    let Some(causes) = answer
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
        .filter(|list| list.len() > 1)
    else {
        return;
    };
    causes.sort_by_key(Value::to_string);
    // The real server checks the metadata of custom resources twice.
    causes.dedup();
    let message = answer["message"].as_str().unwrap_or_default();
    if let Some(at) = message.find(" is invalid: [") {
        answer["message"] = json!(&message[..at + " is invalid: [".len()]);
    }
}

/// Returns whether a text is a time that a server has set, in whole seconds or microseconds. Times that tests send are
/// in the year 2001.
fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.starts_with("20")
        && text.ends_with('Z')
        && !text.starts_with("2001")
        && text.as_bytes().get(10) == Some(&b'T')
}

fn is_age(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(['y', 'd', 'h', 'm', 's'])
        && text.chars().all(|c| c.is_ascii_digit() || "ydhms".contains(c))
}

/// Replaces parts of messages that Go's libraries write.
fn message(text: &str) -> String {
    let mut text = text.to_owned();
    // Replaces the object, with its managedFields, that the message quotes.
    if let (Some(start), Some(end)) = (text.find("patch: Invalid value: \"{"), text.find("}\": "))
        && start < end
    {
        text.replace_range(start..end + 3, "patch: Invalid value: OBJECT: ");
    }
    if text.starts_with("Invalid value: \"{\\\"apiVersion")
        && let Some(end) = text.find("}\": ")
    {
        text.replace_range(..end + 3, "Invalid value: OBJECT: ");
    }
    if let Some(at) = text.find("does not match the ResourceVersion in record (") {
        text.truncate(at);
    }
    // Cuts the list of media types, which differs: the embedded server has neither protobuf for all kinds nor
    // server-side apply.
    if let Some(at) = text.find("accepted media types include: ") {
        text.truncate(at + "accepted media types include: ".len());
    }
    if let Some(at) = text.find("following media types are accepted: ") {
        text.truncate(at + "following media types are accepted: ".len());
    }
    if let Some(at) = text.find("json: cannot unmarshal ") {
        text.truncate(at + "json: cannot unmarshal ".len());
    }
    if let Some(at) = text.find(" is registered for version ") {
        text.truncate(at);
    }
    // Shortens errors of Go's encoding/json.
    for (start, short) in [
        ("error decoding patch: ", "error decoding patch: GO"),
        (
            "couldn't get version/kind; json parse error: ",
            "couldn't get version/kind; json parse error: GO",
        ),
    ] {
        if text.starts_with(start) {
            text = short.to_owned();
        }
    }
    if let Some(at) = text.find("Object 'Kind' is missing in '") {
        text.truncate(at);
    }
    if text.starts_with("the object provided is unrecognized")
        && let Some(at) = text.find("json parse error: ")
    {
        text.truncate(at + "json parse error: ".len());
    }
    text
}
