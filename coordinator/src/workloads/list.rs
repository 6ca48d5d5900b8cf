//! Lists the jobs of a workload manager that have a Workflow.

use api::Workflow;
use apiclient::list_readable;
use kube::Client;
use kube::api::ListParams;
use proto::v1::ListResponse;
use tonic::Status;
use workload::Refused;

use super::caller::Caller;
use super::job::refusal_status;
use super::request::NAMESPACE;

/// Reads the jobs of `manager` that the caller may act on from the API.
///
/// # Errors
/// If the API does not answer. A Workflow that cannot be read is left out, and named in the log: no call can act on
/// it before an administrator corrects it.
pub(super) async fn read(
    client: &Client,
    caller: &Caller,
    manager: &str,
) -> Result<ListResponse, Status> {
    let failed =
        |source| refusal_status(&Refused { what: "list the Workflows".to_owned(), source });
    let listed = list_readable(client.clone(), Some(NAMESPACE), &ListParams::default()).await;
    let workflows = listed.map_err(failed)?;
    workflows.unreadable.iter().for_each(|text| log::warn!("{text}"));
    Ok(ListResponse { jobs: job_ids(&workflows.items, caller, manager) })
}

/// Returns the IDs of the jobs that the caller may act on, sorted.
fn job_ids(workflows: &[Workflow], caller: &Caller, manager: &str) -> Vec<String> {
    let is_listed =
        |workflow: &&Workflow| workflow.spec.wlm_id == manager && caller.check(workflow).is_ok();
    let job = |workflow: &Workflow| workflow.spec.job_id.to_string();
    let mut jobs: Vec<String> = workflows.iter().filter(is_listed).map(job).collect();
    jobs.sort();
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;
    use crate::workloads::caller::Managers;

    #[test]
    fn users_see_their_own_jobs_and_managers_all_jobs_of_one_manager() {
        let workflow = |manager: &str, job: &str, user: u32| {
            workload::job(NAMESPACE, "w", (manager, job), (user, user), Vec::new())
        };
        let workflows =
            [workflow("slurm", "9", 7), workflow("slurm", "12", 8), workflow("pbs", "9", 7)];
        let jobs = |user: u32, manager: &str| {
            let peer = Peer::Local { user, group: user };
            job_ids(&workflows, &Caller::identify(&peer, &Managers::default()).unwrap(), manager)
        };
        assert_eq!(jobs(0, "slurm"), ["12", "9"]);
        assert_eq!(jobs(7, "slurm"), ["9"]);
        assert!(jobs(0, "flux").is_empty());
    }
}
