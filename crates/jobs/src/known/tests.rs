use std::collections::BTreeMap;

use kube::api::DynamicObject;
use proto::v1::job_name::Name;
use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn workflow(name: &str, job: &str, state: &str, version: u64) -> Workflow {
    Workflow::read(&object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"jobID": job, "desiredState": state, "dwDirectives": ["#DW jobdw name=a"]},
    })))
}

fn computes(names: &[&str], version: u64) -> Computes {
    let data: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    Computes::read(&object(json!({
        "metadata": {"name": "w", "namespace": "default", "resourceVersion": version.to_string()}, "data": data,
    })))
}

fn job(text: &str) -> JobName {
    JobName { name: Some(Name::Job(text.to_owned())) }
}

fn key(name: &str) -> WorkflowKey {
    ("default".to_owned(), name.to_owned())
}

/// Answers the next request to the API.
async fn answer_request(jobs: &Jobs, workflows: Vec<Workflow>, names: &[&str]) {
    let request = jobs.next_request().await;
    let found = request.computes.iter().map(|place| (place.clone(), Some(computes(names, 50))));
    let found: BTreeMap<_, _> = found.collect();
    jobs.request_answered(&request, workflows, found);
}

#[tokio::test]
async fn a_job_counts_as_unknown_only_after_a_list_that_was_requested_after_the_question() {
    let jobs = Jobs::default();
    jobs.replace_workflows(Vec::new());
    let early = jobs.register_question();
    assert_eq!(jobs.state(&job("7"), "n1", early).knowledge(), Knowledge::Uncertain);
    answer_request(&jobs, Vec::new(), &[]).await;
    assert_eq!(jobs.state(&job("7"), "n1", early).knowledge(), Knowledge::Unknown);
    let late = jobs.register_question();
    assert_eq!(jobs.state(&job("7"), "n1", late).knowledge(), Knowledge::Uncertain);
    answer_request(&jobs, vec![workflow("w", "7", "Setup", 9)], &[]).await;
    let known = jobs.state(&job("7"), "n1", late);
    assert_eq!((known.knowledge(), known.assignment()), (Knowledge::Known, Assignment::Unassigned));
}

#[tokio::test]
async fn a_node_counts_as_not_assigned_only_after_the_computes_were_read() {
    let jobs = Jobs::default();
    jobs.replace_workflows(vec![workflow("w", "7", "PreRun", 9)]);
    let ticket = jobs.register_question();
    assert_eq!(jobs.state(&job("7"), "n1", ticket).knowledge(), Knowledge::Uncertain);
    answer_request(&jobs, Vec::new(), &["n2", "n3"]).await;
    assert_eq!(jobs.state(&job("7"), "n1", ticket).assignment(), Assignment::AssignedToOthers);
    assert_eq!(jobs.state(&job("7"), "n2", ticket).assignment(), Assignment::Assigned);
    jobs.apply_computes(key("w"), computes(&["n1"], 60));
    assert_eq!(jobs.state(&job("7"), "n1", ticket).assignment(), Assignment::Assigned);
    jobs.apply_computes(key("w"), computes(&["n2"], 50));
    assert_eq!(
        jobs.state(&job("7"), "n1", ticket).assignment(),
        Assignment::Assigned,
        "an older version of the Computes is ignored"
    );
}

#[tokio::test]
async fn while_the_api_does_not_answer_the_answer_about_a_job_is_uncertain() {
    let jobs = Jobs::default();
    let ticket = jobs.register_question();
    jobs.state(&job("7"), "n1", ticket);
    let failed = jobs.next_request().await;
    assert!(jobs.request_failed(failed, "no answer".to_owned()));
    let state = jobs.state(&job("7"), "n1", ticket);
    assert_eq!((state.knowledge(), state.why.as_str()), (Knowledge::Uncertain, "no answer"));
    answer_request(&jobs, Vec::new(), &[]).await;
    assert_eq!(jobs.state(&job("7"), "n1", ticket).knowledge(), Knowledge::Unknown);
}

#[test]
fn an_older_version_or_the_deletion_of_an_earlier_workflow_changes_nothing() {
    let jobs = Jobs::default();
    jobs.apply_workflow(workflow("w", "7", "PreRun", 9));
    jobs.apply_workflow(workflow("w", "7", "Setup", 8));
    let desired = |jobs: &Jobs| jobs.state(&job("7"), "n1", Ticket(0)).desired_state;
    jobs.apply_computes(key("w"), computes(&["n1"], 1));
    assert_eq!(desired(&jobs), "PreRun");
    jobs.remove_workflow(&key("w"), "another");
    assert_eq!(desired(&jobs), "PreRun");
    assert!(jobs.lock().workflows.contains_key(&key("w")));
}

#[test]
fn a_job_id_of_two_workflows_is_ambiguous_unless_one_of_them_is_being_deleted() {
    let jobs = Jobs::default();
    let mut leaving = workflow("a", "7", "Teardown", 1);
    leaving.state.deleting = true;
    jobs.apply_workflow(leaving);
    jobs.apply_workflow(workflow("b", "7", "Setup", 2));
    assert_eq!(jobs.state(&job("7"), "n1", Ticket(0)).workflow, "b");
    jobs.apply_workflow(workflow("c", "7", "Setup", 3));
    let state = jobs.state(&job("7"), "n1", Ticket(0));
    assert_eq!(state.knowledge(), Knowledge::Ambiguous);
    assert!(state.why.contains("default/b, default/c"), "{}", state.why);
}
