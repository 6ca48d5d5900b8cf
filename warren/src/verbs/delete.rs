//! Deletes objects and waits until they are gone. An object with finalizers is gone only after every
//! controller has cleaned up.

use kube::api::DeleteParams;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::wait::{Select, Target, wait_until};
use crate::args::{Condition, Delete};
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::kinds::{Kind, Kinds};
use crate::manifest;
use cli::Exit;
use cli::Output;

/// One object to delete.
#[derive(Clone, Debug)]
struct Victim {
    kind: Kind,
    namespace: String,
    name: String,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Delete,
    output: Output,
) -> Result<Exit, Failure> {
    let documents = manifest::read(&args.files)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let client = server.client(output).await?;
    let kinds = Kinds::discover(&client).await?;
    let victims = if documents.is_empty() {
        by_name(&kinds, args)?
    } else {
        from_documents(&kinds, &documents, args)?
    };
    let mut targets = Vec::new();
    let mut failures = Vec::new();
    for victim in &victims {
        match delete(&client, victim, args, output).await {
            Ok(target) => targets.extend(target),
            Err(failure) => failures.push(failure),
        }
    }
    if args.wait && !targets.is_empty() {
        failures.extend(
            wait_until(&client, &targets, Condition::Deleted, args.timeout, output).await.err(),
        );
    }
    failures.iter().for_each(|failure| output.failure(failure));
    if output.is_json() {
        let errors: Vec<_> = failures.iter().map(Failure::json).collect();
        output.json(&json!({"deleted": targets.len(), "waited": args.wait, "errors": errors}))?;
    }
    // Exits with the status of the first failure, which may have caused the later failures.
    let exit = failures.iter().map(|failure| failure.exit).find(|exit| *exit != Exit::Done);
    Ok(exit.unwrap_or(Exit::Done))
}

/// Deletes one object; returns the target to wait for, or `None` if the object did not exist.
async fn delete(
    client: &Client,
    victim: &Victim,
    args: &Delete,
    output: Output,
) -> Result<Option<Target>, Failure> {
    let label = victim.kind.label(&victim.name);
    let api = victim.kind.api(client, &victim.namespace);
    let answer = match api.delete(&victim.name, &DeleteParams::default()).await {
        Ok(answer) => answer,
        Err(kube::Error::Api(status)) if status.code == 404 && args.ignore_not_found => {
            return Ok(None);
        }
        Err(error) => return Err(failure::api(format!("delete {label}"), &error)),
    };
    if !output.is_json() {
        output.line(&format!("{label} deleted"))?;
    }
    // The API answers with the object if it has finalizers, else with a Status that has its uid.
    let uid =
        answer.either(|object| object.uid(), |status| status.details.map(|details| details.uid));
    let namespace = victim.kind.namespaced.then(|| victim.namespace.clone());
    let select = Select::Name { name: victim.name.clone(), uid: uid.filter(|uid| !uid.is_empty()) };
    Ok(Some(Target { kind: victim.kind.clone(), namespace, select }))
}

fn by_name(kinds: &Kinds, args: &Delete) -> Result<Vec<Victim>, Failure> {
    let usage =
        || Failure::new(Exit::Usage, "write KIND NAME [NAME...], or KIND/NAME [KIND/NAME...]");
    let (first, names) = args.objects.split_first().ok_or_else(usage)?;
    let victim = |kind: &str, name: &str| {
        let kind = kinds.find_by_name(kind)?.clone();
        Ok(Victim { kind, namespace: args.namespace.clone(), name: name.to_owned() })
    };
    if !first.contains('/') {
        if names.is_empty() {
            return Err(usage());
        }
        return names.iter().map(|name| victim(first, name)).collect();
    }
    let slashed = |object: &String| {
        let (kind, name) = object.split_once('/').ok_or_else(usage)?;
        victim(kind, name)
    };
    args.objects.iter().map(slashed).collect()
}

/// Returns the objects of files, last first: later objects may depend on earlier ones.
fn from_documents(
    kinds: &Kinds,
    documents: &[manifest::Document],
    args: &Delete,
) -> Result<Vec<Victim>, Failure> {
    let victim = |document: &manifest::Document| {
        let types = document.object.types.clone().unwrap_or_default();
        let kind = kinds.require_type(&document.place, &types.api_version, &types.kind)?.clone();
        let namespace = document.object.namespace().unwrap_or_else(|| args.namespace.clone());
        Ok(Victim { kind, namespace, name: document.object.name_any() })
    };
    documents.iter().rev().map(victim).collect()
}
