//! Prints what the agent would do first after a start, and ends. Reads the API once, and writes nothing.

use agent::{received::ReceivedMount, records::MountRecords};
use api::{ClientMount, NoProfile, RabbitLabels};
use apiclient::plain;
use cli::Output;
use daemon::End;
use kube::{Api, Client, api::ListParams, core::DeserializeGuard};
use storage::{Converger, desired::NodeName};
use storage_linux::LinuxHost;
use thiserror::Error;
use tokio::task;

use crate::{agent::first_passes, config::Config, direct::read_profile, run::RunError};

/// Why the objects of the node cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("list the ClientMounts of {node}: {}", plain(source))]
    List { node: NodeName, source: Box<kube::Error> },
    #[error("{0}")]
    Profile(String),
}

/// Reads the node's ClientMounts from the API, and prints the plans for them.
pub async fn dry_run(config: Config, client: &Client) -> Result<End, RunError> {
    let received = read_all(client, &config.site.node).await.map_err(RunError::Read)?;
    let records = MountRecords::peek(&config.storage.state).map_err(RunError::Records)?;
    let host = LinuxHost::new(config.storage).map_err(RunError::Storage)?;
    let planned = task::spawn_blocking(move || {
        let converger = Converger::new(std::sync::Arc::new(host));
        let earlier = records.earlier_records().to_vec();
        first_passes::plans(&converger, &config.site, earlier, received)
    });
    let plans = planned.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let printed = Output::new(false).plans(&plans);
    printed.map(|()| End::Stopped).map_err(|failure| RunError::Print(failure.text()))
}

async fn read_all(client: &Client, node: &NodeName) -> Result<Vec<ReceivedMount>, ReadError> {
    let api: Api<DeserializeGuard<ClientMount>> = Api::namespaced(client.clone(), node.as_str());
    let listed = api
        .list(&ListParams::default())
        .await
        .map_err(|source| ReadError::List { node: node.clone(), source: Box::new(source) })?;
    let mut received = Vec::new();
    for object in listed {
        received.push(match object.0 {
            Ok(mount) => {
                let profile = profile(client, &mount).await?;
                ReceivedMount::new(mount, profile)
            }
            Err(invalid) => ReceivedMount::unreadable(&invalid.metadata, invalid.error),
        });
    }
    Ok(received)
}

async fn profile(
    client: &Client,
    mount: &ClientMount,
) -> Result<Result<api::NnfStorageProfile, NoProfile>, ReadError> {
    let Some(named) = mount.pinned_profile() else {
        return Ok(Err(NoProfile::Missing("its labels name no NnfStorageProfile".to_owned())));
    };
    let key = (named.namespace.to_owned(), named.name.to_owned());
    read_profile(client, &key).await.map_err(ReadError::Profile)
}
