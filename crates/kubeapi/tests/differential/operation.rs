//! A request with placeholders, and the memory of a server's earlier answers, from which the placeholders are filled.

use crate::servers::{Prepared, Reply, Server};
use http::Method;
use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

/// The placeholders in an operation: `<rv:PATH>`, `<oldrv:PATH>` and `<uid:PATH>` are the last revision, the revision
/// before it and the uid of the object at that path; `<continue:PATH>` is the continue token of the list at that path,
/// from the page that was read last. Another placeholder, `<run>`, is the unique word of the run.
static PLACES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("<(rv|oldrv|uid|continue):([^<>]*)>").unwrap());

/// A request with placeholders; the same operation is sent to both servers.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) accept: Option<String>,
    pub(crate) media_type: String,
    pub(crate) body: String,
}

impl Operation {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let media_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            accept: None,
            media_type: media_type.to_owned(),
            body: String::new(),
        }
    }

    pub(crate) fn with(mut self, body: &Value) -> Self {
        self.body = body.to_string();
        self
    }

    pub(crate) fn asking(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn of_type(mut self, media_type: &str) -> Self {
        media_type.clone_into(&mut self.media_type);
        self
    }

    pub(crate) fn prepare(&self, memory: &Memory) -> Prepared {
        let mut uri = memory.fill(&self.path);
        if !self.query.is_empty() {
            let pairs = self.query.iter().map(|(name, value)| (name, memory.fill(value)));
            let mut query = form_urlencoded::Serializer::new(String::new());
            uri = format!("{uri}?{}", query.extend_pairs(pairs).finish());
        }
        Prepared {
            method: self.method.clone(),
            uri,
            accept: self.accept.clone(),
            media_type: self.media_type.clone(),
            body: memory.fill(&self.body).into_bytes(),
        }
    }

    /// Returns the path of the list that the request is about, or that contains the request's object.
    pub(crate) fn collection(&self) -> &str {
        let path = self.path.trim_end_matches("/status").trim_end_matches("/finalize");
        if self.is_about_one() {
            path.rsplit_once('/').map_or(path, |(list, _)| list)
        } else {
            path
        }
    }

    pub(crate) fn is_about_one(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = if parts[0] == "api" { &parts[2..] } else { &parts[3..] };
        match rest {
            ["namespaces", _, _, _, ..] => true,
            ["namespaces", _, _] => matches!(rest[2], "status" | "finalize"),
            [_, _, ..] => true,
            _ => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { '?' } else { '&' })?;
        }
        if let Some(accept) = &self.accept {
            write!(f, " [accept {accept}]")?;
        }
        if !self.body.is_empty() {
            write!(f, " [{}] {}", self.media_type, self.body)?;
        }
        Ok(())
    }
}

/// The earlier answers of one server. The placeholders of later operations are filled from these answers. Also, each
/// uid and revision that the server has chosen gets a number, so that answers of the two servers can be compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) run: String,
    revisions: HashMap<String, Vec<String>>,
    uids: HashMap<String, String>,
    tokens: HashMap<String, String>,
    /// Uids, revisions and other names that the server has chosen, numbered in the order in which they were first seen.
    pub(crate) order: HashMap<String, usize>,
    next: usize,
    /// Names that [`Memory::renumber`] made equal to earlier ones: for a revision, the other server was then at an earlier
    /// moment.
    merged: HashSet<String>,
}

impl Memory {
    pub(crate) fn new(run: &str) -> Self {
        Self { run: run.to_owned(), ..Self::default() }
    }

    /// Returns the number of a name that the server has chosen; a new name gets the next number.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        let next = self.next;
        let number = *self.order.entry(name.to_owned()).or_insert(next);
        self.next += usize::from(number == next);
        number
    }

    /// Returns the number of names that have a number.
    pub(crate) fn known_names(&self) -> usize {
        self.next
    }

    /// Replaces the highest number, `last`, by `known`, the number of an earlier name: the names with these two numbers
    /// then count as the same. The next new name gets the number `last`.
    pub(crate) fn renumber(&mut self, last: usize, known: usize) {
        for (name, number) in self.order.iter_mut().filter(|(_, number)| **number == last) {
            *number = known;
            self.merged.insert(name.clone());
        }
        self.next = last;
    }

    /// Returns true if an operation lists the objects of a past revision at which the other server was at an earlier moment.
    /// A list with a limit and a revision, or with the match `Exact`, shows the objects of exactly that revision.
    pub(crate) fn lists_a_merged_past(&self, operation: &Operation) -> bool {
        let asked = |wanted: &str| {
            let mut asked = operation.query.iter().filter(|(name, _)| name == wanted);
            asked.next_back().map(|(_, value)| self.fill(value))
        };
        let is_exact = match asked("resourceVersionMatch") {
            Some(wanted) => wanted == "Exact",
            None => asked("limit").is_some(),
        };
        is_exact && asked("resourceVersion").is_some_and(|revision| self.merged.contains(&revision))
    }

    /// Makes both memories continue at the same number, after one server has shown more names than the other server.
    pub(crate) fn align(&mut self, other: &mut Self) {
        let next = self.next.max(other.next);
        self.next = next;
        other.next = next;
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let text = text.replace("<run>", &self.run);
        let filled = PLACES.replace_all(&text, |place: &Captures<'_>| {
            let path = &place[2];
            let revision = |back: usize| {
                let known = self.revisions.get(path);
                known.and_then(|all| all.get(all.len().checked_sub(back)?)).cloned()
            };
            match &place[1] {
                "rv" => revision(1).unwrap_or_else(|| "1".to_owned()),
                "oldrv" => revision(2).unwrap_or_else(|| "1".to_owned()),
                "uid" => {
                    let unknown = "01234567-89ab-cdef-0123-456789abcdef";
                    self.uids.get(path).cloned().unwrap_or_else(|| unknown.to_owned())
                }
                _ => self.tokens.get(path).cloned().unwrap_or_else(|| "nonsense".to_owned()),
            }
        });
        filled.into_owned()
    }

    /// Records the objects of an answer.
    pub(crate) fn note(&mut self, operation: &Operation, reply: &Reply) {
        let collection = &self.fill(operation.collection());
        // Records no token of a list with a selector: the token would continue a list with another selector, which no
        // client does.
        let selects = operation.query.iter().any(|(name, _)| name.ends_with("Selector"));
        if let Some(items) = reply.body["items"].as_array() {
            if !selects {
                // The last page has either no token or an empty token.
                let token = reply.body["metadata"]["continue"].as_str().unwrap_or_default();
                self.tokens.insert(collection.clone(), token.to_owned());
            }
            for item in items {
                self.note_object(collection, item);
            }
        } else {
            self.note_object(collection, &reply.body);
        }
    }

    fn note_object(&mut self, collection: &str, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (Some(name), Some(uid)) = (text("name"), text("uid")) else { return };
        let path = format!("{collection}/{name}");
        self.uids.insert(path.clone(), uid);
        let known = self.revisions.entry(path).or_default();
        if let Some(revision) = text("resourceVersion")
            && known.last() != Some(&revision)
        {
            known.push(revision);
        }
    }
}

/// Sends an operation to a server, and records its answer.
pub(crate) async fn send(server: &Server, memory: &mut Memory, operation: &Operation) -> Reply {
    let reply = server.send(&operation.prepare(memory)).await;
    memory.note(operation, &reply);
    reply
}
