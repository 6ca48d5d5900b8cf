//! Joins the rabbit's settings with clients and records to the context of passes.

use std::sync::Arc;

use agent::records::MountRecords;
use controller::events::Events;
use fence::{Fences, Gate};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::Client;
use packages::JobPackages;
use storage::Converger;

use crate::{
    config::Rabbit,
    core::Context,
    kinds::{container::PodmanHost, movement::Movers},
};

/// The clients and records that a context needs beside the rabbit's settings.
#[derive(Debug)]
pub(crate) struct Equipment {
    pub(crate) converger: Arc<Converger>,
    pub(crate) records: MountRecords,
    pub(crate) fences: Fences,
    pub(crate) packages: Option<JobPackages>,
    pub(crate) movers: Arc<Movers>,
}

impl Equipment {
    /// Returns the context of passes on this rabbit.
    pub(crate) fn into_context(self, rabbit: Rabbit, client: Client) -> Context {
        let fences = self.fences.clone();
        let gated = self.converger.with_host(|host| Arc::new(Gate { host, fences }));
        Context {
            events: Events::new(client.clone(), "rabbit-agent", rabbit.site.node.as_str()),
            node: rabbit.site.node.clone(),
            pod: rabbit.pod,
            client,
            converger: self.converger,
            records: Arc::new(self.records),
            gated: Arc::new(gated),
            fences: self.fences,
            // This time is replaced once the agent knows the statuses of earlier agents; no pass begins before that.
            started: Time(Timestamp::now()),
            site: rabbit.site,
            temporary: rabbit.temporary,
            policy: rabbit.policy,
            mgs: rabbit.mgs,
            containers: rabbit
                .containers
                .map(|config| Arc::new(PodmanHost::new(&config)) as Arc<_>),
            packages: self.packages,
            movers: self.movers,
        }
    }
}
