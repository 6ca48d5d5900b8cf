//! Connects the API, the node, the main loop and the link to the coordinator.

use std::sync::Arc;

use agent::{
    coordinator::{CertificateError, CoordinatorAddress},
    hello::{HelloError, hello},
    link::{self, LinkEvent},
    outbox::Outbox,
    records::{MountRecords, RecordError},
};
use apiclient::ConnectError;
use daemon::{End, ListenError, Signals, notify_ready, notify_stopping, vital};
use fence::{Fencer, Fences, Tools};
use futures::{Stream, StreamExt, stream};
use kube::Client;
use packages::JobPackages;
use proto::v1::{PlanQuestion, Role};
use storage::{Converger, Host};
use storage_linux::{LinuxHostError, health::LinuxProbe};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    config::{Config, Rabbit, bind::BindError},
    core::{
        Cache, Wake,
        agent::Agent,
        equipment::Equipment,
        node_host::open_host,
        probes::Pages,
        status::AgentStatus,
        watch::{Update, watch_all},
    },
    health::{HealthState, switches, uevents},
    kinds::movement::{Movers, movers::News},
    preview::{
        dry_run::dry_run,
        serve::{Planner, serve_at},
        snapshot::SnapshotRequests,
    },
};

/// Why the agent cannot start or continue.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("set up the rabbit's storage")]
    Storage(#[source] LinuxHostError),
    #[cfg(feature = "switchtec")]
    #[error("open the file of --switchtec-record")]
    SwitchtecRecord(#[source] std::io::Error),
    #[cfg(not(feature = "switchtec"))]
    #[error("list /dev")]
    Devices(#[source] std::io::Error),
    #[cfg(not(feature = "switchtec"))]
    #[error(
        "this rabbit has PCIe switches (/dev/switchtec*), and this rabbit-agent was built without the feature switchtec: install one with it"
    )]
    NoSwitchtec,
    #[error("open the records of mounts")]
    Records(#[source] RecordError),
    #[error("set up the connection to the coordinator")]
    Coordinator(#[source] CertificateError),
    #[error("set up the connection to the API")]
    Client(#[source] ConnectError),
    #[error("read what identifies this agent")]
    Hello(#[source] HelloError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("serve the rabbit's socket")]
    Serve(#[source] ListenError),
    #[error("print the plans: {0}")]
    Print(String),
    #[error("wait for signals")]
    Stop(#[source] daemon::StopError),
}

/// Runs the agent until it is stopped or refused; with `--dry-run`, only until it has printed its plans.
pub async fn run(config: Config) -> Result<End, RunError> {
    if config.dry_run {
        return dry_run(config).await;
    }
    let signals = Signals::listen().map_err(RunError::Stop)?;
    let host = Arc::new(open_host(&config)?);
    let client = config.client().await.map_err(RunError::Client)?;
    let probe = LinuxProbe::new(config.storage.roots.clone(), config.health.ports.clone());
    let probe = probe.with_switches(Arc::clone(&host));
    let health = HealthState::new(Arc::new(probe), config.health.every, config.health.drive_slots);
    uevents::listen(health.clone());
    if let Some(every) = config.health.links_every {
        let host = Arc::clone(&host);
        let followed = switches::follow(Arc::new(move || host.links()), health.clone(), every);
        tokio::spawn(vital("the task that follows the switches' links", followed));
    }
    let records = MountRecords::open(&config.storage.state).map_err(RunError::Records)?;
    let status = AgentStatus::new(health);
    serve_pages(&config, &status).await?;
    let (planner, snapshot_requests) = Planner::new();
    let refused = match config.coordinator.clone() {
        Some(coordinator) => {
            Some(link_to_coordinator(coordinator, &config, &status.health, planner.clone())?)
        }
        None => None,
    };
    let socket = serve_at(config.listen.as_deref(), &planner).map_err(RunError::Serve)?;
    let stop = async {
        tokio::select! {
            _ = signals.stopped() => Ok::<_, RunError>(End::Stopped),
            why = refusal(refused) => Ok(End::Refused(why)),
        }
    };
    let end = work(config.rabbit, host, (client, records), status, snapshot_requests, stop).await;
    if let Some(socket) = socket {
        // If this fails the next start replaces the socket.
        drop(std::fs::remove_file(socket));
    }
    end
}

async fn refusal(refused: Option<oneshot::Receiver<String>>) -> String {
    match refused {
        Some(refused) => match refused.await {
            Ok(why) => why,
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Works on `host` as the API asks, and answers `snapshot_requests`, until `stop` completes.
pub async fn work<E>(
    rabbit: Rabbit,
    host: Arc<dyn Host>,
    (client, records): (Client, MountRecords),
    status: AgentStatus,
    snapshot_requests: SnapshotRequests,
    stop: impl Future<Output = Result<End, E>>,
) -> Result<End, E> {
    let converger = Arc::new(Converger::new(host));
    let tools = Tools {
        node: rabbit.site.node.clone(),
        client: client.clone(),
        converger: Arc::clone(&converger),
        fences: Fences::default(),
        changed: Arc::default(),
        requests: status.fence_requests(),
    };
    let (fences, fenced) = (tools.fences.clone(), Arc::clone(&tools.changed));
    let package = Arc::new(Notify::new());
    let packages = rabbit.packages.as_ref();
    let packages = packages.map(|directory| JobPackages::new(directory, Arc::clone(&package)));
    let (movers, news) = Movers::new(rabbit.movements.clone());
    let updates = updates(&client, &rabbit, &status.health, package);
    let updates = stream::select(updates, movement_updates(news));
    // Opens the directories of fence requests before the first allocation, so that the agent knows which computes are
    // fenced.
    let fencer = Fencer::open(rabbit.fence.clone(), tools);
    let events = stream::select(notices(fenced, |cache| cache.fences_changed()), updates);
    let equipment = Equipment { converger, records, fences, packages, movers };
    let context = equipment.into_context(rabbit, client);
    let agent = Agent::new(Arc::new(context), status, snapshot_requests);
    run_until(agent, events, fencer, stop).await
}

/// Runs the agent and its fencer until `stop` completes.
async fn run_until<E>(
    agent: Agent,
    events: impl Stream<Item = Update>,
    fencer: Fencer,
    stop: impl Future<Output = Result<End, E>>,
) -> Result<End, E> {
    // Reports readiness to systemd before the API answers: the boot of a rabbit must not hang if a coordinator is down.
    // The agent starts to work once the API answers; until then the log says that the agent waits.
    notify_ready();
    let mut end = None;
    let stop = async {
        end = Some(stop.await);
        notify_stopping();
    };
    let fencing = tokio::spawn(vital("the fencer", fencer.run()));
    agent.run(events, stop).await;
    // The next start of the agent resumes unfinished fences.
    fencing.abort();
    end.unwrap_or(Ok(End::Stopped))
}

/// Returns the stream of updates: objects of the API, health checks that are due, and fetched job packages.
fn updates(
    client: &Client,
    rabbit: &Rabbit,
    health: &HealthState,
    package: Arc<Notify>,
) -> impl Stream<Item = Update> + use<> {
    let objects = watch_all(client, &rabbit.site.node, rabbit.packages.is_some());
    let node = health.checks_due().map(|()| Update::new(Cache::devices_changed));
    let packages = notices(package, |cache| cache.waiting_containers());
    stream::select(objects, stream::select(node.boxed(), packages.boxed()))
}

/// Returns the stream of one update for each notice.
fn notices(notice: Arc<Notify>, wakes: fn(&mut Cache) -> Vec<Wake>) -> impl Stream<Item = Update> {
    stream::unfold(notice, move |notice| async move {
        notice.notified().await;
        Some((Update::new(wakes), notice))
    })
}

/// Returns the stream of updates from the `datamover` processes.
fn movement_updates(mut news: mpsc::UnboundedReceiver<News>) -> impl Stream<Item = Update> {
    let next = stream::poll_fn(move |context| news.poll_recv(context));
    next.map(|news| Update::new(move |cache: &mut Cache| cache.movement_news(&news)))
}

/// Serves the probes' and metrics' pages, and logs which command line options have no effect.
async fn serve_pages(config: &Config, status: &AgentStatus) -> Result<(), BindError> {
    for note in &config.notes {
        log::info!("{note}");
    }
    let pages_by_flag = [
        ("--health-probe-bind-address", &config.probes, Pages::Probes),
        ("--metrics-bind-address", &config.metrics, Pages::Metrics),
    ];
    for (flag, address, pages) in pages_by_flag {
        if let Some(address) = address {
            let listener = address.listen(flag).await?;
            let serving = daemon::pages::serve(listener, pages.router(status.clone()));
            tokio::spawn(vital("a probe's page", serving));
        }
    }
    Ok(())
}

/// Keeps a link to the coordinator, which receives the rabbit's health and passes on requests for plans. Mounts come from the API, not over this link.
fn link_to_coordinator(
    coordinator: CoordinatorAddress,
    config: &Config,
    health: &HealthState,
    planner: Planner,
) -> Result<oneshot::Receiver<String>, RunError> {
    let hello = hello(&config.rabbit.site.node, Role::Rabbit, true).map_err(RunError::Hello)?;
    coordinator.endpoint().map_err(RunError::Coordinator)?;
    let outbox = Arc::new(Outbox::default());
    let answers = Arc::clone(&outbox);
    let (events, mut from_link) = mpsc::channel(16);
    let (refuse, refused) = oneshot::channel();
    let linked = link::run(coordinator, hello, Arc::clone(&outbox), events);
    tokio::spawn(vital("the link to the coordinator", linked));
    tokio::spawn(vital("the task that listens to the coordinator", async move {
        while let Some(event) = from_link.recv().await {
            match event {
                LinkEvent::Refused(why) => {
                    // The receiver is dropped only when the agent is stopping.
                    drop(refuse.send(why));
                    return;
                }
                LinkEvent::Plan(PlanQuestion { id, request }) => {
                    let (planner, outbox) = (planner.clone(), Arc::clone(&answers));
                    drop(tokio::spawn(async move {
                        let planned = planner.plan_request(request.unwrap_or_default()).await;
                        outbox.answer_plan(id, planned);
                    }));
                }
                _ => {}
            }
        }
    }));
    let mut health = health.listen();
    tokio::spawn(vital("the task that reports the health", async move {
        while health.changed().await.is_ok() {
            let newest = health.borrow_and_update().clone();
            outbox.set_health(newest);
        }
    }));
    Ok(refused)
}
