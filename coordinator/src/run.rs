//! Starts the parts of a coordinator and runs it until a signal stops it.

mod listeners;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiclient::{ConnectError, connect};
use daemon::{End, ListenError, Signals, StopError, notify_ready, notify_stopping};
use kube::Client;
use thiserror::Error;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use workflow::{EngineHandle, EngineRequests, Rules, objects::sessions::SessionChange};

use self::listeners::Listeners;
use crate::cluster::ClusterService;
use crate::config::{Backend, Config};
use crate::engine::Context;
use crate::http::HttpError;
use crate::hub::Hub;
use crate::link::Link;
use crate::serve::{ServeError, Services, TlsListener};
use crate::standalone::{Embedded, StandaloneError};
use crate::webhook::WebhookError;
use crate::workloads::{Managers, WorkloadsService};
use crate::{engine, files, health, http, layout};

/// Longest time that streams may take to end when the coordinator stops.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The reason why the coordinator cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("serve the API standalone")]
    Standalone(#[from] StandaloneError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Socket(#[from] ListenError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("serve the webhook")]
    Webhook(#[from] WebhookError),
    #[error("serve nodes over TCP")]
    Tcp(#[source] ServeError),
    #[error("install the rules and the profile of workflows")]
    Shipped(#[source] Box<kube::Error>),
}

/// The reason why the coordinator stopped.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("start")]
    Start(#[from] StartError),
    #[error("serve")]
    Serve(#[from] ServeError),
    #[error("wait for signals")]
    Stop(#[from] StopError),
}

/// Runs a coordinator until a signal stops it.
///
/// # Errors
/// If the coordinator cannot start, or cannot serve any more.
pub async fn run(config: Config) -> Result<End, RunError> {
    files::raise_limit();
    let signals = Signals::listen()?;
    let coordinator = Coordinator::start(&config).await?;
    let api =
        coordinator.api_address.map_or_else(|| "the cluster's".to_owned(), |at| at.to_string());
    log::info!(socket:% = config.socket.display(), api; "serve");
    notify_ready();
    let mut signal = "";
    coordinator
        .run_until(async {
            signal = signals.stopped().await;
            notify_stopping();
        })
        .await?;
    log::info!(signal; "stop");
    Ok(End::Stopped)
}

/// A running coordinator: its sockets are bound, its tasks started.
#[derive(Debug)]
pub struct Coordinator {
    hub: Arc<Hub>,
    stop: watch::Sender<bool>,
    servers: JoinSet<Result<(), ServeError>>,
    /// Tasks that watch and write objects. They may be aborted at any moment: a write that was interrupted is repeated
    /// when the node reports again.
    work: JoinSet<()>,
    /// The bound TCP addresses of the embedded API, of the listener for nodes, and of the listener
    /// for probes and metrics.
    pub api_address: Option<SocketAddr>,
    pub node_address: Option<SocketAddr>,
    pub http_address: Option<SocketAddr>,
}

impl Coordinator {
    /// Binds all sockets, then starts all tasks.
    ///
    /// # Errors
    /// If a step fails; the error names the step. No task is left running.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        let mut listeners = Listeners::bind(config).await?;
        let rules = config.workflows.is_some().then(Rules::default);
        let (client, embedded) = open_api(config, rules.as_ref()).await?;
        let (hub, sessions) = Hub::new();
        let mut coordinator = Self {
            hub: Arc::new(hub),
            stop: watch::Sender::new(false),
            servers: JoinSet::new(),
            work: JoinSet::new(),
            api_address: embedded.as_ref().map(Embedded::address),
            node_address: listeners.tls.as_ref().and_then(TlsListener::address),
            http_address: listeners.http.as_ref().and_then(|listener| listener.local_addr().ok()),
        };
        let (engine, requests) = EngineHandle::new();
        coordinator.serve_http(&mut listeners, engine.clone(), rules.clone());
        let rules = rules.unwrap_or_default();
        let channels = (requests, sessions);
        coordinator.start_work(&client, embedded.is_some(), config, rules.clone(), channels);
        if let Some(embedded) = embedded {
            coordinator.serve_api(embedded);
        }
        let services = coordinator.services(client, config, rules, engine).await;
        coordinator.serve(listeners, services);
        Ok(coordinator)
    }

    /// Serves until `stop`, then ends all streams. Mounts on the nodes stay.
    ///
    /// # Errors
    /// If a socket cannot be served any more.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let result = tokio::select! {
            () = stop => Ok(()),
            ended = self.servers.join_next() => match ended {
                Some(Ok(Err(error))) => Err(error),
                Some(Ok(Ok(())) | Err(_)) | None => Err(ServeError::Ended),
            },
            // Tasks that watch and write never end by themselves: a task that ended has panicked.
            _ = self.work.join_next() => Err(ServeError::Ended),
        };
        self.hub.stop();
        self.work.shutdown().await;
        self.stop.send_replace(true);
        let finish = async { while self.servers.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_DEADLINE, finish).await.is_err() {
            log::warn!(deadline:? = STOP_DEADLINE; "close connections that did not end in time");
        }
        result
    }

    fn start_work(
        &mut self,
        client: &Client,
        is_standalone: bool,
        config: &Config,
        rules: Rules,
        (requests, sessions): (EngineRequests, UnboundedReceiver<SessionChange>),
    ) {
        let exchange = self.hub.exchange();
        let (names_sender, names) = watch::channel(BTreeSet::new());
        self.work.spawn(fanout::client_mounts(client.clone(), exchange.clone()));
        self.work.spawn(fanout::profiles(client.clone(), exchange.clone()));
        self.work.spawn(fanout::start_sessions(client.clone(), exchange.clone()));
        self.work.spawn(fanout::write_back(client.clone(), exchange.clone()));
        self.work.spawn(fanout::read_profiles(client.clone(), exchange.clone()));
        self.work.spawn(layout::watch(client.clone(), self.hub.clone(), names_sender));
        let jobs = self.hub.jobs();
        self.work.spawn(jobs::workflows(client.clone(), None, jobs.clone()));
        self.work.spawn(jobs::computes(client.clone(), None, jobs.clone()));
        self.work.spawn(jobs::send_requests(client.clone(), None, jobs.clone()));
        let workflows = config.workflows.clone();
        let exchange = exchange.clone();
        let nodes = names;
        let context =
            Context { workflows, rules, exchange, nodes, is_standalone, requests, sessions };
        engine::start(client, context, &mut self.work);
    }

    /// Serves probes, metrics and the webhook, if the configuration has listeners for them.
    fn serve_http(
        &mut self,
        listeners: &mut Listeners,
        engine: EngineHandle,
        rules: Option<Rules>,
    ) {
        if let Some(listener) = listeners.http.take() {
            let serving = http::serve(listener, self.hub.clone(), engine);
            self.work.spawn(async { match serving.await {} });
        }
        if let Some(listener) = listeners.webhook.take() {
            let serving = listener.serve(rules);
            self.work.spawn(async { match serving.await {} });
        }
    }

    async fn services(
        &self,
        client: Client,
        config: &Config,
        rules: Rules,
        engine: EngineHandle,
    ) -> Services {
        let operators = config.tls.as_ref().map(|tls| tls.operators.clone()).unwrap_or_default();
        let cluster = ClusterService::new(self.hub.clone(), engine, client.clone(), &operators);
        let managers =
            Managers { users: config.managers.clone().into(), operators: operators.into() };
        let hub = self.hub.clone();
        Services {
            link: Link::new(hub.clone()),
            cluster,
            workloads: WorkloadsService::new(client, hub, managers, rules, self.stop.subscribe()),
            health: health::reporter().await,
        }
    }

    /// Serves gRPC on the unix sockets and, for nodes, over TCP.
    fn serve(&mut self, listeners: Listeners, services: Services) {
        let ready = self.hub.exchange().ready();
        self.work.spawn(health::report(services.health.clone(), ready));
        if let Some(listener) = listeners.open {
            let (limits, stopped) = (files::local_connections(), self.stopped());
            self.servers.spawn(services.clone().on_open_unix(listener, limits, stopped));
        }
        let (limits, stopped) = (files::local_connections(), self.stopped());
        self.servers.spawn(services.clone().on_unix(listeners.socket, limits, stopped));
        if let Some(listener) = listeners.tls {
            self.servers.spawn(services.on_tcp(listener, self.stopped()));
        }
    }

    fn serve_api(&mut self, embedded: Embedded) {
        let (unix, tls) = embedded.serve([(); 3].map(|()| Box::pin(self.stopped()) as _));
        self.servers.spawn(async {
            unix.await;
            Ok(())
        });
        self.servers.spawn(async { tls.await.map_err(ServeError::Api) });
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            // The wait also ends when the sender is dropped: the coordinator stops then.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }
}

/// Connects to the cluster's API, or opens the embedded API and connects to it.
async fn open_api(
    config: &Config,
    rules: Option<&Rules>,
) -> Result<(Client, Option<Embedded>), StartError> {
    let standalone = match &config.backend {
        Backend::Standalone(standalone) => standalone,
        Backend::Cluster(address) => return Ok((connect(address).await?, None)),
    };
    let embedded = Embedded::open(standalone, config.tls.as_ref(), rules.cloned()).await?;
    let client = embedded.client();
    if rules.is_some() {
        let installed = workflow::shipped::install(&client).await;
        installed.map_err(|error| StartError::Shipped(Box::new(error)))?;
    }
    Ok((client, Some(embedded)))
}
