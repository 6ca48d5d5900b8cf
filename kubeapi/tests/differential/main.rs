//! `kubeapi` beside a real kube-apiserver: the same operations, made up from a seed, must have the same answers.
//!
//! `WARREN_SEED` repeats a run, `WARREN_OPERATIONS` sets its length.

mod controllers;
mod kinds;
mod normalise;
mod operation;
mod random;
mod requests;
mod run;
mod schemas;
mod servers;
mod values;

use http::Method;
use kinds::Kind;
use operation::Operation;
use random::Random;
use requests::Knowledge;
use run::{Answers, Pair};
use serde_json::{Value, json};
use servers::{Plane, Server};
use std::collections::BTreeMap;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Kinds that a run makes up.
const KINDS: usize = 12;

/// A run in progress.
struct Run {
    pair: Pair,
    random: Random,
    known: Knowledge,
    done: Vec<Operation>,
    /// By what they are about: how often, and the first.
    found: BTreeMap<String, (usize, String)>,
}

impl Run {
    async fn new(plane: &Plane, seed: u64) -> Self {
        let word = format!("r{:07x}", seed & 0x0fff_ffff);
        let ours = Server::embedded(api::crd_values());
        let pair = Pair::new(ours, Server::Real(plane.client.clone()), &word);
        Self {
            pair,
            random: Random::new(seed),
            known: Knowledge::default(),
            done: Vec::new(),
            found: BTreeMap::new(),
        }
    }

    async fn step(&mut self, operation: Operation) -> Answers {
        let answers = self.pair.send(&operation).await;
        self.done.push(operation.clone());
        if answers.differences.is_empty() {
            self.learn(&operation, &answers);
            return answers;
        }
        for difference in answers.differences.iter().take(1) {
            let key = format!("{} {}", operation.method, signature(difference));
            let entry = self.found.entry(key).or_default();
            entry.0 += 1;
            if entry.1.is_empty() {
                entry.1 = format!(
                    "#{} {operation:.700}\n  at     {}\n  ours   {} {:.500}\n  theirs {} {:.500}",
                    self.done.len(),
                    difference.path,
                    answers.ours.code,
                    cut(&difference.ours),
                    answers.theirs.code,
                    cut(&difference.theirs),
                );
                if answers.ours.code != answers.theirs.code {
                    entry.1.push_str(&format!(
                        "\n  our answer   {}\n  their answer {}",
                        cut(&answers.ours.body),
                        cut(&answers.theirs.body)
                    ));
                }
            }
        }
        self.pair.heal(&operation, &answers).await;
        self.pair.our_memory.align(&mut self.pair.their_memory);
        answers
    }

    fn learn(&mut self, operation: &Operation, answers: &Answers) {
        let body = &answers.ours.body;
        if operation.is_dry() || operation.accept.is_some() || answers.ours.code > 201 {
            return;
        }
        if let Some(name) = body["metadata"]["name"].as_str() {
            let mut object = body.clone();
            for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                object["metadata"].as_object_mut().unwrap().remove(field);
            }
            let text = object.to_string().replace(&self.pair.our_memory.run, "<run>");
            let name = name.replace(&self.pair.our_memory.run, "<run>");
            let path = format!("{}/{name}", operation.collection());
            self.known.objects.insert(path, serde_json::from_str(&text).unwrap());
        }
    }

    async fn set_up(&mut self) {
        for namespace in requests::NAMESPACES {
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.step(Operation::new(Method::POST, "/api/v1/namespaces").with(&body)).await;
        }
        self.known.kinds = Kind::builtins();
        self.known.kinds.extend(project_kinds());
        for index in 0..KINDS {
            let namespaced = self.random.chance(85);
            let crd = schemas::crd(&mut self.random, "<run>.example", index, namespaced);
            let answers = self.step(Operation::new(Method::POST, DEFINITIONS).with(&crd)).await;
            if answers.ours.code == 201 && answers.theirs.code == 201 {
                let kind = Kind::of_crd(&crd, Vec::new());
                self.known.kinds.extend([kind.clone(), kind]);
            }
        }
    }
}

fn cut(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
    text
}

/// What a difference is about, whatever object it showed on.
fn signature(difference: &normalise::Difference) -> String {
    let path = regex::Regex::new("[0-9]+").unwrap().replace_all(&difference.path, "N").into_owned();
    let shape = |value: &Value| {
        let quoted = regex::Regex::new("\"[^\"]*\"|[0-9]+|[a-z-]+(\\.[a-z\\[\\]0-9-]+)+").unwrap();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        quoted.replace_all(&text, "_").chars().take(90).collect::<String>()
    };
    format!("{path} {} | {}", shape(&difference.ours), shape(&difference.theirs))
}

fn project_kinds() -> Vec<Kind> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/fixtures");
    let mut fixtures: Vec<Value> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        fixtures.push(serde_saphyr::from_str(&text).unwrap());
    }
    fixtures.sort_by_key(Value::to_string);
    let examples = |crd: &Value| {
        let kind = &crd["spec"]["names"]["kind"];
        fixtures.iter().filter(|fixture| fixture["kind"] == *kind).cloned().collect()
    };
    api::crd_values().iter().map(|crd| Kind::of_crd(crd, examples(crd))).collect()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn seeds() -> Vec<u64> {
    let fresh = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    };
    number("WARREN_SEED").map_or_else(|| vec![1, fresh()], |seed| vec![seed])
}

async fn install_project_crds(plane: &Plane) {
    let server = Server::Real(plane.client.clone());
    for crd in api::crd_values() {
        let prepared = servers::Prepared::new(Method::POST, DEFINITIONS).with(&crd);
        let reply = server.send(&prepared).await;
        assert_eq!(reply.code, 201, "{reply:?}");
    }
    for kind in project_kinds() {
        server.until(&format!("{}/{}", kind.root, kind.plural), |reply| reply.code == 200).await;
    }
}

#[tokio::test]
async fn the_same_operations_have_the_same_answers() {
    let plane = Plane::start().await;
    install_project_crds(&plane).await;
    let count = number("WARREN_OPERATIONS").unwrap_or(4000);
    let mut failed = false;
    for seed in seeds() {
        println!("seed {seed} (WARREN_SEED={seed} repeats it)");
        let begun = std::time::Instant::now();
        let mut run = Run::new(&plane, seed).await;
        run.set_up().await;
        for _ in 0..count {
            let operation = requests::operation(&mut run.random, &run.known);
            run.step(operation).await;
        }
        for (key, (times, first)) in &run.found {
            println!("=== {times} x {key}\n{first}\n");
        }
        println!(
            "seed {seed}: {} operations, {} kinds of difference, {:?}",
            run.done.len(),
            run.found.len(),
            begun.elapsed()
        );
        failed |= !run.found.is_empty();
    }
    assert!(!failed, "the servers differ");
}
