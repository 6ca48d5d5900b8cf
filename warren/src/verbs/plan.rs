//! Requests a plan from this node's agent: the agent reads the node's state and plans, and changes nothing.

use std::path::{Path, PathBuf};

use api::{
    ClientMount, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, NodeContainers,
    SystemConfiguration,
};
use cli::{Exit, Output, channel_over_unix, exit_of_plans, plan_json};
use kube::api::DynamicObject;
use proto::v1::node_client::NodeClient;
use proto::v1::{ObjectName, PlanRequest};

use crate::args::Plan;
use crate::client::ServerArgs;
use crate::failure::Failure;
use crate::manifest::{self, Document};
use crate::stored::StoredObjects;

const REMEDY: &str = "start the agent with `systemctl start warren-clientmount-agent` (on a rabbit: warren-rabbit-agent), or name its socket with --agent";

/// Sockets of the agents of a compute and of a rabbit.
const SOCKETS: [&str; 2] = ["/run/warren/clientmount-agent.sock", "/run/warren/rabbit-agent.sock"];

pub(crate) async fn run(server: &ServerArgs, args: &Plan, output: Output) -> Result<Exit, Failure> {
    let request = PlanRequest {
        objects: objects(server, args, output).await?,
        names: args.objects.iter().map(|typed| name(typed)).collect::<Result<_, _>>()?,
        delete: args.delete,
        job: None,
        reached: false,
    };
    let is_for_all = request.objects.is_empty() && request.names.is_empty();
    let socket = args.agent.clone().unwrap_or_else(|| default_socket(&SOCKETS));
    let channel = channel_over_unix(&socket, REMEDY).await.map_err(Failure::of_agent)?;
    let answer = NodeClient::new(channel)
        .max_decoding_message_size(usize::MAX)
        .plan(request)
        .await
        .map_err(|status| {
            Failure::grpc("request a plan from the agent".to_owned(), &status).of_agent()
        })?;
    let plans = answer.into_inner().plans;
    if output.is_json() {
        output.json(&plans.iter().map(plan_json).collect::<Vec<_>>())?;
    } else if is_for_all {
        output.plans(&plans)?;
    } else {
        plans.iter().try_for_each(|plan| output.plan(plan))?;
    }
    Ok(exit_of_plans(&plans))
}

/// Returns the first socket that exists; without any, the socket of a compute.
fn default_socket(sockets: &[&str]) -> PathBuf {
    let existing = sockets.iter().find(|socket| Path::new(socket).exists());
    PathBuf::from(existing.unwrap_or(&sockets[0]))
}

/// Parses `KIND/NAME`.
fn name(typed: &str) -> Result<ObjectName, Failure> {
    match typed.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            Ok(ObjectName { kind: kind.to_owned(), name: name.to_owned() })
        }
        _ => Err(Failure::new(Exit::Usage, format!("{typed:?} is not KIND/NAME"))
            .remedy("write for example nnfnodestorage/NAME")),
    }
}

/// Returns the objects of the files that an agent needs for the plan, as JSON.
async fn objects(
    server: &ServerArgs,
    args: &Plan,
    output: Output,
) -> Result<Vec<Vec<u8>>, Failure> {
    if args.files.is_empty() {
        return Ok(Vec::new());
    }
    let documents = manifest::read(&args.files)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if !documents.iter().any(is_planned) {
        let remedy =
            "NnfNodeBlockStorage, NnfNodeStorage, ClientMount and NodeContainers can be planned";
        return Err(
            Failure::new(Exit::Usage, "the files contain no object to plan for").remedy(remedy)
        );
    }
    let mut stored = StoredObjects::new(server, output);
    let mut objects = Vec::new();
    for document in documents.iter().filter(|document| is_planned(document) || is_read(document)) {
        let mut object = document.object.clone();
        if is_planned(document) && object.metadata.namespace.is_none() {
            object.metadata.namespace.clone_from(&args.namespace);
        }
        // A rabbit's agent knows the other kinds and their profiles itself.
        if document.is_kind::<ClientMount>() {
            stored.identify(&mut object).await;
            objects.extend(stored.profile(&documents, &object).await.map(|profile| json(&profile)));
        }
        objects.push(json(&object));
    }
    Ok(objects)
}

/// Returns whether an agent plans for objects of this kind.
fn is_planned(document: &Document) -> bool {
    document.is_kind::<ClientMount>()
        || document.is_kind::<NnfNodeBlockStorage>()
        || document.is_kind::<NnfNodeStorage>()
        || document.is_kind::<NodeContainers>()
}

/// Returns whether an agent reads objects of this kind for its plans.
fn is_read(document: &Document) -> bool {
    document.is_kind::<NnfStorageProfile>() || document.is_kind::<SystemConfiguration>()
}

/// Serializes an object. This cannot fail: the object was parsed from JSON or YAML.
fn json(object: &DynamicObject) -> Vec<u8> {
    serde_json::to_vec(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_socket_is_the_first_that_exists() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let sockets = [path("compute"), path("rabbit")];
        let choose = || default_socket(&[&sockets[0], &sockets[1]]).display().to_string();
        assert_eq!(choose(), sockets[0]);
        std::fs::write(&sockets[1], "").unwrap();
        assert_eq!(choose(), sockets[1]);
        std::fs::write(&sockets[0], "").unwrap();
        assert_eq!(choose(), sockets[0]);
    }

    #[test]
    fn an_object_is_named_by_kind_and_name() {
        let named = name("nnfnodestorage/job-7-0").unwrap();
        assert_eq!((named.kind.as_str(), named.name.as_str()), ("nnfnodestorage", "job-7-0"));
        for wrong in ["job-7-0", "/x", "x/"] {
            assert!(name(wrong).unwrap_err().text().contains("KIND/NAME"), "{wrong}");
        }
    }
}
