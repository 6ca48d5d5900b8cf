//! The loop: what lies in the directories, one fence per node at a time, and any number of nodes side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use daemon::chain;
use futures::{Stream, StreamExt};
use storage::desired::NodeName;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

pub(crate) use super::cut::Tools;
use super::{
    FenceConfig,
    answer::{answer_all, finish},
    barrier::Closed,
    cut::{cut, doubtful},
    notify::Watch,
    request::{FileName, Request},
    response::Verdict,
    spool::{Scan, Spool},
};
use crate::{pass::blocking, signs::Signs, watch::Told};

/// What a fence is given before it is answered that it did not happen. The sites' agent waits for 60 s, and DLM is told within
/// that too.
const CUT_WITHIN: Duration = Duration::from_secs(40);

/// After which time the directories are read again when that failed: want of memory or of descriptors passes.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// Fences as it is asked to.
pub(crate) struct Fencer {
    desk: Option<Desk>,
    /// Whether the last look at the directories failed, so that nobody is given anything until one succeeds.
    unread: bool,
    tools: Arc<Tools>,
    config: Arc<FenceConfig>,
    signs: Signs,
    tell: mpsc::UnboundedSender<Told>,
    running: JoinSet<Ended>,
    busy: BTreeSet<NodeName>,
    /// Requests that could not be answered or taken away: there is nothing to gain before anything changes.
    given_up: BTreeSet<FileName>,
    /// Nodes whose files may have changed since the work on them began.
    outdated: BTreeSet<NodeName>,
    /// What was said of files that cannot be read.
    told: BTreeSet<String>,
}

/// The directories, and what the kernel says of them.
struct Desk {
    spool: Spool,
    watch: Watch,
}

/// Nothing works on the node's files any more.
struct Ended {
    node: NodeName,
    /// Requests that could not be answered or taken away.
    left: Vec<FileName>,
    /// What kept it out, if it was to be fenced.
    closed: Option<Closed>,
}

/// What to do next.
enum Turn {
    Changed,
    Ended(Ended),
    Blind(String),
}

impl Fencer {
    /// Opens the directories and reads who is fenced. From then on the stream says when that changes.
    ///
    /// Without directories nobody can ask for a fence: then no compute is given a GFS2, and everything else goes on.
    pub(crate) fn open(
        config: FenceConfig,
        tools: Tools,
        signs: Signs,
    ) -> (Self, impl Stream<Item = Told> + use<>) {
        let (tell, told) = mpsc::unbounded_channel();
        let mut fencer = Self {
            desk: None,
            unread: false,
            tools: Arc::new(tools),
            config: Arc::new(config),
            signs,
            tell,
            running: JoinSet::new(),
            busy: BTreeSet::new(),
            given_up: BTreeSet::new(),
            outdated: BTreeSet::new(),
            told: BTreeSet::new(),
        };
        match fencer.desk() {
            Ok(desk) => fencer.desk = Some(desk),
            Err(why) => {
                log::info!("no compute is fenced, and none is given a GFS2: {why}");
                fencer.tools.fences.blind(why);
            }
        }
        // At its end nobody is fenced any more, but what was said stays.
        (fencer, UnboundedReceiverStream::new(told).chain(futures::stream::pending()))
    }

    fn desk(&mut self) -> Result<Desk, String> {
        let (requests, responses) = (self.config.requests.clone(), self.config.responses.clone());
        let spool = Spool::open(requests, responses).map_err(|error| chain(&error))?;
        // Watched first: what comes during the scan is not missed.
        let watch = Watch::new(&[&spool.requests, &spool.responses])
            .map_err(|error| format!("watch {}: {error}", spool.requests.display()))?;
        let scan = spool.scan().map_err(|error| chain(&error))?;
        self.saw(&scan);
        Ok(Desk { spool, watch })
    }

    /// Works for ever.
    pub(crate) async fn run(mut self) {
        self.look().await;
        loop {
            let unread = self.unread;
            let turn = match &self.desk {
                Some(desk) => tokio::select! {
                    changed = desk.watch.changed() => match changed {
                        Ok(()) => Turn::Changed,
                        Err(error) => Turn::Blind(format!("watch the fence requests: {error}; restart the agent when their directories are back")),
                    },
                    Some(ended) = self.running.join_next() => Turn::Ended(joined(ended)),
                    () = tokio::time::sleep(READ_AGAIN), if unread => Turn::Changed,
                },
                None => match self.running.join_next().await {
                    Some(ended) => Turn::Ended(joined(ended)),
                    None => return std::future::pending().await,
                },
            };
            match turn {
                Turn::Changed => {
                    self.given_up.clear();
                    self.outdated.clone_from(&self.busy);
                }
                Turn::Ended(Ended { node, left, closed }) => {
                    self.busy.remove(&node);
                    // What was in the way may have gone before it was known that anything was.
                    if !self.outdated.remove(&node) {
                        self.given_up.extend(left);
                    }
                    // First what the files say of it now, so that it is not open in between.
                    self.look().await;
                    drop(closed);
                    self.changed();
                    continue;
                }
                Turn::Blind(why) => self.blind(why),
            }
            self.look().await;
        }
    }

    fn blind(&mut self, why: String) {
        log::error!("no compute is given a GFS2 any more: {why}");
        self.desk = None;
        self.tools.fences.blind(why);
        self.changed();
    }

    /// Nobody listens any more only when the agent stops.
    fn changed(&self) {
        drop(self.tell.send(Told::of_fences()));
    }

    async fn look(&mut self) {
        let Some(desk) = &self.desk else { return };
        let spool = desk.spool.clone();
        let scan = match blocking(move || spool.scan()).await {
            Ok(scan) => scan,
            Err(error) => return self.could_not_read(chain(&error)),
        };
        let others = self.saw(&scan);
        let again = mem::take(&mut self.unread);
        if again {
            log::info!("fence requests can be read again");
            self.tools.fences.sees();
        }
        if others || again {
            self.changed();
        }
        self.start(scan);
    }

    /// The directories are still watched, so that nothing is missed when they can be read again.
    fn could_not_read(&mut self, why: String) {
        if !mem::replace(&mut self.unread, true) {
            log::error!("no compute is given a GFS2 until fence requests can be read: {why}");
            self.tools.fences.blind(why);
            self.changed();
        }
    }

    /// Takes in what was read; whether others are fenced than before.
    fn saw(&mut self, scan: &Scan) -> bool {
        for trouble in scan.troubles.difference(&self.told) {
            log::warn!("{trouble}");
        }
        self.told.clone_from(&scan.troubles);
        let asked = scan.asked.keys().map(|name| name.node().clone()).collect();
        self.tools.fences.saw(scan.marked.clone(), asked)
    }

    /// Goes on with each node where its files stand: what is answered comes to its end before anything new is begun.
    fn start(&mut self, scan: Scan) {
        let Some(desk) = &self.desk else { return };
        let spool = desk.spool.clone();
        for (node, answered) in self.by_node(scan.answered) {
            let (config, spool, of) = (Arc::clone(&self.config), spool.clone(), node.clone());
            // What it may be given, its answer says: a node that was not fenced keeps all that it has.
            self.work_on(node, None, finish(config, spool, of, answered));
        }
        for (node, requests) in self.by_node(scan.asked) {
            requests.iter().for_each(|_| self.signs.count_fence());
            let (tools, config) = (Arc::clone(&self.tools), Arc::clone(&self.config));
            let (spool, of) = (spool.clone(), node.clone());
            let closed = tools.fences.close(&node);
            self.work_on(node, Some(closed), fence(tools, config, spool, of, requests));
        }
    }

    /// The files of each node that nothing works on yet.
    fn by_node<T>(&self, files: BTreeMap<FileName, T>) -> BTreeMap<NodeName, Vec<(FileName, T)>> {
        let mut by_node: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, of) in files {
            if !self.given_up.contains(&name) && !self.busy.contains(name.node()) {
                by_node.entry(name.node().clone()).or_default().push((name, of));
            }
        }
        by_node
    }

    fn work_on(
        &mut self,
        node: NodeName,
        closed: Option<Closed>,
        work: impl Future<Output = Vec<FileName>> + Send + 'static,
    ) {
        self.busy.insert(node.clone());
        self.running.spawn(async move { Ended { left: work.await, node, closed } });
    }
}

/// Fences one node, and answers everybody who asked for it; gives back the requests that could not be answered or taken away.
async fn fence(
    tools: Arc<Tools>,
    config: Arc<FenceConfig>,
    spool: Spool,
    node: NodeName,
    requests: Vec<(FileName, Request)>,
) -> Vec<FileName> {
    let (served, refused): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(_, request)| request.served().is_ok());
    let mut left = Vec::new();
    for asked in refused {
        let why = asked.1.served().err().map(|it| it.to_string()).unwrap_or_default();
        left.extend(answer_all(&config, &spool, &node, vec![asked], &doubtful(&node, &why)).await);
    }
    if served.is_empty() {
        return left;
    }
    for (_, request) in &served {
        log::info!(
            "{node} is to be fenced, asks {}: {}",
            request.recorder_node,
            request.request_id
        );
    }
    let (verdict, late) = cut_in_time(&tools, &node).await;
    if verdict.is_success() {
        log::info!("{}", verdict.text());
    } else {
        log::error!("{}", verdict.text());
    }
    left.extend(answer_all(&config, &spool, &node, served, &verdict).await);
    if let Some(late) = late {
        // What it still detaches would be missing from a node that was given it again.
        drop(late.await);
    }
    left
}

/// The fence, or that it did not come to its end, with what of it still runs.
async fn cut_in_time(
    tools: &Arc<Tools>,
    node: &NodeName,
) -> (Verdict, Option<JoinHandle<Verdict>>) {
    let (used, target) = (Arc::clone(tools), node.clone());
    let mut cutting = tokio::spawn(async move { cut(&used, &target).await });
    match tokio::time::timeout(CUT_WITHIN, &mut cutting).await {
        Ok(Ok(verdict)) => (verdict, None),
        Ok(Err(error)) => (doubtful(node, &format!("the fence ended early: {error}")), None),
        Err(_) => {
            let why = format!("it did not come to an end within {} s", CUT_WITHIN.as_secs());
            (doubtful(node, &why), Some(cutting))
        }
    }
}

fn joined(ended: Result<Ended, tokio::task::JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
