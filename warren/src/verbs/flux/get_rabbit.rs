//! `warren flux getrabbit`.

use std::collections::BTreeSet;

use api::{Servers, Workflow, names::label};
use cli::{Exit, Output};
use directive::{hostlist, job_id};
use flux::lookup::{self, Question};
use kube::{Api, Client, api::ListParams};

use super::mapping;
use crate::{
    args::{flux::GetRabbit, workflow::Hosts},
    client::ServerArgs,
    failure::{self, Failure},
};

/// Namespace of the Workflows of Flux's jobs.
const NAMESPACE: &str = "default";

pub(super) async fn run(
    server: &ServerArgs,
    args: &GetRabbit,
    output: Output,
) -> Result<Exit, Failure> {
    let mapping = mapping(server, args.mapping.as_deref(), output).await?;
    let (rabbits, computes) = (Hosts::merge(&args.rabbits), Hosts::merge(&args.computes));
    let mut jobs = Vec::new();
    if !args.jobids.is_empty() {
        let client = server.client(output).await?;
        for job in &args.jobids {
            jobs.push((job.clone(), rabbits_of_job(&client, job).await?));
        }
    }
    let question = Question { rabbits: &rabbits, computes: &computes, jobs: &jobs };
    let hosts = lookup::hosts(&mapping, question)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    if output.is_json() {
        output.json(&hostlist::expand(&hosts).unwrap_or_default())?;
    } else {
        output.line(&hosts)?;
    }
    Ok(Exit::Done)
}

/// Returns the rabbits on which Flux placed the storage of a job.
async fn rabbits_of_job(client: &Client, job: &str) -> Result<Vec<String>, Failure> {
    let number = job_id::number(job)
        .map_err(|error| Failure::new(Exit::Usage, format!("--jobids {job}")).because(&error))?;
    let name = format!("fluxjob-{number}");
    let workflows: Api<Workflow> = Api::namespaced(client.clone(), NAMESPACE);
    let workflow = workflows.get_metadata_opt(&name).await;
    if workflow.map_err(|error| failure::api(format!("read Workflow {name}"), &error))?.is_none() {
        return Err(Failure::new(Exit::Failed, format!("Could not find job {job}")));
    }
    let labels = [(label::WORKFLOW_NAME, name.as_str()), (label::WORKFLOW_NAMESPACE, NAMESPACE)];
    let selector = labels.map(|(key, value)| format!("{key}={value}")).join(",");
    let servers: Api<Servers> = Api::namespaced(client.clone(), NAMESPACE);
    let listed = servers.list(&ListParams::default().labels(&selector)).await;
    let listed = listed.map_err(|error| failure::api(format!("list Servers of {name}"), &error))?;
    let sets = listed.items.iter().flat_map(|servers| &servers.spec.allocation_sets);
    let names = sets.flat_map(|set| &set.storage).map(|storage| storage.name.clone());
    Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
}
