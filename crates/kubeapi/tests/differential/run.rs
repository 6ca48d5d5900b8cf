//! A run: sends operations one by one, each to both servers, and compares the answers.

use crate::controllers::{purge, settle};
use crate::normalise::{self, Difference};
use crate::operation::{Memory, Operation, send};
use crate::servers::{Reply, Server};
use http::Method;
use serde_json::{Value, json};

/// The two servers, each with the memory of its answers.
pub(crate) struct Pair {
    pub(crate) ours: Server,
    pub(crate) theirs: Server,
    pub(crate) our_memory: Memory,
    pub(crate) their_memory: Memory,
}

/// Answers of the two servers to one operation.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) ours: Reply,
    pub(crate) theirs: Reply,
    pub(crate) differences: Vec<Difference>,
}

impl Pair {
    pub(crate) fn new(ours: Server, theirs: Server, run: &str) -> Self {
        Self { ours, theirs, our_memory: Memory::new(run), their_memory: Memory::new(run) }
    }

    /// Sends an operation to both servers and compares the answers.
    pub(crate) async fn send(&mut self, operation: &Operation) -> Answers {
        let ours = send(&self.ours, &mut self.our_memory, operation).await;
        let theirs = send(&self.theirs, &mut self.their_memory, operation).await;
        settle(&self.theirs, &self.their_memory, operation, &theirs).await;
        let mine = normalise::reply(&ours, &mut self.our_memory);
        let real = normalise::reply(&theirs, &mut self.their_memory);
        let mut differences = normalise::differences(&mine, &real);
        self.forgive_managers(operation, &mut differences).await;
        if self.their_memory.lists_a_merged_past(operation) {
            differences.clear();
        }
        let is_created = ours.code == 201 && theirs.code == 201 && !operation.is_dry();
        if is_definition(operation) && is_created {
            differences.extend(self.established(&theirs.body).await);
        }
        Answers { ours, theirs, differences }
    }

    /// Drops a difference that comes from `managedFields`, in which only the real server records which client wrote
    /// which field. If an update changes nothing but this record, the object gets a new revision on the real server,
    /// and keeps its revision on the embedded server.
    async fn forgive_managers(&mut self, operation: &Operation, differences: &mut Vec<Difference>) {
        let [only] = differences.as_slice() else { return };
        let revision = |value: &Value| value.as_str()?.strip_prefix("rv-")?.parse::<usize>().ok();
        let updates = matches!(operation.method, Method::PUT | Method::PATCH);
        if !updates || !only.path.ends_with("/metadata/resourceVersion") {
            return;
        }
        if let (Some(ours), Some(theirs)) = (revision(&only.ours), revision(&only.theirs))
            && theirs + 1 == self.their_memory.known_names()
            && self.both_have(operation, ours).await
        {
            self.their_memory.renumber(theirs, ours);
            differences.clear();
        }
    }

    /// Returns whether an object is the same on both servers except for its revision.
    async fn both_have(&mut self, operation: &Operation, revision: usize) -> bool {
        let get = Operation::new(Method::GET, operation.path.trim_end_matches("/status"));
        let ours = send(&self.ours, &mut self.our_memory, &get).await;
        let theirs = send(&self.theirs, &mut self.their_memory, &get).await;
        let mine = normalise::reply(&ours, &mut self.our_memory);
        let real = normalise::reply(&theirs, &mut self.their_memory);
        let found = normalise::differences(&mine, &real);
        let shown = json!(format!("rv-{revision}"));
        matches!(found.as_slice(), [only] if only.path == "/body/metadata/resourceVersion" && only.ours == shown)
    }

    /// Waits until the real server serves a new kind, and compares both servers' descriptions of the kind.
    async fn established(&mut self, crd: &Value) -> Vec<Difference> {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let definition = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}",
            text("/metadata/name")
        );
        let is_true = |reply: &Reply| {
            let conditions =
                reply.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
        };
        let theirs = self.theirs.until(&definition, is_true).await;
        let list = format!(
            "/apis/{}/{}/{}",
            text("/spec/group"),
            text("/spec/versions/0/name"),
            text("/spec/names/plural")
        );
        self.theirs.until(&list, |reply| reply.code == 200).await;
        let ours = self.ours.until(&definition, is_true).await;
        let settled = |reply: &Reply| {
            let mut body = reply.body.clone();
            for condition in body["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition["lastTransitionTime"] = Value::Null;
            }
            let meta = &body["metadata"];
            json!({"status": body["status"], "finalizers": meta["finalizers"], "generation": meta["generation"]})
        };
        normalise::differences(&settled(&ours), &settled(&theirs))
    }

    /// Deletes the objects of an operation on both servers after a difference, so that later answers do not show the
    /// same difference again.
    pub(crate) async fn heal(&self, operation: &Operation, answers: &Answers) {
        for (server, memory) in [(&self.ours, &self.our_memory), (&self.theirs, &self.their_memory)]
        {
            let list = memory.fill(operation.collection());
            let mut names = Vec::new();
            for body in [&answers.ours.body, &answers.theirs.body] {
                names.extend(body["metadata"]["name"].as_str().map(str::to_owned));
                let items = body["items"].as_array().into_iter().flatten();
                names.extend(
                    items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)),
                );
            }
            if operation.is_about_one() {
                let path = operation.path.trim_end_matches("/status");
                names.extend(memory.fill(path).rsplit('/').next().map(str::to_owned));
            }
            if operation.method == Method::GET || list.contains("/customresourcedefinitions") {
                continue;
            }
            let plain = |name: &String| {
                name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
            };
            for name in names.into_iter().filter(plain) {
                purge(server, &format!("{list}/{name}")).await;
            }
        }
    }
}

fn is_definition(operation: &Operation) -> bool {
    operation.path.contains("/customresourcedefinitions")
}

impl Operation {
    pub(crate) fn is_dry(&self) -> bool {
        self.query.iter().any(|(name, value)| name == "dryRun" && value == "All")
    }
}
