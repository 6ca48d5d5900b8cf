//! Tests which changes of Workflows the engine's rules refuse, and that the packaged admission policy refuses the same
//! changes on a real API server without a coordinator.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{api_server::ApiServer, cluster::PATIENCE, gate, program::until, webhook::packaged};

/// Returns a Workflow with one directive.
pub(crate) fn workflow(name: &str, desired: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "desiredState": desired, "wlmID": "test", "jobID": 7, "userID": 1050, "groupID": 1050, "hurry": false,
            "forceReady": false, "dwDirectives": ["#DW jobdw type=xfs capacity=1GiB name=scratch"],
        },
        "status": status,
    })
}

/// Returns a status in this state, with two shares (entries of `status.drivers`): one of this state
/// and one of Teardown.
fn status(state: &str, ready: bool) -> Value {
    let share = |watched: &str, completed: bool| {
        json!({
            "driverID": "nnf", "taskID": "", "dwdIndex": 0, "watchState": watched, "lastHB": 0, "completed": completed,
            "status": if completed { "Completed" } else { "Running" },
        })
    };
    json!({"state": state, "ready": ready, "drivers": [share(state, ready), share("Teardown", false)]})
}

struct Case {
    name: &'static str,
    /// Stored Workflow; `None` for a creation.
    old: Option<Value>,
    new: Value,
    /// Words in the refusal; `None` if the change is admitted.
    refused: Option<&'static str>,
}

/// Returns a case that changes a stored Workflow.
fn change(
    name: &'static str,
    old: Value,
    edit: impl FnOnce(&mut Value),
    refused: Option<&'static str>,
) -> Case {
    let mut new = old.clone();
    edit(&mut new);
    Case { name, old: Some(old), new, refused }
}

fn creation(
    name: &'static str,
    edit: impl FnOnce(&mut Value),
    refused: Option<&'static str>,
) -> Case {
    let mut new = workflow(name, "Proposal", &json!({"ready": false}));
    edit(&mut new);
    Case { name, old: None, new, refused }
}

fn creations() -> Vec<Case> {
    vec![
        creation("new", |_| (), None),
        creation(
            "new-in-setup",
            |new| new["spec"]["desiredState"] = "Setup".into(),
            Some("created in Proposal"),
        ),
        creation("new-in-a-hurry", |new| new["spec"]["hurry"] = true.into(), Some("spec.hurry")),
        creation(
            "new-and-ready",
            |new| new["status"] = status("Proposal", true),
            Some("only the engine may set them"),
        ),
        creation(
            "new-and-ahead",
            |new| new["status"] = status("Setup", false),
            Some("only the engine may set them"),
        ),
        creation("new-with-shares", |new| new["status"] = status("Proposal", false), None),
    ]
}

fn states() -> Vec<Case> {
    let in_state = |name, state, ready| workflow(name, state, &status(state, ready));
    let to =
        |state: &'static str| move |new: &mut Value| new["spec"]["desiredState"] = state.into();
    vec![
        change("next", in_state("next", "Proposal", true), to("Setup"), None),
        change(
            "early",
            in_state("early", "Proposal", false),
            to("Setup"),
            Some("Proposal is not ready"),
        ),
        change(
            "skipping",
            in_state("skipping", "Proposal", true),
            to("PreRun"),
            Some("spec.desiredState is PreRun: after Proposal comes Setup, or Teardown"),
        ),
        change(
            "backwards",
            in_state("backwards", "PreRun", true),
            to("Setup"),
            Some("spec.desiredState is Setup: after PreRun comes PostRun, or Teardown"),
        ),
        change("to-teardown", in_state("to-teardown", "Setup", false), to("Teardown"), None),
        change(
            "after-teardown",
            in_state("after-teardown", "Teardown", true),
            to("Proposal"),
            Some("nothing follows Teardown"),
        ),
        change(
            "in-a-hurry",
            in_state("in-a-hurry", "Setup", false),
            |new| new["spec"]["hurry"] = true.into(),
            Some("spec.hurry"),
        ),
        change(
            "teardown-in-a-hurry",
            in_state("teardown-in-a-hurry", "Setup", false),
            |new| {
                (new["spec"]["hurry"], new["spec"]["desiredState"]) =
                    (true.into(), "Teardown".into());
            },
            None,
        ),
        change(
            "forced",
            in_state("forced", "Setup", false),
            |new| new["spec"]["forceReady"] = true.into(),
            None,
        ),
    ]
}

fn fields() -> Vec<Case> {
    let set = |field: &'static str, value: Value, refused| {
        let old = workflow(field, "Setup", &status("Setup", false));
        let old = {
            let mut old = old;
            old["metadata"]["name"] = field.to_lowercase().into();
            old
        };
        change(field, old, move |new| new["spec"][field] = value, refused)
    };
    vec![
        set("wlmID", "other".into(), Some("spec.wlmID is immutable")),
        set("jobID", "7".into(), Some("spec.jobID is immutable")),
        set("userID", 0.into(), Some("spec.userID is immutable")),
        set("groupID", 0.into(), Some("spec.groupID is immutable")),
        set("dwDirectives", json!([]), Some("spec.dwDirectives is immutable")),
    ]
}

fn shares() -> Vec<Case> {
    let setup = |name| workflow(name, "Setup", &status("Setup", false));
    let share = |place: usize, field: &'static str, value: Value| {
        move |new: &mut Value| new["status"]["drivers"][place][field] = value
    };
    let completed = |place: usize, status: &'static str, error: &'static str| {
        move |new: &mut Value| {
            let share = &mut new["status"]["drivers"][place];
            (share["completed"], share["status"], share["error"]) =
                (true.into(), status.into(), error.into());
        }
    };
    let remove =
        |new: &mut Value| drop(new["status"]["drivers"].as_array_mut().map(|shares| shares.pop()));
    let ready = workflow("undone", "Setup", &status("Setup", true));
    vec![
        change("message", setup("message"), share(0, "message", "pending storage".into()), None),
        change("done", setup("done"), completed(0, "Completed", ""), None),
        change(
            "done-running",
            setup("done-running"),
            completed(0, "Running", ""),
            Some("status.drivers"),
        ),
        change(
            "done-wrong",
            setup("done-wrong"),
            completed(0, "Completed", "oh"),
            Some("status.drivers"),
        ),
        change(
            "other-state",
            setup("other-state"),
            share(1, "message", "x".into()),
            Some("status.drivers"),
        ),
        change("removed", setup("removed"), remove, Some("no entry may be added or removed")),
        change("undone", ready, share(0, "completed", false.into()), Some("status.drivers")),
    ]
}

fn cases() -> Vec<Case> {
    [creations(), states(), fields(), shares()].into_iter().flatten().collect()
}

#[test]
fn the_engine_admits_exactly_the_changes_that_the_table_admits() {
    for Case { name, old, new, refused } in cases() {
        let judged = workflow::admit(old.as_ref(), &new, None);
        let is_right = match (&judged, refused) {
            (Ok(()), None) => true,
            (Err(refusal), Some(words)) => refusal.contains(words),
            _ => false,
        };
        assert!(is_right, "{name}: {judged:?}, expected {refused:?}");
    }
}

#[test]
fn the_admission_policy_admits_exactly_the_changes_that_the_table_admits() -> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let server = ApiServer::real(directory.path())?;
    server.install_crds(|_| ())?;
    let cases = cases();
    for old in cases.iter().filter_map(|case| case.old.as_ref()) {
        server.create(old)?;
    }
    for policy in packaged()?.iter().filter(|object| object.get("webhooks").is_none()) {
        server.create(policy)?;
    }
    until("the policy to be in force", PATIENCE, || {
        let probe = workflow("probe", "Setup", &json!({}));
        let answer = server.create(&probe);
        ensure!(answer.is_err(), "a Workflow was created in Setup");
        Ok(())
    })?;
    for Case { name, old, mut new, refused } in cases {
        let answer = match old {
            None => server.create(&new),
            Some(old) => {
                let stored = server.get(&old)?.with_context(|| format!("{name} is gone"))?;
                new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                server.replace(&new)
            }
        };
        match (answer, refused) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => {
                let text = format!("{error:#}");
                ensure!(text.contains(words), "{name}: {text}, expected {words:?}");
            }
            (answer, refused) => anyhow::bail!("{name}: {answer:?}, expected {refused:?}"),
        }
    }
    Ok(())
}

/// The agent needs the pinned profile to remove the storage, and runs the profile's command lines as root.
#[test]
fn the_admission_policy_refuses_changes_and_deletions_of_pinned_profiles() -> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let server = ApiServer::real(directory.path())?;
    server.install_crds(|_| ())?;
    let owner = server.create(&workflow("owner", "Proposal", &json!({"ready": false})))?;
    let profile = |name: &str, pinned: bool, is_owned: bool| {
        let owner = json!([{
            "apiVersion": owner["apiVersion"], "kind": "Workflow", "name": "owner", "uid": owner["metadata"]["uid"],
        }]);
        let owners = if is_owned { owner } else { json!([]) };
        json!({
            "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfStorageProfile",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}, "data": {"pinned": pinned},
        })
    };
    let kept = profile("kept", true, true);
    let free = [profile("template", false, true), profile("pinned-by-hand", true, false)];
    for object in free.iter().chain([&kept]) {
        server.create(object)?;
    }
    for policy in packaged()?.iter().filter(|object| object.get("webhooks").is_none()) {
        server.create(policy)?;
    }
    let mut is_default = false;
    until("the policy to be in force", PATIENCE, || {
        is_default = !is_default;
        let answer = server.patch(&kept, &json!({"data": {"default": is_default}}), false);
        let why = answer.err().context("a pinned profile was changed")?;
        ensure!(format!("{why:#}").contains("data of a pinned profile may not change"), "{why:#}");
        Ok(())
    })?;
    server.patch(&kept, &json!({"metadata": {"labels": {"a": "b"}}}), false)?;
    let why = server.delete(&kept).err().context("a pinned profile was deleted")?;
    ensure!(format!("{why:#}").contains("belongs to its Workflow owner"), "{why:#}");
    for object in &free {
        server.delete(object)?;
    }
    Ok(())
}
