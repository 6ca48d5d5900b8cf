//! Looks up rabbits of computes and jobs, and computes of rabbits, as `flux getrabbit` does.

use directive::hostlist::{self, HostlistError};
use thiserror::Error;

use crate::mapping::Mapping;

/// Error: the question has no answer.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    #[error("Both rabbits and computes or jobids cannot be looked up at the same time")]
    Mixed,
    #[error("Could not find rabbit {0}")]
    UnknownRabbit(String),
    #[error("Could not find compute {0}")]
    UnknownCompute(String),
    #[error("No rabbits found for job {0}")]
    JobWithoutRabbits(String),
    #[error("the mapping's host list of rabbit {0} is unreadable")]
    Hostlist(String, #[source] HostlistError),
}

/// Hosts whose counterparts are wanted. With no hosts at all, all rabbits are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Rabbits whose computes are wanted.
    pub rabbits: &'a [String],
    /// Computes whose rabbits are wanted.
    pub computes: &'a [String],
    /// Jobs whose rabbits are wanted: the job's id, and its rabbits.
    pub jobs: &'a [(String, Vec<String>)],
}

/// Returns the wanted hosts as a host list, sorted, each host once.
///
/// # Errors
/// When the mapping lacks a rabbit or compute, a job has no rabbits, or the question has both rabbits and others.
pub fn hosts(mapping: &Mapping, question: Question<'_>) -> Result<String, LookupError> {
    let Question { rabbits, computes, jobs } = question;
    let hosts = match (rabbits, computes, jobs) {
        ([], [], []) => mapping.rabbits.iter().map(|(name, _)| name.to_owned()).collect(),
        (rabbits, [], []) => computes_of(mapping, rabbits)?,
        ([], computes, jobs) => rabbits_of(mapping, computes, jobs)?,
        _ => return Err(LookupError::Mixed),
    };
    Ok(hostlist::compress(&hostlist::sort_unique(hosts)))
}

fn computes_of(mapping: &Mapping, rabbits: &[String]) -> Result<Vec<String>, LookupError> {
    let mut computes = Vec::new();
    for name in rabbits {
        let unknown = || LookupError::UnknownRabbit(name.clone());
        let rabbit = mapping.rabbits.get(name).ok_or_else(unknown)?;
        let expanded = hostlist::expand(&rabbit.hostlist);
        computes.extend(expanded.map_err(|error| LookupError::Hostlist(name.clone(), error))?);
    }
    Ok(computes)
}

fn rabbits_of(
    mapping: &Mapping,
    computes: &[String],
    jobs: &[(String, Vec<String>)],
) -> Result<Vec<String>, LookupError> {
    let mut rabbits = Vec::new();
    for name in computes {
        let unknown = || LookupError::UnknownCompute(name.clone());
        rabbits.push(mapping.computes.get(name).ok_or_else(unknown)?.clone());
    }
    for (job, of_job) in jobs {
        if of_job.is_empty() {
            return Err(LookupError::JobWithoutRabbits(job.clone()));
        }
        rabbits.extend(of_job.iter().cloned());
    }
    Ok(rabbits)
}
