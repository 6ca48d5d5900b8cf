//! The controllers that run in the coordinator beside the nodes' sessions; [`start`] has one line for each.
//!
//! A controller is a future that never ends by itself. The line that starts a controller also decides whether this
//! controller runs: on a cluster, the site's own controllers may do the same work.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller::events::Events;
use daemon::vital;
use fanout::Exchange;
use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use workflow::{Channels, EngineRequests, Rules, Settings, objects::sessions::SessionChange};

use crate::{abandoned, namespaces};

/// The inputs of the controllers.
#[derive(Debug)]
pub(crate) struct Context {
    /// The settings of the workflow engine; `None` where another engine drives workflows.
    pub(crate) workflows: Option<Settings>,
    /// The site's rules for `#DW` directives: the engine reads them from the API, and admission applies them.
    pub(crate) rules: Rules,
    pub(crate) exchange: Arc<Exchange>,
    /// The nodes that the SystemConfiguration names.
    pub(crate) nodes: Receiver<BTreeSet<String>>,
    /// Whether the API is the embedded API, on which no other controllers work.
    pub(crate) is_standalone: bool,
    /// Requests that the workflow engine answers.
    pub(crate) requests: EngineRequests,
    /// Sessions of nodes that were opened or ended, for the workflow engine.
    pub(crate) sessions: UnboundedReceiver<SessionChange>,
}

/// Starts the controllers as tasks of `work`.
pub(crate) fn start(client: &Client, context: Context, work: &mut JoinSet<()>) {
    let Context { exchange, nodes, is_standalone, workflows, rules, requests, sessions } = context;
    let namespaces = namespaces::maintain(client.clone(), exchange, nodes);
    let is_on = workflows.is_some();
    // On a cluster without Warren's engine, the DWS controllers make these namespaces.
    spawn_if(work, is_standalone || is_on, "the namespaces of nodes", namespaces);
    spawn_if(
        work,
        is_on,
        "workflows of killed commands",
        abandoned::remove_abandoned(client.clone()),
    );
    let (settings, client) = (workflows.unwrap_or_default(), client.clone());
    spawn_if(work, is_on, "workflows", async move {
        let events = Events::new(client.clone(), "coordinator", &host_name());
        workflow::run(client, settings, rules, Channels { requests, sessions, events }).await;
    });
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn spawn_if(
    work: &mut JoinSet<()>,
    is_on: bool,
    name: &'static str,
    controller: impl Future<Output = ()> + Send + 'static,
) {
    if is_on {
        work.spawn(vital(name, controller));
    }
}
