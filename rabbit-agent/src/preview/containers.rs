//! Plans for a NodeContainers.

use std::sync::Arc;

use api::{NodeContainers, names::finalizer};
use containers::JobPackage;
use controller::has_finalizer;
use daemon::chain;
use k8s_openapi::jiff::Timestamp;
use packages::{JobPackages, Progress};

use super::{MORE, Planned, Snapshot, cost::with_container_cost};
use crate::{
    core::Context,
    kinds::container::{
        ContainersView, Host,
        desired::{Desired, grace, uid_of},
        observed::{Logs, Observed},
        phase::Record,
        plan::{plan as plan_steps, removal},
        read_missing,
        report::record,
        start_blocker,
        step::Step,
    },
};

const NO_PODMAN: &str =
    "this agent runs no containers: start it with --podman PROGRAM if it should";
const NO_PACKAGES: &str =
    "this agent fetches no job packages: start it with --package-dir DIR if it should";

/// Returns the plan for a NodeContainers; `None` if the agent does not know it.
pub(super) async fn plan(snapshot: &Snapshot, name: &str) -> Option<Planned> {
    let object = Arc::clone(snapshot.cache.containers(name)?);
    let context = &*snapshot.context;
    let packages = context.packages.as_ref();
    if object.spec.containers.is_empty() {
        return Some(packages.map_or_else(
            || Planned::waiting(NO_PACKAGES),
            |packages| plan_packages(context, packages, &object),
        ));
    }
    let Some(host) = &context.containers else { return Some(Planned::waiting(NO_PODMAN)) };
    if object.metadata.deletion_timestamp.is_some() {
        return Some(plan_removal(host, &object).await);
    }
    let view = ContainersView::new(object, &snapshot.cache, &snapshot.mounted);
    Some(plan_containers(context, host, &view).await.unwrap_or_else(refused))
}

fn refused(why: String) -> Planned {
    Planned { rejection: Some(why), ..Planned::default() }
}

/// Plans for an object whose containers the kubelet runs: the agent only fetches its job packages.
fn plan_packages(context: &Context, packages: &JobPackages, object: &NodeContainers) -> Planned {
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    if is_deleted {
        return Planned { steps: release_packages(object), ..Planned::default() };
    }
    match Desired::from_object(object, &context.site.roots) {
        Ok(desired) if record(object, Timestamp::now()).end.is_none() => {
            let (fetched, progress) = packages.foresee(desired.uid.into(), &desired.packages);
            let waiting = awaited(&fetched, progress);
            Planned { steps: fetches(&fetched), waiting, ..Planned::default() }
        }
        Ok(_) => Planned::default(),
        Err(error) => refused(chain(&error)),
    }
}

/// Returns the reason to wait for job packages of which no fetch is still to begin.
fn awaited(fetched: &[JobPackage], progress: Progress) -> Option<String> {
    match progress {
        Progress::Awaited(why) | Progress::Impossible(why) if fetched.is_empty() => Some(why),
        Progress::Awaited(_) | Progress::Impossible(_) | Progress::InPlace => None,
    }
}

fn fetches(packages: &[JobPackage]) -> Vec<String> {
    let fetch = |package: &JobPackage| {
        format!("fetch job package {} from {}", package.name, package.source)
    };
    packages.iter().map(fetch).collect()
}

fn release_packages(object: &NodeContainers) -> Vec<String> {
    let has_any =
        has_finalizer(object, finalizer::NODE_CONTAINERS) && !object.spec.packages.is_empty();
    let text = "release its job packages (deletes those that no other object uses)";
    has_any.then(|| text.to_owned()).into_iter().collect()
}

async fn plan_removal(host: &Arc<dyn Host>, object: &NodeContainers) -> Planned {
    if !has_finalizer(object, finalizer::NODE_CONTAINERS) {
        return Planned::default();
    }
    let (uid, grace) = (uid_of(object), grace(&object.spec));
    let host = Arc::clone(host);
    let steps = daemon::blocking(move || {
        let uid = uid.map_err(|error| chain(&error))?;
        let seen = host.observe(uid, Logs::OfEnded).map_err(|error| chain(&error))?;
        Ok(removal(uid, grace, &seen))
    });
    let texts = |steps: Vec<Step>| steps.iter().map(with_container_cost).collect::<Vec<_>>();
    match steps.await.map(texts) {
        Ok(steps) => {
            Planned { steps: [steps, release_packages(object)].concat(), ..Planned::default() }
        }
        Err(why) => refused(why),
    }
}

/// Plans the next steps for an object whose containers run under podman.
async fn plan_containers(
    context: &Context,
    host: &Arc<dyn Host>,
    view: &ContainersView,
) -> Result<Planned, String> {
    let now = Timestamp::now();
    let mut desired =
        Desired::from_object(&view.object, &context.site.roots).map_err(|error| chain(&error))?;
    let recorded = record(&view.object, now);
    let observed = observe(host, &desired).await?;
    read_missing(context, &mut desired, &recorded, &observed).await?;
    let (fetched, progress) = job_packages(context, &desired, &recorded);
    let may_start = start_blocker(view, progress.clone()).is_none();
    let steps = plan_steps(&desired, &observed, &recorded, may_start, now);
    let mut texts = fetches(&fetched);
    texts.extend(steps.iter().map(with_container_cost));
    let is_followed = !fetched.is_empty() || steps.iter().any(starts);
    texts.extend(is_followed.then(|| MORE.to_owned()));
    // Without a blocker, the plan would start the containers.
    let would_start = plan_steps(&desired, &observed, &recorded, true, now);
    let blocker =
        start_blocker(view, if fetched.is_empty() { progress } else { Progress::InPlace });
    let waiting = blocker.filter(|_| would_start != steps).map(|why| format!("waits: {why}"));
    Ok(Planned { steps: texts, waiting, rejection: None })
}

async fn observe(host: &Arc<dyn Host>, desired: &Desired) -> Result<Observed, String> {
    let (host, uid) = (Arc::clone(host), desired.uid);
    daemon::blocking(move || host.observe(uid, Logs::OfEnded)).await.map_err(|error| chain(&error))
}

/// Returns the job packages to fetch, and the progress of all, as long as containers may still start.
fn job_packages(
    context: &Context,
    desired: &Desired,
    record: &Record,
) -> (Vec<JobPackage>, Progress) {
    let packages = context.packages.as_ref().filter(|_| record.end.is_none() && !record.is_late);
    packages.map_or((Vec::new(), Progress::InPlace), |packages| {
        packages.foresee(desired.uid.into(), &desired.packages)
    })
}

/// Returns whether more steps follow this one.
fn starts(step: &Step) -> bool {
    matches!(step, Step::MakePod(_) | Step::Make(_) | Step::Connect(_))
}
