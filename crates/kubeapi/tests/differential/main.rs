//! Compares `kubeapi` with a real kube-apiserver: both get the same random operations and must give the same answers.
//! The operations of a run follow from a seed.
//!
//! `WARREN_SEED` is the seed of a run to repeat; `WARREN_OPERATIONS` is the number of operations of a run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "a failed run prints the shortest way to its difference")]
#![expect(clippy::cast_possible_truncation, reason = "random numbers are small")]

mod cases;
#[path = "../contract/mod.rs"]
mod contract;
mod controllers;
mod kinds;
mod normalise;
mod operation;
mod random;
mod requests;
mod run;
mod schemas;
mod servers;
mod shrink;
mod values;
mod watches;

use http::Method;
use kinds::Kind;
use normalise::Difference;
use operation::Operation;
use random::Random;
use regex::Regex;
use requests::Knowledge;
use run::{Answers, Pair};
use serde_json::{Value, json};
use servers::{Plane, Server};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of kinds with random schemas in a run.
const KINDS: usize = 12;

/// A run in progress, with the differences found so far.
struct Run {
    pair: Pair,
    random: Random,
    known: Knowledge,
    done: Vec<Operation>,
    found: BTreeMap<String, Found>,
}

/// All differences that are equal but for names and numbers (see [`signature`]).
#[derive(Default)]
struct Found {
    times: usize,
    /// Number of operations up to and including the first operation that showed the difference.
    at: usize,
    shown: String,
}

impl Run {
    fn new(plane: &Plane, seed: u64) -> Self {
        let word = format!("r{:07x}", (seed ^ u64::from(plane.next_word()) << 20) & 0x0fff_ffff);
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
        if let Some(difference) = answers.differences.first() {
            let entry = self.found.entry(signature(&operation, difference)).or_default();
            entry.times += 1;
            if entry.times == 1 {
                entry.at = self.done.len();
                entry.shown = format!(
                    "at     {}\n  ours   {} {:.500}\n  theirs {} {:.500}\n  our answer   {}\n  their answer {}",
                    difference.path,
                    answers.ours.code,
                    cut(&difference.ours),
                    answers.theirs.code,
                    cut(&difference.theirs),
                    cut(&answers.ours.body),
                    cut(&answers.theirs.body)
                );
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
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                // Times: the clocks of the servers may differ.
                "deletionTimestamp",
                "managedFields",
            ] {
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

/// Returns the signature of a difference: the difference without names and numbers. So the same mistake has the same
/// signature in all objects, and is reported once.
fn signature(operation: &Operation, difference: &Difference) -> String {
    static NUMBERS: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9]+").unwrap());
    static NAMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("\"[^\"]*\"|[0-9]+|[a-z-]+(\\.[a-z\\[\\]0-9-]+)+").unwrap());
    let path = NUMBERS.replace_all(&difference.path, "N");
    let shape = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        NAMES.replace_all(&text, "_").chars().take(90).collect::<String>()
    };
    let (ours, theirs) = (shape(&difference.ours), shape(&difference.theirs));
    format!("{} {path} {ours} | {theirs}", operation.method)
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

/// Returns the seeds of the runs. They are constants, so that each execution of the test sends the same operations. If
/// `WARREN_SEED` is set, there is one run, with that seed.
fn seeds() -> Vec<u64> {
    number("WARREN_SEED").map_or_else(|| vec![1, 4, 11], |seed| vec![seed])
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
async fn both_servers_give_the_same_answers_to_random_operations() {
    let plane = Plane::start().await;
    install_project_crds(&plane).await;
    let count = number("WARREN_OPERATIONS").unwrap_or(4000);
    let mut failed = 0;
    for seed in seeds() {
        println!("seed {seed} (WARREN_SEED={seed} repeats it)");
        let begun = std::time::Instant::now();
        let mut run = Run::new(&plane, seed);
        run.set_up().await;
        let watches = watches::start(&run.pair, &run.known.kinds).await;
        for _ in 0..count {
            let operation = requests::operation(&mut run.random, &run.known);
            run.step(operation).await;
        }
        let mut others = Vec::new();
        if run.found.is_empty() {
            others = watches::differences(&run.pair, &watches).await;
            others.extend(contents(&mut run).await);
        }
        let kinds = run.found.len() + others.len();
        println!(
            "seed {seed}: {} operations, {kinds} differences, {:?}",
            run.done.len(),
            begun.elapsed()
        );
        others.iter().for_each(|other| println!("=== {other}"));
        for (what, found) in &run.found {
            println!(
                "=== {} x {what}\n#{} {:.700}\n  {}",
                found.times,
                found.at,
                run.done[found.at - 1],
                found.shown
            );
        }
        failed += kinds;
        report_shortest(&plane, &run).await;
    }
    assert_eq!(failed, 0, "the servers differ");
}

/// Compares all objects at the end of the run, and returns the differences.
async fn contents(run: &mut Run) -> Vec<String> {
    let mut found = Vec::new();
    for kind in run.known.kinds.clone() {
        for namespace in requests::NAMESPACES {
            let mut list = Operation::new(Method::GET, kind.list(namespace));
            if !kind.namespaced && !kind.custom {
                list = list.asking("labelSelector", "run=<run>");
            }
            let answers = run.pair.send(&list).await;
            let shown =
                answers.differences.iter().map(|difference| format!("{list}: {difference:?}"));
            found.extend(shown);
        }
    }
    found
}

/// Prints a short list of operations that shows the first difference of the run.
async fn report_shortest(plane: &Plane, run: &Run) {
    let Some((what, first)) = run.found.iter().min_by_key(|(_, found)| found.at) else { return };
    println!("the shortest way found to: {what}");
    for operation in shrink::shrink(plane, &run.done[..first.at], what).await {
        println!("    {operation}");
    }
}

/// Sends the operations that once had different answers, and checks that their answers are now the same.
#[tokio::test]
async fn both_servers_give_the_same_answers_to_operations_that_once_differed() {
    let plane = Plane::start().await;
    install_project_crds(&plane).await;
    let ours = Server::embedded(api::crd_values());
    let mut pair = Pair::new(ours, Server::Real(plane.client.clone()), "c0000000");
    let mut failed = 0;
    for operation in cases::operations() {
        let answers = pair.send(&operation).await;
        for difference in &answers.differences {
            println!("{operation}\n  {difference:?}");
            failed += 1;
        }
    }
    assert_eq!(failed, 0, "the servers differ");
}
