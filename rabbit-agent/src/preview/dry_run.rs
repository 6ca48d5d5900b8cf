//! Prints what the first passes after a start of the agent would do, and ends.
//!
//! A dry run writes nothing to the API, serves no socket, and takes no step. Like a start it opens the drives' ledgers,
//! so it fails while another agent of the rabbit runs: `warren plan` asks that agent. Where no agent ever ran, it makes
//! the directories of the agent's records, and of a new file pool.

use std::{collections::BTreeSet, sync::Arc};

use agent::{records::MountRecords, targets::TargetsInUse, volumes::Volumes};
use api::names::NNF_NODE;
use cli::{Failure as PrintFailure, Output};
use daemon::{End, Signals};
use fence::read_fences;
use futures::StreamExt;
use kube::Client;
use packages::JobPackages;
use proto::v1::ObjectPlan;
use storage::{Converger, Desired, Host};
use tokio::sync::Notify;

use super::{Planned, Snapshot, cost::DataOwner, plan_unit};
use crate::{
    config::{Config, Rabbit},
    core::{Cache, equipment::Equipment, node_host::open_host, run::RunError, watch::watch_all},
    kinds::{
        block_storage::report::latest_start,
        client_mount::{prepare::prepare_all, start::points_to_keep},
        movement::Movers,
    },
};

/// Reads the API and the rabbit, prints the plans for all objects, and returns.
pub async fn dry_run(config: Config) -> Result<End, RunError> {
    let signals = Signals::listen().map_err(RunError::Stop)?;
    let client = config.client().await.map_err(RunError::Client)?;
    let host = open_host(&config)?;
    let records = MountRecords::peek(&config.storage.state).map_err(RunError::Records)?;
    let printed = async {
        let plans = plans_after_start(config.rabbit, client, Arc::new(host), records).await;
        Output::new(false).plans(&plans)
    };
    tokio::select! {
        _ = signals.stopped() => {}
        printed = printed => {
            printed.map_err(|failure: PrintFailure| RunError::Print(failure.text()))?;
        }
    }
    Ok(End::Stopped)
}

/// Reads the API, and returns the plans of an agent that starts now: for all objects, and for the clean-up of the
/// rabbit.
pub async fn plans_after_start(
    rabbit: Rabbit,
    client: Client,
    host: Arc<dyn Host>,
    records: MountRecords,
) -> Vec<ObjectPlan> {
    let cache = read_api(&client, &rabbit, &records).await;
    let snapshot = snapshot(rabbit, client, host, (records, cache));
    let clean_up = plan_clean_up(&snapshot).await;
    let namespace = snapshot.context.node.to_string();
    let mut plans = vec![clean_up.into_message("NnfNode", &namespace, NNF_NODE)];
    let keys = snapshot.keys();
    plans.extend(snapshot.plans(keys, false).await);
    plans
}

/// Lists all kinds once.
async fn read_api(client: &Client, rabbit: &Rabbit, records: &MountRecords) -> Cache {
    let has_packages = rabbit.packages.is_some();
    let mut cache = Cache::with_records(rabbit.site.node.clone(), records);
    let mut updates = watch_all(client, &rabbit.site.node, has_packages);
    while !(cache.is_complete() && (cache.containers.is_complete() || !has_packages)) {
        let Some(update) = updates.next().await else { break };
        update.apply(&mut cache);
    }
    cache
}

/// Returns the state that an agent has right after its start.
fn snapshot(
    rabbit: Rabbit,
    client: Client,
    host: Arc<dyn Host>,
    (records, cache): (MountRecords, Cache),
) -> Snapshot {
    let packages = rabbit.packages.as_ref();
    let equipment = Equipment {
        converger: Arc::new(Converger::new(host)),
        records,
        fences: read_fences(&rabbit.fence),
        packages: packages.map(|directory| JobPackages::new(directory, Arc::new(Notify::new()))),
        movers: Movers::new(rabbit.movements.clone()).0,
    };
    let mut context = equipment.into_context(rabbit, client);
    // The first pass over each block storage would look up the device paths again. The plan takes those that the last
    // agent found.
    if let Some(started) = latest_start(cache.block_storages.iter()) {
        context.started = started;
    }
    let mut targets_in_use = TargetsInUse::default();
    prepare_all(&cache, &context.site, &mut targets_in_use);
    let mut snapshot =
        Snapshot { context: Arc::new(context), cache, targets_in_use, mounted: BTreeSet::new() };
    snapshot.record_changes();
    snapshot
}

/// Plans the removal of mounts and of leftovers of volume groups that no object asks for.
async fn plan_clean_up(snapshot: &Snapshot) -> Planned {
    let context = Arc::clone(&snapshot.context);
    let (keep, mut planned) =
        match points_to_keep(&snapshot.cache, &context.site, &context.temporary) {
            Ok(keep) => (Some(keep), Planned::default()),
            Err(why) => {
                let why = format!("mounts that no object asks for are not removed: {why}");
                (None, Planned::waiting(why))
            }
        };
    let owners = snapshot.cache.volume_owners();
    daemon::blocking(move || {
        let has_groups = context.site.volumes == Volumes::Lvm;
        let volumes = has_groups.then_some(Desired::OnlyVolumes(owners));
        for unit in keep.map(Desired::OnlyMounts).into_iter().chain(volumes) {
            let steps = plan_unit(&context.converger, &unit, &DataOwner::unknown());
            planned.add("clean-up", steps);
        }
        planned
    })
    .await
}
