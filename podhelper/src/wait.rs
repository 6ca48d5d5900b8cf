//! Waits until every host of a run answers, or finds the hosts that answer now. With MPI, the launcher's pod waits
//! before each mpirun; so does a pod that replaces a failed launcher's pod. Containers without MPI wait for each other.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use directive::hostlist;
use futures::{StreamExt, stream};
use thiserror::Error;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    args::{DiscoverHosts, Peers, Wait},
    keys::{Keys, KeysError},
    rsh::{TRY, connect},
};

/// Time between two requests to one worker.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of workers to which requests are sent at the same time.
const SIDE_BY_SIDE: usize = 256;
/// Maximum bytes of worker names in the error: the kubelet truncates termination messages at 2048.
const MAX_NAMES_BYTES: usize = 600;
/// File with the pod's search path for host names.
const RESOLVER: &str = "/etc/resolv.conf";

#[derive(Debug, Error)]
pub(crate) enum WaitError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("read {}, which names the hosts", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} names no host", .0.display())]
    NoHosts(PathBuf),
    #[error("after {seconds} seconds {} of {total} {what} do not answer: {}{}", missing.len(), describe(missing), domain_remedy(domain.as_deref()))]
    Missing {
        seconds: u64,
        total: usize,
        /// The word for the hosts, in the plural.
        what: &'static str,
        /// Last error of each missing host.
        missing: BTreeMap<String, String>,
        /// The domain of the cluster, if the workers' names are in another domain.
        domain: Option<String>,
    },
}

/// Waits for all workers.
pub(crate) async fn run(wait: &Wait) -> Result<(), WaitError> {
    let connector = Keys::read(&wait.keys.directory)?.connector()?;
    let ask = async |host: &str| connect(&connector, host).await.map(drop);
    wait_for_all("workers", &workers(wait)?, wait.seconds, ask).await
}

/// Waits for the containers on all rabbits of the run. Each host is the rabbit's name in the run's domain.
pub(crate) async fn peers(peers: &Peers) -> Result<(), WaitError> {
    let nodes = peers.config.join("nnfContainerNodes");
    let (rabbits, run) = (read(&nodes)?, read(&peers.config.join("nnfContainerSubdomain"))?);
    let hosts = rabbits.split_whitespace().map(|rabbit| format!("{rabbit}.{}", run.trim()));
    let hosts: Vec<String> = hosts.collect();
    if hosts.is_empty() {
        return Err(WaitError::NoHosts(nodes));
    }
    let ask =
        async |host: &str| timeout(TRY, TcpStream::connect((host, peers.port))).await?.map(drop);
    wait_for_all("rabbits' containers", &hosts, peers.seconds, ask).await
}

/// Sends requests to all hosts until each of them has answered.
async fn wait_for_all(
    what: &'static str,
    hosts: &[String],
    seconds: u64,
    ask: impl AsyncFn(&str) -> io::Result<()>,
) -> Result<(), WaitError> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let each = hosts.iter().map(|host| async { (host.clone(), wait_for(&ask, host, end).await) });
    let answers: Vec<_> = stream::iter(each).buffer_unordered(SIDE_BY_SIDE).collect().await;
    let missing = answers.into_iter().filter_map(|(host, answer)| Some((host, answer.err()?)));
    let missing: BTreeMap<String, String> = missing.collect();
    let Some(first) = hosts.first().filter(|_| !missing.is_empty()) else { return Ok(()) };
    let resolver = fs::read_to_string(RESOLVER).unwrap_or_default();
    let domain = other_domain(first, &resolver).map(str::to_owned);
    Err(WaitError::Missing { seconds, total: hosts.len(), what, missing, domain })
}

/// Returns the workers that answer now, in the file's order.
pub(crate) async fn hosts_that_answer(discover: &DiscoverHosts) -> Result<Vec<String>, WaitError> {
    let connector = Keys::read(&discover.keys.directory)?.connector()?;
    let workers = read_workers(&discover.workers)?;
    let end = Instant::now() + Duration::from_secs(discover.seconds);
    let each = workers.into_iter().map(|host| async {
        let answer = timeout_at(end, connect(&connector, &host)).await;
        matches!(answer, Ok(Ok(_))).then_some(host)
    });
    let answers: Vec<_> = stream::iter(each).buffered(SIDE_BY_SIDE).collect().await;
    Ok(answers.into_iter().flatten().collect())
}

fn workers(wait: &Wait) -> Result<Vec<String>, WaitError> {
    let single = || wait.worker.iter().cloned().collect();
    wait.workers.as_deref().map_or_else(|| Ok(single()), read_workers)
}

fn read(path: &Path) -> Result<String, WaitError> {
    fs::read_to_string(path).map_err(|source| WaitError::Read { path: path.to_owned(), source })
}

fn read_workers(path: &Path) -> Result<Vec<String>, WaitError> {
    let text = read(path)?;
    let workers: Vec<String> = text.lines().map(str::to_owned).collect();
    if workers.is_empty() { Err(WaitError::NoHosts(path.to_owned())) } else { Ok(workers) }
}

/// Sends requests to a host until it answers. If the time passes, fails with the host's last error.
async fn wait_for(
    ask: impl AsyncFn(&str) -> io::Result<()>,
    host: &str,
    end: Instant,
) -> Result<(), String> {
    let mut last_error = "no answer".to_owned();
    loop {
        match timeout_at(end, ask(host)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last_error = error.to_string(),
            Err(_) => return Err(last_error),
        }
        if timeout_at(end, sleep(PAUSE)).await.is_err() {
            return Err(last_error);
        }
    }
}

/// Lists the short names of the missing hosts, and the error of the first.
fn describe(missing: &BTreeMap<String, String>) -> String {
    let mut short: Vec<&str> = missing.keys().map(|host| short(host)).collect();
    hostlist::sort(&mut short);
    let all = hostlist::compress(&short);
    let names = match all.get(..MAX_NAMES_BYTES).and_then(|some| some.rsplit_once(',')) {
        Some((some, _)) => format!("{some} and others"),
        None => all,
    };
    let why = missing.iter().find(|(host, _)| Some(&self::short(host)) == short.first());
    let why = why.map(|(_, why)| format!("; {}: {why}", short[0]));
    names + &why.unwrap_or_default()
}

fn short(host: &str) -> &str {
    host.split_once('.').map_or(host, |(short, _)| short)
}

/// Returns the cluster's domain if this host's name is in another domain. The domain comes from the search path
/// that the kubelet writes.
fn other_domain<'a>(host: &str, resolver: &'a str) -> Option<&'a str> {
    let search = resolver.lines().filter_map(|line| line.strip_prefix("search ")).next_back()?;
    let (_, domain) = search.split_whitespace().next()?.split_once(".svc.")?;
    (host.contains(".svc.") && !host.ends_with(&format!(".svc.{domain}"))).then_some(domain)
}

fn domain_remedy(domain: Option<&str>) -> String {
    domain.map_or_else(String::new, |domain| {
        format!(
            "; the cluster's domain is {domain} by {RESOLVER}: the administrator starts the coordinator with --cluster-domain={domain}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_workers(workers: impl Iterator<Item = usize>) -> BTreeMap<String, String> {
        let host = |index| format!("w-worker-{index}.w.default.svc.cluster.local");
        workers.map(|index| (host(index), format!("why {index}"))).collect()
    }

    #[test]
    fn the_error_has_missing_workers_as_a_hostlist_and_the_first_cause() {
        let cases: [(&[usize], &str); 3] = [
            (&[3], "w-worker-3; w-worker-3: why 3"),
            (&[2, 9, 10, 11], "w-worker-[2,9-11]; w-worker-2: why 2"),
            (&[0, 1, 2], "w-worker-[0-2]; w-worker-0: why 0"),
        ];
        for (workers, expected) in cases {
            assert_eq!(describe(&missing_workers(workers.iter().copied())), expected);
        }
    }

    #[test]
    fn the_error_of_many_workers_fits_a_termination_message() {
        let text = describe(&missing_workers((0..1400).step_by(2)));
        assert!(text.starts_with("w-worker-[0,2,4,6,"), "{text}");
        assert!(text.ends_with(" and others; w-worker-0: why 0"), "{text}");
        assert!(text.len() < MAX_NAMES_BYTES + 50, "{}", text.len());
    }

    #[test]
    fn a_different_cluster_domain_is_reported() {
        let host = "w-worker-0.w.default.svc.cluster.local";
        let resolver = |domain: &str| {
            format!("nameserver 10.0.0.10\nsearch default.svc.{domain} svc.{domain} {domain}\n")
        };
        assert_eq!(other_domain(host, &resolver("site.example")), Some("site.example"));
        assert_eq!(other_domain(host, &resolver("cluster.local")), None);
        assert_eq!(
            other_domain("localhost", &resolver("site.example")),
            None,
            "a host without a domain"
        );
        assert_eq!(
            other_domain(host, "search site.example\n"),
            None,
            "a search path that no kubelet wrote"
        );
        assert!(domain_remedy(Some("site.example")).contains("--cluster-domain=site.example"));
        assert_eq!(domain_remedy(None), "");
    }
}
