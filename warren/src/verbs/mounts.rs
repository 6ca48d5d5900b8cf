//! Lists the mounts of all nodes, one line each.

use std::collections::BTreeSet;

use api::client_mount::ClientMountInfo;
use api::names::label;
use api::{ClientMount, RabbitLabels, SystemConfiguration};
use apiclient::{Readable, list_readable};
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;

use crate::args::Mounts;
use crate::args::workflow::Hosts;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use cli::Exit;
use cli::Output;

/// Short columns come first, so that a narrow terminal shows them despite long paths and errors.
const HEADER: [&str; 8] = ["NODE", "DESIRED", "STATE", "READY", "TYPE", "PATH", "OBJECT", "ERROR"];
const PAGE: u32 = 500;

/// One mount of a ClientMount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Mount {
    node: String,
    object: String,
    workflow: String,
    path: String,
    #[serde(rename = "type")]
    kind: String,
    desired: String,
    state: String,
    ready: bool,
    deleting: bool,
    error: String,
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Mounts,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let mut mounts = Vec::new();
    if args.node.is_empty() {
        mounts.extend(list(&client, None, args, output).await?);
    } else {
        let mut without_mounts = Vec::new();
        for node in Hosts::merge(&args.node) {
            let node_mounts = list(&client, Some(&node), args, output).await?;
            if node_mounts.is_empty() {
                without_mounts.push(node);
            }
            mounts.extend(node_mounts);
        }
        check_nodes_exist(&client, &without_mounts).await?;
    }
    if output.is_json() {
        output.json(&mounts)?;
    } else if mounts.is_empty() {
        output.note("no mounts");
    } else {
        let rows = rows(&mounts);
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Checks that the SystemConfiguration names these nodes.
async fn check_nodes_exist(client: &Client, nodes: &[String]) -> Result<(), Failure> {
    if nodes.is_empty() {
        return Ok(());
    }
    let failed = |error| failure::api("list the SystemConfigurations", &error);
    let systems: Readable<SystemConfiguration> =
        list_readable(client.clone(), None, &ListParams::default()).await.map_err(failed)?;
    let names: BTreeSet<&str> = systems.items.iter().flat_map(names).collect();
    let unknown: Vec<&String> =
        nodes.iter().filter(|node| !names.contains(node.as_str())).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = directive::hostlist::compress(&unknown);
    let what = format!("--node {unknown}: the SystemConfiguration names no such compute or rabbit");
    Err(Failure::new(Exit::Usage, what).remedy("`warren nodes` lists all of them"))
}

/// Returns the names of all computes and rabbits of a system.
fn names(system: &SystemConfiguration) -> Vec<&str> {
    let rabbits = system.spec.storage_nodes.iter();
    let with_rabbit = rabbits.flat_map(|rabbit| {
        let computes = rabbit.computes_access.iter().map(|compute| compute.name.as_str());
        computes.chain([rabbit.name.as_str()])
    });
    let others = system.spec.external_compute_nodes.iter().map(|compute| compute.name.as_str());
    with_rabbit.chain(others).collect()
}

async fn list(
    client: &Client,
    namespace: Option<&str>,
    args: &Mounts,
    output: Output,
) -> Result<Vec<Mount>, Failure> {
    let mut parameters = ListParams::default().limit(PAGE);
    parameters.label_selector =
        args.workflow.as_ref().map(|name| format!("{}={name}", label::WORKFLOW_NAME));
    let mut mounts = Vec::new();
    loop {
        let page: Readable<ClientMount> = list_readable(client.clone(), namespace, &parameters)
            .await
            .map_err(|error| failure::api("list ClientMounts", &error))?;
        page.unreadable.iter().for_each(|text| output.note(text));
        mounts.extend(page.items.iter().flat_map(mounts_of));
        parameters.continue_token = page.continue_token;
        if parameters.continue_token.is_none() {
            return Ok(mounts);
        }
    }
}

fn mounts_of(object: &ClientMount) -> Vec<Mount> {
    let status = object.status.as_ref();
    let error = status.and_then(|status| status.error.as_ref());
    let error = error.map(|error| {
        // Shows the debug message to operators: the message for the job's owner leaves out faults that only an
        // operator can correct.
        let debug = Some(error.debug_message.as_str()).filter(|message| !message.is_empty());
        let text = debug.or(error.user_message.as_deref()).unwrap_or_default();
        format!("{}: {text}", error.severity)
    });
    // If every mount is ready, an error is about the object as a whole.
    let concerns_object =
        status.is_some_and(|status| status.mounts.iter().all(|mount| mount.ready));
    let to_mount = |(index, mount): (usize, &ClientMountInfo)| {
        let reported = status.and_then(|status| status.mounts.get(index));
        let ready = reported.is_some_and(|reported| reported.ready);
        Mount {
            node: object.namespace().unwrap_or_default(),
            object: object.name_any(),
            workflow: object
                .workflow()
                .map(|workflow| workflow.name.to_owned())
                .unwrap_or_default(),
            path: mount.mount_path.clone(),
            kind: mount.kind.to_string(),
            desired: object.spec.desired_state.to_string(),
            state: reported.map(|reported| reported.state.to_string()).unwrap_or_default(),
            ready,
            deleting: object.meta().deletion_timestamp.is_some(),
            error: error.clone().filter(|_| !ready || concerns_object).unwrap_or_default(),
        }
    };
    object.spec.mounts.iter().enumerate().map(to_mount).collect()
}

/// Returns the rows of a table. Only the first row of an object has the object's error.
fn rows(mounts: &[Mount]) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = mounts.iter().map(row).collect();
    for (pair, row) in mounts.windows(2).zip(rows.iter_mut().skip(1)) {
        let [above, this] = pair else { continue };
        let same = !this.error.is_empty()
            && (&above.node, &above.object, &above.error)
                == (&this.node, &this.object, &this.error);
        if let Some(error) = row.last_mut().filter(|_| same) {
            "(as above)".clone_into(error);
        }
    }
    rows
}

/// Returns the state to show. Checks `ready` first: the status names the desired state even before the
/// mount has reached it.
fn state(mount: &Mount) -> &str {
    if mount.ready {
        &mount.state
    } else if mount.error.is_empty() {
        "pending"
    } else {
        "failed"
    }
}

fn row(mount: &Mount) -> Vec<String> {
    let desired = if mount.deleting { "deleted".to_owned() } else { mount.desired.clone() };
    vec![
        mount.node.clone(),
        desired,
        state(mount).to_owned(),
        if mount.ready { "yes" } else { "no" }.to_owned(),
        mount.kind.clone(),
        mount.path.clone(),
        mount.object.clone(),
        mount.error.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_mount_is_a_line_with_its_own_state() {
        let mount = |path: &str| {
            json!({"mountPath": path, "setPermissions": false, "options": "", "type": "none", "targetType": "file",
                   "device": {"type": "lvm"}})
        };
        let object: ClientMount = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "compute-1", "labels": {
                "dataworkflowservices.github.io/workflow.name": "w",
                "dataworkflowservices.github.io/workflow.namespace": "default",
                "dataworkflowservices.github.io/workflow.uid": "u"}},
            "spec": {"node": "compute-1", "desiredState": "mounted", "mounts": [mount("/mnt/nnf/x"), mount("/mnt/nnf/y")]},
            "status": {"allReady": false, "mounts": [{"state": "mounted", "ready": true}, {"state": "mounted", "ready": false}],
                       "error": {"debugMessage": "d", "userMessage": "u", "type": "Internal", "severity": "Major"}}
        }))
        .unwrap();
        let mounts = mounts_of(&object);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].workflow, "w");
        assert_eq!(mounts[0].error, "", "a mount that is ready has no error");
        assert_eq!(row(&mounts[0])[1..4], ["mounted", "mounted", "yes"]);
        assert_eq!(mounts[1].state, "mounted", "the JSON has the state of the status");
        assert_eq!(
            row(&mounts[1]),
            ["compute-1", "mounted", "failed", "no", "none", "/mnt/nnf/y", "a", "Major: d"]
        );
    }

    #[test]
    fn an_error_of_several_mounts_is_shown_once() {
        let mount = |object: &str, error: &str| Mount {
            node: "n".into(),
            object: object.into(),
            workflow: String::new(),
            path: "/m".into(),
            kind: "xfs".into(),
            desired: "mounted".into(),
            state: "mounted".into(),
            ready: false,
            deleting: false,
            error: error.into(),
        };
        let mounts =
            [mount("a", "e"), mount("a", "e"), mount("b", "e"), mount("c", ""), mount("c", "")];
        let errors: Vec<_> = rows(&mounts).into_iter().filter_map(|mut row| row.pop()).collect();
        assert_eq!(errors, ["e", "(as above)", "e", "", ""]);
    }

    #[test]
    fn a_mount_that_no_agent_took_up_is_pending() {
        let mut object: ClientMount = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"node": "n", "desiredState": "unmounted", "mounts": [{"mountPath": "/m", "setPermissions": false,
                "options": "", "type": "xfs", "targetType": "directory", "device": {"type": "lvm"}}]}
        }))
        .unwrap();
        assert_eq!(row(&mounts_of(&object)[0])[1..4], ["unmounted", "pending", "no"]);
        let status = json!({"allReady": false, "mounts": [{"state": "unmounted", "ready": false}]});
        object.status = serde_json::from_value(status).unwrap();
        assert_eq!(row(&mounts_of(&object)[0])[1..4], ["unmounted", "pending", "no"]);
    }
}
