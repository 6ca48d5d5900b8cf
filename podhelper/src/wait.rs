//! Waits until every host of a run answers, or finds those that answer now. With MPI the launcher's pod does so before each mpirun,
//! also when a launcher failed and its pod starts again; containers without MPI ask each other.

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
    rsh::{TRY, connected},
};

/// Between two questions to one worker.
const PAUSE: Duration = Duration::from_millis(500);
/// Workers that are asked at the same time.
const SIDE_BY_SIDE: usize = 256;
/// Of the names of workers that do not answer: a kubelet keeps 2048 bytes of a container's last words.
const LONGEST: usize = 600;
/// The pod's search path for names.
const RESOLVER: &str = "/etc/resolv.conf";

#[derive(Debug, Error)]
pub(crate) enum WaitError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("read {}, which names the hosts", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} names no host", .0.display())]
    NoHosts(PathBuf),
    #[error("after {seconds} seconds {} of {of} {what} do not answer: {}{}", missing.len(), describe(missing), mended(domain.as_deref()))]
    Missing {
        seconds: u64,
        of: usize,
        /// Who was asked.
        what: &'static str,
        /// What was last heard of each.
        missing: BTreeMap<String, String>,
        /// The domain of the cluster, where the workers' names have another.
        domain: Option<String>,
    },
}

/// Waits for all workers.
pub(crate) async fn run(wait: &Wait) -> Result<(), WaitError> {
    let connector = Keys::read(&wait.keys.directory)?.connector()?;
    let ask = async |host: &str| connected(&connector, host).await.map(drop);
    all("workers", &workers(wait)?, wait.seconds, ask).await
}

/// Waits for the containers on all rabbits of the run. Each has the name of its rabbit in the domain of the run.
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
    all("rabbits' containers", &hosts, peers.seconds, ask).await
}

/// Asks all of them until each has answered.
async fn all(
    what: &'static str,
    hosts: &[String],
    seconds: u64,
    ask: impl AsyncFn(&str) -> io::Result<()>,
) -> Result<(), WaitError> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let each = hosts.iter().map(|host| async { (host.clone(), answered(&ask, host, end).await) });
    let answers: Vec<_> = stream::iter(each).buffer_unordered(SIDE_BY_SIDE).collect().await;
    let missing = answers.into_iter().filter_map(|(host, answer)| Some((host, answer.err()?)));
    let missing: BTreeMap<String, String> = missing.collect();
    let Some(first) = hosts.first().filter(|_| !missing.is_empty()) else { return Ok(()) };
    let resolver = fs::read_to_string(RESOLVER).unwrap_or_default();
    let domain = other_domain(first, &resolver).map(str::to_owned);
    Err(WaitError::Missing { seconds, of: hosts.len(), what, missing, domain })
}

/// Those that answer now, in the file's order.
pub(crate) async fn answering(asked: &DiscoverHosts) -> Result<Vec<String>, WaitError> {
    let connector = Keys::read(&asked.keys.directory)?.connector()?;
    let workers = named_in(&asked.workers)?;
    let end = Instant::now() + Duration::from_secs(asked.seconds);
    let each = workers.into_iter().map(|host| async {
        let answer = timeout_at(end, connected(&connector, &host)).await;
        matches!(answer, Ok(Ok(_))).then_some(host)
    });
    let answers: Vec<_> = stream::iter(each).buffered(SIDE_BY_SIDE).collect().await;
    Ok(answers.into_iter().flatten().collect())
}

fn workers(wait: &Wait) -> Result<Vec<String>, WaitError> {
    let one = || wait.worker.iter().cloned().collect();
    wait.workers.as_deref().map_or_else(|| Ok(one()), named_in)
}

fn read(path: &Path) -> Result<String, WaitError> {
    fs::read_to_string(path).map_err(|source| WaitError::Read { path: path.to_owned(), source })
}

fn named_in(path: &Path) -> Result<Vec<String>, WaitError> {
    let text = read(path)?;
    let workers: Vec<String> = text.lines().map(str::to_owned).collect();
    if workers.is_empty() { Err(WaitError::NoHosts(path.to_owned())) } else { Ok(workers) }
}

/// Asks one until it answers; in the end what was last heard of it.
async fn answered(
    ask: impl AsyncFn(&str) -> io::Result<()>,
    host: &str,
    end: Instant,
) -> Result<(), String> {
    let mut last = "no answer".to_owned();
    loop {
        match timeout_at(end, ask(host)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => return Err(last),
        }
        if timeout_at(end, sleep(PAUSE)).await.is_err() {
            return Err(last);
        }
    }
}

/// Their short names as a list of hosts, and what is wrong with the first.
fn describe(missing: &BTreeMap<String, String>) -> String {
    let mut short: Vec<&str> = missing.keys().map(|host| short(host)).collect();
    hostlist::sort(&mut short);
    let all = hostlist::compress(&short);
    let named = match all.get(..LONGEST).and_then(|some| some.rsplit_once(',')) {
        Some((some, _)) => format!("{some} and others"),
        None => all,
    };
    let why = missing.iter().find(|(host, _)| Some(&self::short(host)) == short.first());
    let why = why.map(|(_, why)| format!("; {}: {why}", short[0]));
    named + &why.unwrap_or_default()
}

fn short(host: &str) -> &str {
    host.split_once('.').map_or(host, |(short, _)| short)
}

/// The domain of the cluster by the search path that a kubelet writes, where this host's name has another.
fn other_domain<'a>(host: &str, resolver: &'a str) -> Option<&'a str> {
    let search = resolver.lines().filter_map(|line| line.strip_prefix("search ")).next_back()?;
    let (_, domain) = search.split_whitespace().next()?.split_once(".svc.")?;
    (host.contains(".svc.") && !host.ends_with(&format!(".svc.{domain}"))).then_some(domain)
}

fn mended(domain: Option<&str>) -> String {
    domain.map_or_else(String::new, |domain| {
        format!(
            "; the cluster's domain is {domain} by {RESOLVER}: the administrator starts the coordinator with --cluster-domain={domain}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(workers: impl Iterator<Item = usize>) -> BTreeMap<String, String> {
        let host = |index| format!("w-worker-{index}.w.default.svc.cluster.local");
        workers.map(|index| (host(index), format!("why {index}"))).collect()
    }

    #[test]
    fn workers_that_are_missing_are_a_list_of_hosts_and_the_first_says_why() {
        let cases: [(&[usize], &str); 3] = [
            (&[3], "w-worker-3; w-worker-3: why 3"),
            (&[2, 9, 10, 11], "w-worker-[2,9-11]; w-worker-2: why 2"),
            (&[0, 1, 2], "w-worker-[0-2]; w-worker-0: why 0"),
        ];
        for (workers, expected) in cases {
            assert_eq!(describe(&missing(workers.iter().copied())), expected);
        }
    }

    #[test]
    fn what_is_told_of_many_fits_a_pod_s_last_words() {
        let text = describe(&missing((0..1400).step_by(2)));
        assert!(text.starts_with("w-worker-[0,2,4,6,"), "{text}");
        assert!(text.ends_with(" and others; w-worker-0: why 0"), "{text}");
        assert!(text.len() < LONGEST + 50, "{}", text.len());
    }

    #[test]
    fn a_cluster_s_domain_that_the_coordinator_does_not_know_is_told() {
        let host = "w-worker-0.w.default.svc.cluster.local";
        let of = |domain: &str| {
            format!("nameserver 10.0.0.10\nsearch default.svc.{domain} svc.{domain} {domain}\n")
        };
        assert_eq!(other_domain(host, &of("site.example")), Some("site.example"));
        assert_eq!(other_domain(host, &of("cluster.local")), None);
        assert_eq!(other_domain("localhost", &of("site.example")), None, "a worker asks itself");
        assert_eq!(other_domain(host, "search site.example\n"), None, "this is no pod's");
        assert!(mended(Some("site.example")).contains("--cluster-domain=site.example"));
        assert_eq!(mended(None), "");
    }
}
