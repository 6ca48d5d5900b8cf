//! Waits for conditions of objects by watching them, without polling.

mod judge;
mod watched;

use std::time::Duration;

use apiclient::WatchBackoff;
use futures::StreamExt;
use futures::stream::select_all;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::args::{Condition, Wait};
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::kinds::{Kind, Kinds};
use cli::Exit;
use cli::Output;
use watched::Watched;

/// A fatal error ends the wait only after it has lasted this long: the agent may not have read yet the change that
/// corrects the error.
const GRACE: Duration = Duration::from_secs(3);

/// Longest timeout, so that the deadline does not overflow the clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Objects to wait for: one object by name, or all objects that a selector matches.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub kind: Kind,
    /// Namespace of the objects; `None` for all namespaces.
    pub namespace: Option<String>,
    pub select: Select,
}

#[derive(Clone, Debug)]
pub(crate) enum Select {
    /// One object by its name. If a uid is given, a later object of the same name does not count.
    Name {
        name: String,
        uid: Option<String>,
    },
    Labels(String),
}

pub(crate) async fn run(server: &ServerArgs, args: &Wait, output: Output) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let kinds = Kinds::discover(&client).await?;
    let targets = targets(&kinds, args)?;
    let count = wait_until(&client, &targets, args.condition, args.timeout, output).await?;
    let word = word(args.condition);
    if output.is_json() {
        output.json(&json!({"condition": word, "met": count}))?;
    } else {
        output.line(&format!("{count} {word}"))?;
    }
    Ok(Exit::Done)
}

/// Waits until the condition holds for all objects, and returns their number.
///
/// # Errors
/// `Retryable` after the timeout, with the objects that do not meet the condition; another exit status if an object has
/// a fatal error.
pub(crate) async fn wait_until(
    client: &Client,
    targets: &[Target],
    condition: Condition,
    timeout: Duration,
    output: Output,
) -> Result<usize, Failure> {
    let mut watched: Vec<Watched> =
        targets.iter().map(|target| Watched::new(target.clone(), condition)).collect();
    let streams = targets
        .iter()
        .enumerate()
        .map(|(index, target)| events(client, target).map(move |event| (index, event)).boxed());
    let mut events = select_all(streams);
    let deadline = Instant::now() + timeout.min(LONGEST);
    loop {
        if watched.iter().all(Watched::is_met) {
            return Ok(watched.iter().map(Watched::count).sum());
        }
        let fatal = watched.iter().filter_map(Watched::fatal).min_by_key(|(since, _)| *since);
        let believed = fatal.as_ref().map_or(deadline, |(since, _)| *since + GRACE);
        tokio::select! {
            event = events.next() => {
                let Some((index, event)) = event else { return Err(Failure::new(Exit::Retryable, "the watch on the objects ended: try again")) };
                if let Some(watched) = watched.get_mut(index) {
                    handle_event(watched, event, output)?;
                }
            }
            () = sleep_until(believed), if believed < deadline => {
                if let Some((_, failure)) = fatal {
                    return Err(failure);
                }
            }
            () = sleep_until(deadline) => {
                return Err(fatal.map_or_else(|| timeout_failure(&watched, condition, timeout), |(_, failure)| failure));
            }
        }
    }
}

fn events(
    client: &Client,
    target: &Target,
) -> impl futures::Stream<Item = watcher::Result<Event<DynamicObject>>> + Send + use<> {
    let api: Api<DynamicObject> = target.kind.api_in(client, target.namespace.as_deref());
    let config = match &target.select {
        Select::Name { name, .. } => {
            watcher::Config::default().fields(&format!("metadata.name={name}"))
        }
        Select::Labels(labels) => watcher::Config::default().labels(labels),
    };
    watch(api, config).backoff(WatchBackoff::default())
}

fn handle_event(
    watched: &mut Watched,
    event: watcher::Result<Event<DynamicObject>>,
    output: Output,
) -> Result<(), Failure> {
    match event {
        Ok(event) => {
            for news in watched.apply_event(event, Instant::now()) {
                output.progress(&news);
            }
            Ok(())
        }
        Err(error) if watched.is_listed() => {
            output.progress(&format!("{error}; trying again"));
            Ok(())
        }
        Err(watcher::Error::InitialListFailed(error)) => {
            Err(failure::api(format!("list {}", watched.target().kind.resource.plural), &error))
        }
        Err(error) => Err(Failure::new(Exit::Retryable, "watch").because(&error)),
    }
}

fn timeout_failure(watched: &[Watched], condition: Condition, timeout: Duration) -> Failure {
    let unmet: Vec<String> = watched.iter().flat_map(Watched::unmet).collect();
    let timeout = humantime::format_duration(timeout);
    let what = format!("not {} after {timeout}:\n{}", word(condition), unmet.join("\n"));
    Failure::new(Exit::Retryable, what).remedy("`warren mounts` and `warren nodes` show more")
}

fn targets(kinds: &Kinds, args: &Wait) -> Result<Vec<Target>, Failure> {
    let namespace = (!args.scope.all_namespaces).then(|| args.scope.namespace.clone());
    let usage = |what: String| Failure::new(Exit::Usage, what);
    if let Some(labels) = &args.selector {
        let [kind] = args.objects.as_slice() else {
            return Err(usage("--selector takes one KIND and no name".to_owned()));
        };
        let select = Select::Labels(labels.clone());
        return Ok(vec![Target { kind: kinds.find_by_name(kind)?.clone(), namespace, select }]);
    }
    let target = |object: &String| {
        let (kind, name) = object
            .split_once('/')
            .filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
            .ok_or_else(|| {
                usage(format!("{object:?}: write KIND/NAME, or KIND with --selector"))
            })?;
        let select = Select::Name { name: name.to_owned(), uid: None };
        Ok(Target { kind: kinds.find_by_name(kind)?.clone(), namespace: namespace.clone(), select })
    };
    args.objects.iter().map(target).collect()
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Mounted => "mounted",
        Condition::Unmounted => "unmounted",
        Condition::Ready => "ready",
        Condition::Deleted => "deleted",
    }
}
