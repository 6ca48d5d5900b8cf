//! Adopts persistent storage that the Go controllers made, and releases it to them again.

use std::{collections::BTreeSet, time::Duration};

use api::{
    NnfLustreMgt, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    PersistentStorageInstance, Servers,
    names::{NNF_GROUP, finalizer, label},
};
use cli::{Exit, Output};
use kube::{
    Client, Resource, ResourceExt,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde::Serialize;

use super::adoption::{self, Found, Objects, Step};
use crate::{
    args::workflow::Adoption,
    client::ServerArgs,
    failure::{self, Failure},
};

/// How long running Go controllers take at most to put a removed finalizer back: their watch tells them of the removal at
/// once.
const REACTION: Duration = Duration::from_secs(2);

/// Adoption or release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Adopt,
    Release,
}

impl Act {
    const fn done(self) -> &'static str {
        match self {
            Self::Adopt => "adopted",
            Self::Release => "released to the Go controllers",
        }
    }

    fn plan(self, objects: &Objects) -> Result<Vec<Step>, adoption::AdoptionError> {
        match self {
            Self::Adopt => adoption::adopt(objects),
            Self::Release => adoption::release(objects),
        }
    }
}

/// The result for one storage.
#[derive(Debug, Serialize)]
struct Line {
    storage: String,
    /// The steps in their order, as text.
    steps: Vec<String>,
    /// Why nothing is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Adopts or releases the named storage, or all. Storage that cannot be adopted or released is left as it is.
///
/// # Errors
/// When the API refuses or does not answer. What was changed until then stays; the same command goes on from there.
pub(super) async fn run(
    server: &ServerArgs,
    args: &Adoption,
    act: Act,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let (mut lines, mut plans) = (Vec::new(), Vec::new());
    for name in names(&client, args, act).await? {
        let planned = act.plan(&objects(&client, &args.namespace, &name).await?);
        let (steps, error) = match planned {
            Ok(steps) => (steps, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let shown = steps.iter().map(|step| step.what.clone()).collect();
        lines.push(Line { storage: name, steps: shown, error });
        plans.push(steps);
    }
    if !args.dry_run {
        carry_out(&client, &plans, act).await?;
    }
    print(&lines, args.dry_run, act, output)?;
    Ok(if lines.iter().any(|line| line.error.is_some()) { Exit::Failed } else { Exit::Done })
}

fn print(lines: &[Line], dry_run: bool, act: Act, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&lines)?;
        return Ok(());
    }
    for Line { storage, steps, error } in lines {
        let result = match error {
            Some(error) => format!("not {}: {error}", act.done()),
            None if steps.is_empty() => "nothing to do".to_owned(),
            None if dry_run => format!("would be {}, in {} steps", act.done(), steps.len()),
            None => act.done().to_owned(),
        };
        output.line(&format!("{storage}: {result}"))?;
        if dry_run {
            steps.iter().try_for_each(|step| output.line(&format!("  {step}")))?;
        }
    }
    if lines.is_empty() {
        output.note(&format!("no persistent storage to be {}", act.done()));
    }
    Ok(())
}

/// Carries out the plans. An adoption first removes the finalizers that running Go controllers would put back, and looks
/// whether they do.
async fn carry_out(client: &Client, plans: &[Vec<Step>], act: Act) -> Result<(), Failure> {
    let is_probe = |step: &Step| act == Act::Adopt && step.resource.kind == NNF_STORAGE;
    let (probes, rest): (Vec<&Step>, Vec<&Step>) =
        plans.iter().flatten().partition(|step| is_probe(step));
    for step in &probes {
        apply(client, step).await?;
    }
    if !probes.is_empty() {
        tokio::time::sleep(REACTION).await;
    }
    for step in &probes {
        check_no_reaction(client, step).await?;
    }
    for step in rest {
        apply(client, step).await?;
    }
    Ok(())
}

async fn apply(client: &Client, step: &Step) -> Result<(), Failure> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &step.namespace, &step.resource);
    let patched = api.patch(&step.name, &PatchParams::default(), &Patch::Merge(&step.patch)).await;
    patched.map(drop).map_err(|error| failure::api(step.what.clone(), &error))
}

/// Fails if a controller has put the finalizer of a NnfStorage back.
async fn check_no_reaction(client: &Client, step: &Step) -> Result<(), Failure> {
    let found = get(client, &step.resource, &step.namespace, &step.name).await?;
    let is_back = found.is_some_and(|found| {
        found.object.finalizers().iter().any(|name| name == finalizer::NNF_STORAGE)
    });
    if !is_back {
        return Ok(());
    }
    let what = format!(
        "the Go controllers still run: they put the finalizer of NnfStorage {} back",
        step.name
    );
    Err(Failure::new(Exit::Failed, what)
        .remedy("scale the deployments of the DWS and NNF controllers to 0, and try again; nothing else was changed"))
}

/// Returns the names of the storage that the arguments ask for. With `--all`, leaves out what Warren made.
async fn names(client: &Client, args: &Adoption, act: Act) -> Result<Vec<String>, Failure> {
    if !args.all {
        return Ok(args.storage.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect());
    }
    let api: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        &args.namespace,
        &ApiResource::erase::<PersistentStorageInstance>(&()),
    );
    let failed = |error| failure::api("list the PersistentStorageInstances", &error);
    let all = api.list(&ListParams::default()).await.map_err(failed)?;
    let mut names: Vec<String> = all
        .iter()
        .filter(|object| {
            !adoption::is_made_by_warren(object)
                && (act == Act::Adopt || adoption::has_note(object))
        })
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    Ok(names)
}

const NNF_STORAGE: &str = "NnfStorage";

/// Reads all objects of one storage.
async fn objects(client: &Client, namespace: &str, name: &str) -> Result<Objects, Failure> {
    let of_kind =
        |resource: ApiResource| async move { get(client, &resource, namespace, name).await };
    let instance = of_kind(ApiResource::erase::<PersistentStorageInstance>(&())).await?;
    let instance = instance.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("there is no persistent storage {namespace}/{name}"))
            .remedy("`warren persistent list` shows all")
    })?;
    let kind = GroupVersionKind::gvk(NNF_GROUP, "v1alpha11", NNF_STORAGE);
    let storage = of_kind(ApiResource::from_gvk_with_plural(&kind, "nnfstorages")).await?;
    let uid = storage.as_ref().and_then(|found| found.object.uid());
    let (mut on_rabbits, mut mounted_on) = (Vec::new(), BTreeSet::new());
    if let Some(uid) = uid {
        let owned = format!("{}={uid}", label::OWNER_UID);
        on_rabbits.extend(list::<NnfNodeStorage>(client, &owned).await?);
        on_rabbits.extend(list::<NnfNodeBlockStorage>(client, &owned).await?);
        on_rabbits.extend(list::<NnfLustreMgt>(client, &owned).await?);
        let mounts = format!("{}={uid}", label::TARGET_OWNER_UID);
        let mounts = list::<api::ClientMount>(client, &mounts).await?;
        mounted_on.extend(mounts.iter().filter_map(|found| found.object.namespace()));
    }
    Ok(Objects {
        instance,
        storage,
        servers: of_kind(ApiResource::erase::<Servers>(&())).await?,
        profile: of_kind(ApiResource::erase::<NnfStorageProfile>(&())).await?,
        on_rabbits,
        mounted_on,
    })
}

/// Reads one object; `None` if it does not exist, or the API does not know its kind.
async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<Found>, Failure> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let what = || format!("get {} {namespace}/{name}", resource.kind);
    let object = api.get_opt(name).await.map_err(|error| failure::api(what(), &error))?;
    Ok(object.map(|object| Found { resource: resource.clone(), object }))
}

/// Lists the objects of a kind with a label, in all namespaces.
async fn list<K: Resource<DynamicType = ()>>(
    client: &Client,
    labels: &str,
) -> Result<Vec<Found>, Failure> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let what = || format!("list {}", resource.plural);
    let all = api.list(&ListParams::default().labels(labels)).await;
    let all = all.map_err(|error| failure::api(what(), &error))?;
    Ok(all.items.into_iter().map(|object| Found { resource: resource.clone(), object }).collect())
}
