//! Starts the parts of the agent: storage, link to the coordinator or the API, agent, and the node's socket.

use std::sync::Arc;

use agent::{
    coordinator::CertificateError,
    hello::{HelloError, hello},
    link::{self, LinkEvent},
    outbox::Outbox,
    records::{MountRecords, RecordError},
};
use apiclient::{ConnectError, connect_with};
use daemon::{
    End, ListenError, Listening, Signals, inherit_or_listen, notify_ready, notify_stopping, vital,
};
use futures::future::OptionFuture;
use proto::v1::Role;
use storage::{Converger, desired::NodeName};
use storage_linux::{LinuxHost, LinuxHostError};
use thiserror::Error;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    agent::Agent,
    clients::Clients,
    config::{Config, Upstream},
    direct::{self, watch_config},
    dry_run::{ReadError, dry_run},
    idle::idle,
    job::Shared,
    serve::{NodeService, serve},
    view::View,
};

/// Why the agent cannot start.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("set up the node's storage")]
    Storage(#[source] LinuxHostError),
    #[error("open the records of mounts")]
    Records(#[source] RecordError),
    #[error("read what identifies this agent")]
    Hello(#[source] HelloError),
    #[error("set up the connection to the coordinator")]
    Coordinator(#[source] CertificateError),
    #[error("set up the connection to the API")]
    Api(#[source] ConnectError),
    #[error("serve the node's socket")]
    Serve(#[source] ListenError),
    #[error(transparent)]
    Read(ReadError),
    #[error("print the plans: {0}")]
    Print(String),
    #[error("wait for signals")]
    Stop(#[source] daemon::StopError),
}

/// Number of events that the link stores for the agent. While this many events wait, the link reads nothing more from
/// the connection.
const EVENTS: usize = 64;

/// Runs the agent until a signal stops it, it is idle, or a newer agent of this node is connected. A dry run only
/// prints its plans.
pub async fn run(config: Config) -> Result<End, RunError> {
    let signals = Signals::listen().map_err(RunError::Stop)?;
    if let (true, Upstream::Api { address, credentials }) = (config.dry_run, &config.upstream) {
        let client = connect_with(address, credentials.as_ref()).await.map_err(RunError::Api)?;
        return tokio::select! {
            _ = signals.stopped() => Ok(End::Stopped),
            end = dry_run(config, &client) => end,
        };
    }
    let records = MountRecords::open(&config.storage.state).map_err(RunError::Records)?;
    let host = LinuxHost::new(config.storage).map_err(RunError::Storage)?;
    let converger = Arc::new(Converger::new(Arc::new(host)));
    let outbox = Arc::new(Outbox::default());
    for note in &config.notes {
        log::info!("{note}");
    }
    let Listening { listener, is_inherited } =
        inherit_or_listen(&config.listen).map_err(RunError::Serve)?;

    let (events, from_link) = mpsc::channel(EVENTS);
    let (requests, from_scripts) = mpsc::channel(EVENTS);
    let (view, clients) = (Arc::<View>::default(), Clients::default());
    let shared = Shared {
        site: config.site.clone(),
        view: Arc::clone(&view),
        outbox: Arc::clone(&outbox),
        requests,
        on_timeout: config.on_timeout,
    };
    let service = NodeService { shared, converger: Arc::clone(&converger) };
    let served = serve(listener, clients.clone(), service.clone());
    let serving = tokio::spawn(vital("the node's socket", served));
    let idle = config.idle_exit.map(|after| {
        let has_coordinator = matches!(config.upstream, Upstream::Coordinator(_));
        idle(after, has_coordinator, Arc::clone(&view), Arc::clone(&outbox), clients)
    });
    let linking = start_link(
        config.upstream,
        (&config.site.node, idle.is_none()),
        Arc::clone(&outbox),
        events,
    )
    .await?;
    notify_ready();

    let agent = Agent::new(config.site, converger, Arc::new(records), outbox);
    let agent = agent.serving(view, from_scripts).planning(service);
    let end = agent.run(from_link, wait_for_end(signals, idle)).await;
    linking.abort();
    serving.abort();
    if !is_inherited {
        // If this fails the next start replaces the socket.
        drop(std::fs::remove_file(&config.listen));
    }
    Ok(end)
}

/// Returns when a signal stops the agent, or when it is idle.
async fn wait_for_end(signals: Signals, idle: Option<impl Future<Output = ()>>) {
    tokio::select! {
        _ = signals.stopped() => {}
        Some(()) = OptionFuture::from(idle) => log::debug!("the agent is idle: it ends, and mounts stay"),
    }
    notify_stopping();
}

/// Starts the task that connects the agent to its coordinator or to the API.
async fn start_link(
    upstream: Upstream,
    (node, is_resident): (&NodeName, bool),
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) -> Result<JoinHandle<()>, RunError> {
    match upstream {
        Upstream::Coordinator(address) => {
            let hello = hello(node, Role::Compute, is_resident).map_err(RunError::Hello)?;
            // Fails at once if the files cannot be used: only an administrator can correct them.
            address.endpoint().map_err(RunError::Coordinator)?;
            let linked = link::run(*address, hello, outbox, events);
            Ok(tokio::spawn(vital("the link to the coordinator", linked)))
        }
        Upstream::Api { address, credentials } => {
            let client =
                connect_with(&address, credentials.as_ref()).await.map_err(RunError::Api)?;
            log::info!("the agent watches the API directly at {address}");
            let config = watch_config(&address);
            let linked = direct::run(client, config, node.clone(), outbox, events);
            Ok(tokio::spawn(vital("the link to the API", linked)))
        }
    }
}
