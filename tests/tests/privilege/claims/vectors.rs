//! Changes of a ContainerRun's status, each with the rules that refuse it. There are recorded cases (vectors), and a
//! case for every change of phase with every kind of claim, attempt and writer stamp (`status.writer`).

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use anyhow::{Context, ensure};
use api::{ContainerRun, ContainerRunPhase as Phase, ContainerRunStatus as Status};
use containers::claim::rules::{Part, refusals};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json};
use tests::{claims::NAMESPACE, cluster::PATIENCE};

use crate::installed::{Installed, tree};

/// Number of requests that are sent at the same time.
const CONCURRENCY: usize = 16;
/// Names of all rules: R0 to R9 are rules of the CRD, V1 and V2 are those of the admission policy.
const NAMES: [&str; 12] = ["R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "V1", "V2"];

/// Clients with the credentials of the administrator, of two coordinator pods (with the pods' UIDs), and of the
/// coordinator's account without a pod.
pub(super) struct Callers {
    pub(super) administrator: Client,
    pub(super) pods: [(Client, String); 2],
    pub(super) unbound: Client,
}

/// A change of the status, and the names of the rules that refuse it.
pub(super) struct Case {
    name: String,
    /// Name of the ContainerRun. Several cases may use the same ContainerRun, since each change is a dry run.
    run: String,
    /// Index of the pod that sends the request; `None` for a client without a pod.
    caller: Option<usize>,
    is_of_status: bool,
    old: Option<Value>,
    new: Option<Value>,
    refused_by: BTreeSet<String>,
}

/// Reads the recorded vectors, and replaces the names of pods by their UIDs.
pub(super) fn golden(callers: &Callers) -> anyhow::Result<Vec<Case>> {
    let text = std::fs::read_to_string(tree("crates/containers/golden/claim/vectors.json"))?;
    let names = ["uid-a", "uid-b"];
    let with_uids = |text: String| {
        let pods = names.iter().zip(&callers.pods);
        pods.fold(text, |text, (name, (_, uid))| text.replace(name, uid))
    };
    let vectors: Vec<Value> = serde_json::from_str(&text)?;
    ensure!(vectors.len() == 69, "{} vectors", vectors.len());
    let case = |(place, vector): (usize, &Value)| {
        let status = |status: &Value| match status {
            Value::Null => Ok(None),
            status => serde_json::from_str(&with_uids(status.to_string())).map(Some),
        };
        let denied = vector["denyBy"].as_array().context("denyBy")?;
        anyhow::Ok(Case {
            name: vector["name"].to_string(),
            run: format!("vector-{place}"),
            caller: names.iter().position(|name| vector["callerPodUid"] == *name),
            is_of_status: vector["subresource"] == "status",
            old: status(&vector["old"])?,
            new: status(&vector["new"])?,
            refused_by: denied.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    };
    vectors.iter().enumerate().map(case).collect()
}

/// Returns cases for each change from a phase or no status to any phase or no status: with the same or a higher epoch,
/// sequence number of the writer stamp, and attempt, by the holder and by another pod. Each change to a phase also has
/// a case with the numbers of a first claim. The expected refusals are those of the embedded API's code.
pub(super) fn every_change(callers: &Callers) -> Vec<Case> {
    let mut cases = Vec::new();
    let phases: Vec<Option<&str>> =
        [None].into_iter().chain(Phase::VALUES.iter().copied().map(Some)).collect();
    for old in &phases {
        let run = format!("from-{}", old.unwrap_or("nothing").to_lowercase());
        let before = old.map(|phase| status(callers, phase, 0, (3, 3, 2)));
        for new in &phases {
            for raised in 0..16 {
                // The removal of a status needs only one case, and none if there is no status.
                if new.is_none() && (raised > 0 || old.is_none()) {
                    continue;
                }
                let bit = |bit: u8| i64::from(raised >> bit & 1);
                let (holder, numbers) =
                    (usize::from(bit(3) == 1), (3 + bit(0), 3 + bit(1), 2 + bit(2)));
                let after = new.map(|phase| status(callers, phase, holder, numbers));
                cases.push(case(callers, &run, holder, before.clone(), after));
                if let Some(phase) = new.filter(|_| raised == 0) {
                    let first = Some(status(callers, phase, holder, (1, 1, 1)));
                    cases.push(case(callers, &run, holder, before.clone(), first));
                }
            }
        }
    }
    cases
}

fn status(callers: &Callers, phase: &str, holder: usize, numbers: (i64, i64, i64)) -> Value {
    let holder = format!("{}/1", callers.pods[holder].1);
    let (epoch, seq, attempt) = numbers;
    json!({
        "claim": {"holder": holder, "epoch": epoch},
        "writer": {"holder": holder, "epoch": epoch, "seq": seq},
        "phase": phase, "attempt": attempt,
    })
}

fn case(
    callers: &Callers,
    run: &str,
    caller: usize,
    old: Option<Value>,
    new: Option<Value>,
) -> Case {
    let read = |status: &Option<Value>| -> Option<Status> {
        from_value(status.clone()?).expect("a status")
    };
    let part = Part::Status(Some(callers.pods[caller].1.as_str()));
    let refused = refusals(read(&old).as_ref(), read(&new).as_ref(), part);
    Case {
        name: format!("{old:?} to {new:?}"),
        run: run.to_owned(),
        caller: Some(caller),
        is_of_status: true,
        old,
        new,
        refused_by: refused.into_iter().map(|rule| rule.text()[..2].to_owned()).collect(),
    }
}

/// Installs the CRD, with its rules or without them.
pub(super) fn install_crd(installed: &Installed, has_rules: bool) -> anyhow::Result<()> {
    let crds = if has_rules { api::ruled_crd_values() } else { api::crd_values() };
    let crd = crds.into_iter().find(|crd| crd["spec"]["names"]["kind"] == "ContainerRun");
    let crd = crd.context("the CRD")?;
    installed.server_side_apply(&crd)
}

fn runs(client: &Client) -> Api<ContainerRun> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Creates, as the administrator, each ContainerRun with its old status.
pub(super) async fn store(callers: &Callers, cases: &[Case]) -> anyhow::Result<()> {
    until_rules_are_gone(&callers.administrator).await?;
    let mut runs_so_far = BTreeSet::new();
    let cases: Vec<&Case> =
        cases.iter().filter(|case| runs_so_far.insert(case.run.as_str())).collect();
    let stored =
        stream::iter(cases).map(Ok).try_for_each_concurrent(CONCURRENCY, |case| async move {
            let runs = runs(&callers.administrator);
            let run = ContainerRun::new(&case.run, from_value(json!({}))?);
            runs.create(&PostParams::default(), &run).await?;
            if let Some(old) = &case.old {
                let patch = Patch::Merge(json!({"status": old}));
                runs.patch_status(&case.run, &PatchParams::default(), &patch).await?;
            }
            anyhow::Ok(())
        });
    stored.await
}

/// Sends each change as a dry run. Fails if the server's refusals differ from the expected ones, and lists the cases in
/// which they differ.
pub(super) async fn judge(callers: &Callers, cases: &[Case]) -> anyhow::Result<()> {
    let answers = stream::iter(cases).map(|case| async move {
        let refused = refusing_rules(callers, case).await.with_context(|| case.name.clone())?;
        anyhow::Ok((case, refused))
    });
    let answers: Vec<_> = answers.buffer_unordered(CONCURRENCY).try_collect().await?;
    let mut wrong = String::new();
    for (case, refused) in answers {
        // If a rule of the CRD (R…) refuses a change, the server does not evaluate the policy (rules V…).
        let is_rule = |name: &&String| name.starts_with('R');
        let of_crd: BTreeSet<String> = case.refused_by.iter().filter(is_rule).cloned().collect();
        let expected = if of_crd.is_empty() { &case.refused_by } else { &of_crd };
        // The policy's answer names only the first rule that refuses the change.
        let agrees = match expected.iter().any(|name| name.starts_with('V')) {
            true => !refused.is_empty() && refused.is_subset(expected),
            false => refused == *expected,
        };
        if !agrees {
            writeln!(wrong, "{}: refused by {refused:?}, not {expected:?}", case.name)?;
        }
    }
    ensure!(wrong.is_empty(), "of {}:\n{wrong}", cases.len());
    Ok(())
}

/// Sends a change as a dry run, and returns the rules that refuse it.
async fn refusing_rules(callers: &Callers, case: &Case) -> anyhow::Result<BTreeSet<String>> {
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let client = match case.caller {
        Some(pod) => &callers.pods[pod].0,
        None if case.is_of_status => &callers.unbound,
        None => &callers.administrator,
    };
    let answer = if case.is_of_status {
        let patch = status_patch(case.old.is_some(), case.new.as_ref())?;
        runs(client).patch_status(&case.run, &dry, &patch).await
    } else {
        let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        runs(client).patch(&case.run, &dry, &labelled).await
    };
    match answer {
        Ok(_) => Ok(BTreeSet::new()),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let is_named = |name: &&&str| status.message.contains(&format!("{name} "));
            Ok(NAMES.iter().filter(is_named).map(|&name| name.to_owned()).collect())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns a patch that replaces the whole status: a merge patch would keep fields that `new` does not have.
fn status_patch(is_there: bool, new: Option<&Value>) -> anyhow::Result<Patch<ContainerRun>> {
    let operations = match (is_there, new) {
        (_, Some(new)) => json!([{"op": "add", "path": "/status", "value": new}]),
        (true, None) => json!([{"op": "remove", "path": "/status"}]),
        (false, None) => json!([]),
    };
    Ok(Patch::Json(serde_json::from_value(operations)?))
}

/// Waits until the CRD's rules and the policy are in force, about a second after their creation. Sends a change that
/// both refuse, and then a change that only the policy refuses.
pub(super) async fn until_in_force(administrator: &Client, caller: &Client) -> anyhow::Result<()> {
    let run = ContainerRun::new("probe", from_value(json!({}))?);
    runs(administrator).create(&PostParams::default(), &run).await?;
    let first = |phase: &str| {
        Patch::Merge(json!({"status": {
            "claim": {"holder": "x/1", "epoch": 1}, "writer": {"holder": "x/1", "epoch": 1, "seq": 1},
            "phase": phase, "attempt": 1,
        }}))
    };
    for patch in [first("Running"), first("Claimed")] {
        until(async || Ok(dry_run(caller, &patch).await? == 422)).await?;
    }
    Ok(())
}

/// Waits until the server uses the CRD that has no rules.
async fn until_rules_are_gone(administrator: &Client) -> anyhow::Result<()> {
    let run = ContainerRun::new("unruled", from_value(json!({}))?);
    runs(administrator).create(&PostParams::default(), &run).await?;
    let patch = Patch::Merge(json!({"status": {
        "claim": {"holder": "x/1", "epoch": 7}, "writer": {"holder": "y/1", "epoch": 1, "seq": 1},
        "phase": "Running", "attempt": 3,
    }}));
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    until(async || {
        let answer = runs(administrator).patch_status("unruled", &dry, &patch).await;
        Ok(answer.is_ok())
    })
    .await
}

/// Sends a patch as a dry run, and returns the HTTP status. The status is 403 until the caller's rights take effect.
async fn dry_run(client: &Client, patch: &Patch<Value>) -> anyhow::Result<u16> {
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    match runs(client).patch_status("probe", &dry, patch).await {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error.into()),
    }
}

async fn until(mut done: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let waited = async {
        while !done().await? {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, waited).await.context("the rules of claims")?
}
