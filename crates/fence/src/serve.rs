//! Runs the fencer's loop: reads the directories, and starts fences, at most one per node and any number
//! of nodes in parallel.

mod one_node;
mod open_spool;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use daemon::{blocking, chain};
use storage::desired::NodeName;
use tokio::task::JoinSet;

use self::{
    one_node::fence,
    open_spool::{OpenSpool, changed},
};
pub use super::detach::Tools;
use super::{FenceConfig, Fences, answer::finish, barrier::Closed, request::FileName, spool::Scan};

/// Delay before the agent opens or reads the directories again after a failure: a disk may be mounted late or come
/// back, and a lack of memory or descriptors may pass.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The same delay if the directories never existed, and no cluster is configured that could request a fence.
const RETRY_AFTER_UNUSED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Fencer {
    spool: Option<OpenSpool>,
    /// The reason why the directories could not be read. Until they can be read, no compute gets a GFS2.
    unreadable: Option<String>,
    /// Whether directories disappeared after they had been open. Then only an administrator who has the
    /// files can restore them.
    lost: bool,
    tools: Arc<Tools>,
    config: Arc<FenceConfig>,
    running: JoinSet<Ended>,
    busy: BTreeSet<NodeName>,
    /// Requests that could not be answered or deleted. The agent retries them after the next change.
    failed: BTreeSet<FileName>,
    /// Nodes whose files may have changed after the work on the files began.
    outdated: BTreeSet<NodeName>,
    logged: BTreeSet<String>,
}

/// Result of the work on a node's files.
#[derive(Debug)]
struct Ended {
    node: NodeName,
    /// Requests that could not be answered or deleted.
    left: Vec<FileName>,
    /// Keeps the node from getting a GFS2 during the fence.
    closed: Option<Closed>,
}

/// The event to handle next.
enum Next {
    Changed,
    Ended(Ended),
    Lost(io::Error),
}

/// Reads from the directories of requests and answers which computes are fenced. Changes nothing.
pub fn read_fences(config: &FenceConfig) -> Fences {
    let fences = Fences::default();
    match OpenSpool::open(config, false) {
        Ok((_, scan)) => drop(update(&fences, &scan)),
        Err(why) => fences.set_unknown(why),
    }
    fences
}

/// Stores the result of a scan, and returns whether the fenced nodes changed.
fn update(fences: &Fences, scan: &Scan) -> bool {
    let requested = scan.requested.keys().map(|name| name.node().clone()).collect();
    fences.update(scan.fenced.clone(), requested)
}

impl Fencer {
    /// Opens the directories and reads which nodes are fenced.
    ///
    /// Without directories Pacemaker's agent cannot request a fence. No compute gets a GFS2 until the directories
    /// exist; all other work continues.
    pub fn open(config: FenceConfig, tools: Tools) -> Self {
        let mut fencer = Self {
            spool: None,
            unreadable: None,
            lost: false,
            tools: Arc::new(tools),
            config: Arc::new(config),
            running: JoinSet::new(),
            busy: BTreeSet::new(),
            failed: BTreeSet::new(),
            outdated: BTreeSet::new(),
            logged: BTreeSet::new(),
        };
        match OpenSpool::open(&fencer.config, true) {
            Ok((open, scan)) => {
                fencer.record(&scan);
                fencer.spool = Some(open);
            }
            Err(why) => {
                // GFS2 needs DLM, so only a node of a cluster can use a GFS2.
                let in_use = fencer.config.corosync.exists();
                let level = if in_use { log::Level::Warn } else { log::Level::Info };
                log::log!(level, "no compute can be fenced, so none gets access to a GFS2: {why}");
                fencer.tools.fences.set_unknown(why.clone());
                fencer.unreadable = Some(why);
            }
        }
        fencer
    }

    pub async fn run(mut self) {
        self.check().await;
        loop {
            let retry_after = self.retry_after();
            let next = tokio::select! {
                changed = changed(self.spool.as_ref()) => match changed {
                    Ok(()) => Next::Changed,
                    Err(error) => Next::Lost(error),
                },
                Some(ended) = self.running.join_next() => Next::Ended(result_of(ended)),
                () = tokio::time::sleep(retry_after), if self.unreadable.is_some() => Next::Changed,
            };
            match next {
                Next::Changed => {
                    self.failed.clear();
                    self.outdated.clone_from(&self.busy);
                }
                Next::Ended(Ended { node, left, closed }) => {
                    self.busy.remove(&node);
                    // If a file changed during the work, the cause of the failure may be gone.
                    if !self.outdated.remove(&node) {
                        self.failed.extend(left);
                    }
                    // The files are read before `closed` is dropped: so the node never gets a GFS2 in between.
                    self.check().await;
                    drop(closed);
                    self.tools.changed.notify_one();
                    continue;
                }
                Next::Lost(error) => {
                    let why = self.close_spool(&error);
                    self.set_unreadable(why);
                }
            }
            self.check().await;
        }
    }

    fn retry_after(&self) -> Duration {
        let is_used = self.spool.is_some() || self.lost || self.config.corosync.exists();
        if is_used { RETRY_AFTER } else { RETRY_AFTER_UNUSED }
    }

    async fn check(&mut self) {
        let scan = match self.scan().await {
            Ok(scan) => scan,
            Err(why) => return self.set_unreadable(why),
        };
        let fenced_changed = self.record(&scan);
        let was_unreadable = self.unreadable.take().is_some();
        if was_unreadable {
            log::info!("fence requests can be read again");
            self.tools.fences.set_known();
        }
        if fenced_changed || was_unreadable {
            self.tools.changed.notify_one();
        }
        self.start(scan);
    }

    /// Reads the directories, and opens them first if they are not open.
    async fn scan(&mut self) -> Result<Scan, String> {
        if let Some(open) = &self.spool {
            let spool = open.spool.clone();
            let scan = blocking(move || spool.scan()).await.map_err(|error| chain(&error));
            // The path may lead to another directory now, which may lack answers.
            let Err(error) = open.watch.check() else { return scan };
            return Err(self.close_spool(&error));
        }
        let (config, to_make) = (Arc::clone(&self.config), !self.lost);
        let (open, scan) = blocking(move || OpenSpool::open(&config, to_make)).await?;
        // An administrator cannot have deleted an answer that is missing now, because the directory was out of reach:
        // so the path must lead to another directory.
        let fenced = self.tools.fences.fenced();
        if let Some(node) = fenced.difference(&scan.fenced).next() {
            let path = self.config.responses.display();
            return Err(format!(
                "{path} came back without the answer that says that {node} is fenced: restore the directory with its files, or restart the agent if {node} may have access again"
            ));
        }
        (self.spool, self.lost) = (Some(open), false);
        Ok(scan)
    }

    fn close_spool(&mut self, error: &io::Error) -> String {
        (self.spool, self.lost) = (None, true);
        format!("watch the fence requests: {error}; restore their directories with their files")
    }

    /// Keeps every GFS2 from all computes. The watch on open directories stays, so that no change is missed until the
    /// directories can be read again.
    fn set_unreadable(&mut self, why: String) {
        if self.unreadable.as_ref() != Some(&why) {
            log::error!("no compute gets access to a GFS2 until fence requests can be read: {why}");
            self.tools.fences.set_unknown(why.clone());
            self.unreadable = Some(why);
            self.tools.changed.notify_one();
        }
    }

    /// Stores the result of a scan, and returns whether the fenced nodes changed.
    fn record(&mut self, scan: &Scan) -> bool {
        for trouble in scan.troubles.difference(&self.logged) {
            log::warn!("{trouble}");
        }
        self.logged.clone_from(&scan.troubles);
        update(&self.tools.fences, scan)
    }

    /// Continues each node's work from its files: first completes requests that have an answer, then
    /// begins a new fence.
    fn start(&mut self, scan: Scan) {
        let Some(open) = &self.spool else { return };
        let spool = open.spool.clone();
        for (node, answered) in self.by_node(scan.answered) {
            let (config, spool, target) = (Arc::clone(&self.config), spool.clone(), node.clone());
            // Does not keep a GFS2 from the node meanwhile: the answer alone decides. After an answer of success the
            // node is fenced, and after a refusal the node keeps its access.
            self.spawn(node, None, finish(config, spool, target, answered));
        }
        for (node, requests) in self.by_node(scan.requested) {
            self.tools.requests.inc_by(requests.len() as u64);
            let (tools, config) = (Arc::clone(&self.tools), Arc::clone(&self.config));
            let (spool, target) = (spool.clone(), node.clone());
            let closed = tools.fences.close(&node);
            self.spawn(node, Some(closed), fence(tools, config, spool, target, requests));
        }
    }

    /// Returns the files of the nodes on which no work runs yet, without requests that could not be answered or
    /// deleted.
    fn by_node<T>(&self, files: BTreeMap<FileName, T>) -> BTreeMap<NodeName, Vec<(FileName, T)>> {
        let mut by_node: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, content) in files {
            if !self.failed.contains(&name) && !self.busy.contains(name.node()) {
                by_node.entry(name.node().clone()).or_default().push((name, content));
            }
        }
        by_node
    }

    fn spawn(
        &mut self,
        node: NodeName,
        closed: Option<Closed>,
        work: impl Future<Output = Vec<FileName>> + Send + 'static,
    ) {
        self.busy.insert(node.clone());
        self.running.spawn(async move { Ended { left: work.await, node, closed } });
    }
}

fn result_of(ended: Result<Ended, tokio::task::JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests;
