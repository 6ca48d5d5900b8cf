//! An overloaded API server: API Priority and Fairness refuses all requests of the daemons with 429.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::ensure;
use k8s_openapi::api::{
    core::v1::Namespace,
    flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, VersionMatch},
};
use serde_json::json;
use tests::{
    cluster::PATIENCE,
    disturbed::{ANOTHER, DAEMONS, Disturbed},
    program::{pause, until},
};

use crate::{no_program_died, pids_of};

const STORM: Duration = Duration::from_secs(20);
/// Largest number of requests that one daemon may send during the overload. A daemon exceeds it if its delay between
/// retries does not grow.
const PER_DAEMON: usize = 60;

#[test]
fn daemons_back_off_while_the_server_answers_429() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(4, "raw")?;
    fixture.run.job.capacity = 4 << 20;
    fixture.run.carve_and_mount()?;
    let pids = pids_of(&fixture)?;

    let client = disturbed.client()?;
    let levels: Api<PriorityLevelConfiguration> = Api::all(client.clone());
    let schemas: Api<FlowSchema> = Api::all(client);
    disturbed.wait(async {
        levels.create(&PostParams::default(), &level_without_seats()?).await?;
        schemas.create(&PostParams::default(), &schema_of_daemons()?).await?;
        anyhow::Ok(())
    })?;
    until("the flow schema to be in force", PATIENCE, || {
        ensure!(is_in_force(&disturbed.wait(schemas.get("storm"))?), "not yet");
        Ok(())
    })?;
    let refused = || -> anyhow::Result<usize> {
        let audit = disturbed.plane.audit()?;
        Ok(audit.iter().filter(|event| event.user == DAEMONS && event.code == 429).count())
    };
    let busy = disturbed.kubeconfig_of(ANOTHER)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let place = scope.spawn(|| occupy_the_seat(&busy, &over));
        let sat_out = (|| {
            fixture.run.unmount_from_computes()?;
            until("the storm", PATIENCE, || {
                ensure!(refused()? > 0, "no request was refused yet");
                Ok(())
            })?;
            pause(STORM);
            anyhow::Ok(())
        })();
        over.store(true, Ordering::Relaxed);
        sat_out.and(place.join().expect("the thread panicked"))
    })?;
    let requests = refused()?;
    ensure!(requests < 2 * PER_DAEMON, "two daemons sent {requests} requests in {STORM:?}");
    disturbed.wait(schemas.delete("storm", &DeleteParams::default()))?;

    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    no_program_died(&fixture, &pids)?;
    fixture.end()
}

/// Returns true once the server applies the flow schema. The server shows that by the condition Dangling with status
/// False, which means that the schema's priority level exists.
fn is_in_force(schema: &FlowSchema) -> bool {
    let conditions = schema.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut known = conditions.filter(|condition| condition.type_.as_deref() == Some("Dangling"));
    known.any(|condition| condition.status.as_deref() == Some("False"))
}

/// Occupies the priority level's last seat until `over` is set: a level without shares still admits one request while
/// no other runs (`canAccommodateSeatsLocked` in apiserver's `queueset.go`). Each request asks for a list at a resource
/// version that the server does not have yet, and so the server waits 3 s.
fn occupy_the_seat(kubeconfig: &Path, over: &AtomicBool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = control_plane::client_without_retry(kubeconfig).await?;
        let namespaces: Api<Namespace> = Api::all(client);
        let never = ListParams::default().at("999999999999").matching(VersionMatch::NotOlderThan);
        while !over.load(Ordering::Relaxed) {
            if namespaces.list(&never).await.is_ok() {
                anyhow::bail!(
                    "the server answered a request for a resource version that does not exist"
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    })
}

/// Returns a priority level without concurrency shares, which rejects requests instead of queueing them.
fn level_without_seats() -> serde_json::Result<PriorityLevelConfiguration> {
    serde_json::from_value(json!({
        "metadata": {"name": "storm"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    }))
}

/// Returns a flow schema that puts the daemons, and the user that occupies the seat, into the
/// priority level without seats.
fn schema_of_daemons() -> serde_json::Result<FlowSchema> {
    let subjects = [DAEMONS, ANOTHER].map(|name| json!({"kind": "User", "user": {"name": name}}));
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}),
    ];
    serde_json::from_value(json!({
        "metadata": {"name": "storm"},
        "spec": {
            "matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "storm"},
            "rules": [{
                "subjects": subjects,
                "resourceRules": everything,
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    }))
}
