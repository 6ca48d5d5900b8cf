//! Watches that last for a whole run, and the events of each object that the watches have delivered.

use crate::kinds::Kind;
use crate::normalise;
use crate::operation::Memory;
use crate::run::Pair;
use crate::servers::{Events, Prepared};
use http::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time within which the last event of a watch must arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// The same watch on both servers.
#[derive(Debug)]
pub(crate) struct Watched {
    what: String,
    ours: Events,
    theirs: Events,
}

/// Events of each object in a watch, in order.
type Histories = BTreeMap<String, Vec<(String, Value)>>;

/// Starts a watch of every kind at the current revision, some of them with selectors.
pub(crate) async fn start(pair: &Pair, kinds: &[Kind]) -> Vec<Watched> {
    let mut watches = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let everywhere = kind.custom && kind.examples.is_empty();
        let list = match (kind.namespaced, everywhere) {
            (true, true) => format!("{}/{}", kind.root, kind.plural),
            _ => kind.list("<run>-a"),
        };
        let selector = match index % 4 {
            _ if !kind.namespaced && !kind.custom => "&labelSelector=run%3D<run>",
            1 => "&labelSelector=app%3Dx",
            2 => "&fieldSelector=metadata.name!%3Da",
            3 if everywhere => "&fieldSelector=spec.node!%3Dabc",
            _ => "",
        };
        watches.push(Watched {
            what: format!("{list}{selector}"),
            ours: open(pair, true, &list, selector).await,
            theirs: open(pair, false, &list, selector).await,
        });
    }
    watches
}

async fn open(pair: &Pair, ours: bool, list: &str, selector: &str) -> Events {
    let (server, memory) =
        if ours { (&pair.ours, &pair.our_memory) } else { (&pair.theirs, &pair.their_memory) };
    let list = memory.fill(list);
    let page = server.send(&Prepared::new(Method::GET, &list)).await.body;
    let revision = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let options = "watch=1&allowWatchBookmarks=true&timeoutSeconds=3600";
    let selector = memory.fill(selector);
    server.watch(&format!("{list}?{options}&resourceVersion={revision}{selector}")).await
}

/// Returns the watches whose histories differ at the end.
pub(crate) async fn differences(pair: &Pair, watches: &[Watched]) -> Vec<String> {
    let mut found = Vec::new();
    for watch in watches {
        let both = || {
            (histories(&watch.ours, &pair.our_memory), histories(&watch.theirs, &pair.their_memory))
        };
        let until_same = async {
            while both().0 != both().1 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, until_same).await.is_err() {
            let (ours, theirs) = both();
            found.push(format!("watch of {}: {}", watch.what, first_difference(&ours, &theirs)));
        }
    }
    found
}

fn first_difference(ours: &Histories, theirs: &Histories) -> String {
    let names = ours.keys().chain(theirs.keys());
    let differs = |name: &&String| ours.get(*name) != theirs.get(*name);
    let name = names.into_iter().find(differs).cloned().unwrap_or_default();
    let empty = Vec::new();
    let (ours, theirs) = (ours.get(&name).unwrap_or(&empty), theirs.get(&name).unwrap_or(&empty));
    let same = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    format!(
        "{name}: after {same} events ours has {:?}, theirs {:?} ({} and {} events)",
        ours.get(same),
        theirs.get(same),
        ours.len(),
        theirs.len()
    )
}

fn histories(events: &Events, memory: &Memory) -> Histories {
    let mut histories = Histories::new();
    for event in events.lock().unwrap().iter().filter(|event| event["type"] != "BOOKMARK") {
        let clean = normalise::event(event, memory);
        let meta = &clean["object"]["metadata"];
        let history =
            histories.entry(format!("{}/{}", meta["namespace"], meta["name"])).or_default();
        let verb = event["type"].as_str().unwrap_or_default();
        let object = clean["object"].clone();
        match history.last_mut().filter(|_| verb == "MODIFIED") {
            // A MODIFIED event in which only the revision has changed comes from a change of `managedFields`, which
            // only the real server has. Merges this event with the event before it. The merged event has the revision
            // of this event, except if this revision is `unseen` (see [`normalise::event`]).
            Some((_, before)) if unrevised(before) == unrevised(&object) => {
                if object["metadata"]["resourceVersion"] != "unseen" {
                    *before = object;
                }
            }
            _ => history.push((verb.to_owned(), object)),
        }
    }
    histories
}

fn unrevised(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = Value::Null;
    object
}
