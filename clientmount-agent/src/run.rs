//! Wiring: the node, the link to the coordinator or to the API, the agent and the node's socket.

use std::sync::Arc;

use apiclient::{ConnectError, connect_with};
use daemon::{End, ListenError, Signals, listen, tell_ready, tell_stopping, vital};
use proto::v1::Role;
use storage::{Converger, LinuxHost, desired::NodeName, linux::LinuxHostError};
use thiserror::Error;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    agent::Agent,
    config::{Config, Way},
    direct::{self, watch_config},
    serve::{NodeService, serve},
};
use agent::{
    coordinator::CertificateError,
    hello::{HelloError, hello},
    link::{self, LinkEvent},
    outbox::Outbox,
    records::{MountRecords, RecordError},
};

/// The agent cannot start.
#[derive(Debug, Error)]
pub enum RunError {
    /// The node's storage is not usable.
    #[error("set up the node's storage")]
    Storage(#[source] LinuxHostError),
    /// What is mounted cannot be recorded.
    #[error("open the records of mounts")]
    Records(#[source] RecordError),
    /// The kernel did not tell when it booted.
    #[error("find out who this agent is")]
    Hello(#[source] HelloError),
    /// There is no way to the coordinator.
    #[error("set up the way to the coordinator")]
    Coordinator(#[source] CertificateError),
    /// There is no way to the API.
    #[error("set up the way to the API")]
    Api(#[source] ConnectError),
    /// The node's socket is not usable.
    #[error("serve the node's socket")]
    Serve(#[source] ListenError),
    /// Signals cannot be caught.
    #[error("wait for signals")]
    Stop(#[source] daemon::StopError),
}

/// Events that may wait for the agent; more hold back the stream.
const EVENTS: usize = 64;

/// Runs the agent until it is stopped or refused.
///
/// # Errors
/// When it cannot start.
pub async fn run(config: Config) -> Result<End, RunError> {
    let signals = Signals::listen().map_err(RunError::Stop)?;
    let records = MountRecords::open(&config.storage.state).map_err(RunError::Records)?;
    let host = LinuxHost::new(config.storage).map_err(RunError::Storage)?;
    let converger = Arc::new(Converger::new(Arc::new(host)));
    let outbox = Arc::new(Outbox::default());
    for note in &config.notes {
        log::info!("{note}");
    }
    let listener = listen(&config.listen).map_err(RunError::Serve)?;

    let (events, from_link) = mpsc::channel(EVENTS);
    let service = NodeService {
        site: config.site.clone(),
        converger: Arc::clone(&converger),
        outbox: Arc::clone(&outbox),
    };
    let serving = tokio::spawn(vital("the node's socket", serve(listener, service)));
    let linking = link(config.way, &config.site.node, Arc::clone(&outbox), events).await?;
    tell_ready();

    let agent = Agent::new(config.site, converger, Arc::new(records), outbox);
    let stop = async {
        signals.stopped().await;
        tell_stopping();
    };
    let end = agent.run(from_link, stop).await;
    linking.abort();
    serving.abort();
    // What cannot be unlinked now is replaced by the next start.
    drop(std::fs::remove_file(&config.listen));
    Ok(end)
}

async fn link(
    way: Way,
    node: &NodeName,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) -> Result<JoinHandle<()>, RunError> {
    match way {
        Way::Coordinator(address) => {
            let hello = hello(node, Role::Compute).map_err(RunError::Hello)?;
            // Files that cannot be used now are an administrator's to mend.
            address.endpoint().map_err(RunError::Coordinator)?;
            let linked = link::run(*address, hello, outbox, events);
            Ok(tokio::spawn(vital("the link to the coordinator", linked)))
        }
        Way::Api { address, credentials } => {
            let client =
                connect_with(&address, credentials.as_ref()).await.map_err(RunError::Api)?;
            log::info!("the API is watched directly at {address}");
            let config = watch_config(&address);
            let linked = direct::run(client, config, node.clone(), outbox, events);
            Ok(tokio::spawn(vital("the link to the API", linked)))
        }
    }
}
