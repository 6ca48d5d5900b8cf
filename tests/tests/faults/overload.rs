//! A server that puts everybody off: real 429 answers, by priority and fairness.

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

use crate::{nobody_died, pids_of};

const STORM: Duration = Duration::from_secs(20);
/// What each daemon may ask in that time without making the storm worse: a back-off that grows, not a loop.
const PER_DAEMON: usize = 60;

#[test]
fn a_storm_of_429_is_sat_out() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(4, "raw")?;
    fixture.run.job.capacity = 4 << 20;
    fixture.run.carve_and_mount()?;
    let pids = pids_of(&fixture)?;

    let client = disturbed.client()?;
    let levels: Api<PriorityLevelConfiguration> = Api::all(client.clone());
    let schemas: Api<FlowSchema> = Api::all(client);
    disturbed.wait(async {
        levels.create(&PostParams::default(), &nobody_gets_in()?).await?;
        schemas.create(&PostParams::default(), &the_daemons()?).await?;
        anyhow::Ok(())
    })?;
    until("the storm to be taken up", PATIENCE, || {
        ensure!(is_taken_up(&disturbed.wait(schemas.get("storm"))?), "the server has not yet");
        Ok(())
    })?;
    let refused = || -> anyhow::Result<usize> {
        let audit = disturbed.plane.audit()?;
        Ok(audit.iter().filter(|event| event.user == DAEMONS && event.code == 429).count())
    };
    let busy = disturbed.kubeconfig_of(ANOTHER)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let place = scope.spawn(|| keep_the_place_taken(&busy, &over));
        let sat_out = (|| {
            fixture.run.unmount_from_computes()?;
            until("the storm", PATIENCE, || {
                ensure!(refused()? > 0, "nobody was refused yet");
                Ok(())
            })?;
            pause(STORM);
            anyhow::Ok(())
        })();
        over.store(true, Ordering::Relaxed);
        sat_out.and(place.join().expect("the thread panicked"))
    })?;
    let told = refused()?;
    ensure!(told < 2 * PER_DAEMON, "two daemons asked {told} times in {STORM:?}");
    disturbed.wait(schemas.delete("storm", &DeleteParams::default()))?;

    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    nobody_died(&fixture, &pids)?;
    fixture.end()
}

/// A schema counts some time after it was stored; once it does, the server has looked for its level.
fn is_taken_up(schema: &FlowSchema) -> bool {
    let conditions = schema.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut known = conditions.filter(|condition| condition.type_.as_deref() == Some("Dangling"));
    known.any(|condition| condition.status.as_deref() == Some("False"))
}

/// Asks, one request after the other, for a list newer than the server will ever be, for which it waits 3 s: a level without a
/// share still lets one request in while no other is carried out (`canAccommodateSeatsLocked` in apiserver's `queueset.go`).
fn keep_the_place_taken(kubeconfig: &Path, over: &AtomicBool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = control_plane::client_without_retry(kubeconfig).await?;
        let namespaces: Api<Namespace> = Api::all(client);
        let never = ListParams::default().at("999999999999").matching(VersionMatch::NotOlderThan);
        while !over.load(Ordering::Relaxed) {
            if namespaces.list(&never).await.is_ok() {
                anyhow::bail!("the server knows a version that it cannot have");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    })
}

/// A level without any share of the server, that rejects who does not fit in.
fn nobody_gets_in() -> serde_json::Result<PriorityLevelConfiguration> {
    serde_json::from_value(json!({
        "metadata": {"name": "storm"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    }))
}

/// The daemons, and who keeps them out.
fn the_daemons() -> serde_json::Result<FlowSchema> {
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
