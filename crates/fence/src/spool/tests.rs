use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::{
    request::tests::{body, name},
    response::Verdict,
};

fn spool() -> (tempfile::TempDir, Spool) {
    let directory = tempfile::tempdir().unwrap();
    let [requests, responses] = ["requests", "responses"].map(|name| directory.path().join(name));
    let spool = Spool::open(requests, responses, true).unwrap();
    (directory, spool)
}

fn write_request(spool: &Spool, node: &str) -> FileName {
    let name = name(node);
    fs::write(spool.requests.join(name.to_string()), body(node).to_string()).unwrap();
    name
}

fn answer(spool: &Spool, name: &FileName, verdict: &Verdict) {
    let bytes = body(name.node().as_str()).to_string();
    let request = Request::read(name, bytes.as_bytes()).unwrap();
    spool.answer(name, &Response::new(&request, verdict, Timestamp::UNIX_EPOCH)).unwrap();
}

fn nodes<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Vec<&'a str> {
    names.into_iter().map(NodeName::as_str).collect()
}

#[test]
fn directories_are_created_only_in_an_existing_parent() {
    let (directory, spool) = spool();
    Spool::open(spool.requests, spool.responses, false).unwrap();
    let missing = directory.path().join("not-mounted/requests");
    let error = Spool::open(missing.clone(), directory.path().join("responses"), true).unwrap_err();
    assert!(error.to_string().contains("--fence-requests"), "{error}");
    assert!(!missing.parent().unwrap().exists(), "a disk that is mounted later would hide it");
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Spool::open(file, directory.path().join("responses"), true).is_err());
    let gone = directory.path().join("gone");
    assert!(Spool::open(gone.clone(), directory.path().join("responses"), false).is_err());
    assert!(!gone.exists());
}

#[test]
fn an_answered_request_needs_no_other_answer_and_its_node_counts_as_fenced() {
    let (_directory, spool) = spool();
    assert_eq!(spool.scan().unwrap(), Scan::default());
    let name = write_request(&spool, "compute-01");
    let scan = spool.scan().unwrap();
    assert!(scan.requested.contains_key(&name) && scan.fenced.is_empty());

    // A crash came between the answer and the deletion of the request.
    answer(&spool, &name, &Verdict::Detached(String::new()));
    let scan = spool.scan().unwrap();
    assert_eq!((nodes(&scan.fenced), scan.requested.len()), (vec!["compute-01"], 0));
    assert_eq!(scan.answered, [(name.clone(), true)].into());
    spool.delete(&name).unwrap();
    spool.delete(&name).unwrap();
    let scan = spool.scan().unwrap();
    assert_eq!((nodes(&scan.fenced), scan.answered.len()), (vec!["compute-01"], 0));

    fs::remove_file(spool.responses.join(name.to_string())).unwrap();
    assert_eq!(spool.scan().unwrap(), Scan::default());
    let bytes = body("compute-01").to_string();
    let request = Request::read(&name, bytes.as_bytes()).unwrap();
    let verdict = Verdict::Detached(String::new());
    spool.amend(&name, &Response::new(&request, &verdict, Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(spool.scan().unwrap(), Scan::default(), "the node is not fenced again");
}

#[test]
fn a_node_counts_as_fenced_after_an_answer_of_success_but_not_after_a_refusal() {
    let (_directory, spool) = spool();
    let name = write_request(&spool, "compute-01");
    answer(&spool, &name, &Verdict::NotProved(String::new()));
    let scan = spool.scan().unwrap();
    assert!(scan.fenced.is_empty());
    assert_eq!(scan.answered, [(name.clone(), false)].into());
    let other = name.to_string().replace("0b9b", "1b9b");
    fs::write(spool.responses.join(other), r#"{"status": "success"}"#).unwrap();
    assert_eq!(nodes(&spool.scan().unwrap().fenced), ["compute-01"]);
}

#[test]
fn an_incomplete_request_is_ignored_and_the_node_of_an_incomplete_answer_counts_as_fenced() {
    let (_directory, spool) = spool();
    let name = write_request(&spool, "compute-01");
    let request = spool.requests.join(name.to_string());
    fs::write(&request, &body("compute-01").to_string()[..40]).unwrap();
    fs::write(spool.requests.join(".half.json"), "{").unwrap();
    fs::write(spool.requests.join("notes.txt"), "x").unwrap();
    fs::write(spool.requests.join("x.json"), "{}").unwrap();
    fs::create_dir(spool.requests.join(name.to_string().replace("01-", "03-"))).unwrap();
    let torn = name.to_string().replace("01-", "02-");
    fs::write(spool.responses.join(&torn), r#"{"success": tr"#).unwrap();
    let scan = spool.scan().unwrap();
    assert!(scan.requested.is_empty() && scan.answered.is_empty());
    assert_eq!(nodes(&scan.fenced), ["compute-02"]);
    assert_eq!(scan.troubles.len(), 4, "{:#?}", scan.troubles);
    assert!(request.exists());

    // The writer completes the file.
    write_request(&spool, "compute-01");
    assert_eq!(spool.scan().unwrap().requested.len(), 1);
}

#[test]
fn an_incomplete_answer_is_replaced() {
    let (_directory, spool) = spool();
    let name = write_request(&spool, "compute-01");
    let path = spool.responses.join(name.to_string());
    fs::write(&path, r#"{"success": tr"#).unwrap();
    let scan = spool.scan().unwrap();
    assert!(scan.requested.contains_key(&name) && scan.answered.is_empty());
    answer(&spool, &name, &Verdict::NotProved("x".into()));
    assert!(spool.scan().unwrap().fenced.is_empty(), "the new answer replaced the torn one");
}

#[test]
fn a_temporary_file_of_a_crash_is_no_answer() {
    let (_directory, spool) = spool();
    let name = write_request(&spool, "compute-01");
    fs::write(spool.responses.join(format!(".{name}")), r#"{"success": true}"#).unwrap();
    let scan = spool.scan().unwrap();
    assert!(scan.fenced.is_empty() && scan.requested.contains_key(&name));
    answer(&spool, &name, &Verdict::Detached(String::new()));
    assert!(!spool.responses.join(format!(".{name}")).exists());
}

#[test]
fn a_missing_directory_is_an_error() {
    let (_directory, spool) = spool();
    fs::remove_dir(&spool.responses).unwrap();
    assert!(spool.scan().is_err());
    let name = write_request(&spool, "compute-01");
    let request = Request::read(&name, body("compute-01").to_string().as_bytes()).unwrap();
    let verdict = Verdict::Detached(String::new());
    let response = Response::new(&request, &verdict, Timestamp::UNIX_EPOCH);
    assert!(spool.answer(&name, &response).is_err());
}
