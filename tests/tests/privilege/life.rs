//! Tests of a job on a real API server, with programs that have exactly the packaged rights. Afterwards the server's
//! audit log must show that each right was used and that no request was refused.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use control_plane::AuditEvent;
use serde_json::json;
use tests::{
    centre::{Chassis, Job},
    cluster::{Cluster, DRIVES, Link, PATIENCE},
    gate,
    program::until,
    run::{Run, Silent},
    secrets::{Secret, connections, found_in},
    server::{RealServer, Roles, Server},
    verbs::Caller,
};

use crate::{
    identities::{HOUR, Identity, Need, account_of_sites, all_identities, compute},
    installed::Installed,
    policy::objects::lustre_mgt,
};

const PEOPLE: &str = "system:serviceaccount:default:applier";
pub(crate) const COORDINATOR: &str = "system:serviceaccount:nnf-system:warren-coordinator";
pub(crate) const RABBIT: &str = "system:serviceaccount:nnf-system:warren-rabbit";
const COMPUTE: &str = "system:serviceaccount:warren-nodes:compute-1";
const COMPUTES_OF_SITES: &str = "system:serviceaccount:nnf-system:nnf-clientmount";

/// Rights of a rabbit that only copies of a job's data use, besides list and watch.
pub(crate) const FOR_COPIES: [(&str, &str); 3] = [
    ("patch", "nnf.cray.hpe.com/nnfdatamovements"),
    ("patch", "nnf.cray.hpe.com/nnfdatamovements/status"),
    ("get", "nnf.cray.hpe.com/nnfdatamovementprofiles"),
];

/// Rights that one job without faults does not use: to read an object again after a conflict, to read an object that no
/// watch has delivered yet, to read a Lustre file system's Servers, to record that another pod acts for the rabbit, to
/// renew a token (a script uses that right), and to watch a job (a prolog may end before the watch begins, if the first
/// list has its answer). No engine runs here, so nothing is copied; the test of the engine checks [`FOR_COPIES`].
const UNUSED_BY_ONE_JOB: [(&str, &str, &str); 12] = [
    (RABBIT, FOR_COPIES[0].0, FOR_COPIES[0].1),
    (RABBIT, FOR_COPIES[1].0, FOR_COPIES[1].1),
    (RABBIT, FOR_COPIES[2].0, FOR_COPIES[2].1),
    (COMPUTE, "watch", "dataworkflowservices.github.io/workflows"),
    (COMPUTE, "watch", "dataworkflowservices.github.io/computes"),
    (COORDINATOR, "get", "dataworkflowservices.github.io/clientmounts"),
    (COMPUTE, "get", "dataworkflowservices.github.io/clientmounts"),
    (COMPUTE, "create", "/serviceaccounts/token"),
    (RABBIT, "get", "dataworkflowservices.github.io/servers"),
    (RABBIT, "get", "nnf.cray.hpe.com/nnfnodeblockstorages"),
    (RABBIT, "get", "nnf.cray.hpe.com/nnfstorageprofiles"),
    (RABBIT, "patch", "nnf.cray.hpe.com/nnfnodes"),
];

/// The tokens of all programs, both as kubeconfigs and as secrets that no compute may have.
pub(crate) struct Credentials {
    pub(crate) roles: Roles,
    secrets: Vec<Secret>,
    rabbits: Secret,
}

pub(crate) async fn credentials(installed: &Installed) -> anyhow::Result<Credentials> {
    installed.account("default", "applier", Some("warren-view"))?;
    installed.bind("default", "applier", "warren-apply")?;
    let operator = installed.plane.token("default", "applier", HOUR).await?;
    let coordinator = installed.plane.token("nnf-system", "warren-coordinator", HOUR).await?;
    let rabbit = installed.pod_token("rabbit-1").await?;
    let roles = Roles {
        operator: installed.kubeconfig("operator", &operator)?,
        coordinator: installed.kubeconfig("coordinator", &coordinator)?,
        rabbit: installed.kubeconfig("rabbit", &rabbit)?,
        ..Roles::default()
    };
    let rabbits = Secret::new("the rabbit's token", &rabbit);
    let secrets = vec![
        Secret::new("the operator's token", &operator),
        Secret::new("the coordinator's token", &coordinator),
        rabbits.clone(),
    ];
    Ok(Credentials { roles, secrets, rabbits })
}

/// Starts all programs, runs a job, calls `look`, and stops the programs.
fn run_job(
    installed: &Installed,
    roles: Roles,
    link: Link,
    look: impl Fn(&Cluster) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let server = Server::Real(RealServer::with_roles(installed.plane.kubeconfig(), roles));
    let directory = installed.directory.path().join("box");
    let cluster = Cluster::start_on(&directory, Chassis::new(2), &DRIVES, server, link)?;
    let job = Job::new(1, "xfs", &cluster.mount_root());
    let mut run = Run { cluster, job, narrator: Silent, patient: false };
    run.describe_system()?;
    run.whole_life()?;
    // Creates an object that the job does not use, so that the right to this kind is used too.
    installed.apply(&[lustre_mgt("targets", "rabbit-1")])?;
    let fsname = "jsonpath={.status.claimList[0].fsname}";
    until("the rabbit to give out a file system name", PATIENCE, || {
        let name = installed.kubectl(&[
            "get",
            "nnflustremgt",
            "-n",
            "rabbit-1",
            "targets",
            "-o",
            fsname,
        ])?;
        ensure!(name == "aaaaaaaa", "not yet: {name}");
        Ok(())
    })?;
    look(&run.cluster)?;
    run.cluster.stop()?;
    let left = run.cluster.leftovers()?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_job_uses_every_right_and_needs_no_other() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = Installed::start("through-coordinator", &["compute-1", "compute-2"])?;
    let credentials = runtime.block_on(credentials(&installed))?;
    run_job(&installed, credentials.roles.clone(), Link::Coordinator, |cluster| {
        computes_have_no_credential(cluster, &credentials, installed.plane.port())
    })?;
    let direct = crate::installed::tree("packaging/kubernetes/direct").display().to_string();
    installed.kubectl(&["apply", "--server-side", "-k", &direct])?;
    installed.kubectl(&["create", "namespace", "rabbit-2"])?;
    let identities = runtime.block_on(all_identities(&installed))?;
    judge(
        &installed.plane.audit()?,
        &[
            (COORDINATOR, needs(&identities, "nnf-system/warren-coordinator")?),
            (RABBIT, needs(&identities, "nnf-system/warren-rabbit")?),
        ],
    )
}

/// The computes use the API directly, with the flags of the Go daemon: one has its own account, the other has the
/// account and the role that all computes of a site share.
#[test]
fn a_job_whose_computes_use_the_api_directly_uses_every_right_and_needs_no_other()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = Installed::start("direct", &["compute-1", "compute-2"])?;
    let coordinator = crate::installed::tree("packaging/kubernetes/through-coordinator");
    installed.kubectl(&["apply", "--server-side", "-k", &coordinator.display().to_string()])?;
    installed.identities("apply", &["compute-1"])?;
    account_of_sites(&installed)?;
    let mut roles = runtime.block_on(credentials(&installed))?.roles;
    for (node, namespace, account) in
        [("compute-1", "warren-nodes", "compute-1"), ("compute-2", "nnf-system", "nnf-clientmount")]
    {
        let token = runtime.block_on(installed.plane.token(namespace, account, HOUR))?;
        roles.computes.insert(node.to_owned(), flags_of_go_daemon(&installed, node, &token)?);
    }
    run_job(&installed, roles, Link::Api, |cluster| {
        prolog_of_unknown_job(cluster)?;
        prolog_of_a_job_of_others(&installed, cluster)
    })?;
    let audit = installed.plane.audit()?;
    let shared = audit.iter().filter(|event| event.user == COMPUTES_OF_SITES);
    ensure!(shared.count() > 0, "the sites' account was not used");
    judge(&audit, &[(COMPUTE, compute("compute-1"))])
}

/// Calls `mount` for a job that the API does not know, at an agent that uses the API directly.
fn prolog_of_unknown_job(cluster: &Cluster) -> anyhow::Result<()> {
    let mount = ["mount", "--workflow", "nobodys", "--deadline", "60s"];
    caller(cluster)?.call(&mount)?.expect_exit(0)?.expect_output("no Workflow")?;
    Ok(())
}

/// Calls `mount` for a job that has only the other compute: the agent must list the job's Computes for the answer.
fn prolog_of_a_job_of_others(installed: &Installed, cluster: &Cluster) -> anyhow::Result<()> {
    let directive = "#DW jobdw type=xfs capacity=1GiB name=others";
    let (version, metadata) = (
        "dataworkflowservices.github.io/v1alpha7",
        json!({"name": "others", "namespace": "default"}),
    );
    let spec = json!({
        "desiredState": "PreRun", "dwDirectives": [directive], "groupID": 1002, "userID": 1001,
        "jobID": "others", "wlmID": "others", "hurry": false, "forceReady": false,
    });
    installed.apply(&[
        json!({"apiVersion": version, "kind": "Workflow", "metadata": metadata, "spec": spec}),
        json!({
            "apiVersion": version, "kind": "Computes", "metadata": metadata, "data": [{"name": "compute-2"}],
        }),
    ])?;
    let mount = ["mount", "--workflow", "others", "--deadline", "60s"];
    caller(cluster)?.call(&mount)?.expect_exit(0)?.expect_output("is none of the computes")?;
    Ok(())
}

/// Returns a caller of the verbs of compute-1.
fn caller(cluster: &Cluster) -> anyhow::Result<Caller> {
    let socket = cluster.coordinator_socket();
    Caller::at(&socket.parent().context("a directory")?.join("compute-1.sock"))
}

fn flags_of_go_daemon(
    installed: &Installed,
    compute: &str,
    token: &str,
) -> anyhow::Result<Vec<String>> {
    let file = installed.directory.path().join(format!("{compute}.token"));
    std::fs::write(&file, token)?;
    let port = installed.plane.port();
    Ok(vec![
        "--kubernetes-service-host=127.0.0.1".to_owned(),
        format!("--kubernetes-service-port={port}"),
        format!("--service-token-file={}", file.display()),
        format!("--service-cert-file={}", installed.plane.authority_file().display()),
    ])
}

fn needs(identities: &[Identity], who: &str) -> anyhow::Result<Vec<Need>> {
    let identity = identities.iter().find(|identity| identity.who == who);
    identity.map(|identity| identity.needs.clone()).context("no such identity")
}

/// Checks that computes have no token and no connection to the API. The same search must find both on the rabbit, which
/// proves that the search works.
fn computes_have_no_credential(
    cluster: &Cluster,
    credentials: &Credentials,
    port: u16,
) -> anyhow::Result<()> {
    for (compute, _) in &cluster.chassis().computes {
        let pid = cluster.node(compute)?.pid()?;
        for secret in &credentials.secrets {
            let places = found_in(pid, secret)?;
            ensure!(places.is_empty(), "{compute} holds {secret}: {places:?}");
        }
        let open = connections(pid)?;
        ensure!(open.is_empty(), "{compute} is connected with {open:?}");
    }
    let rabbit = cluster.node(&cluster.chassis().rabbit)?.pid()?;
    ensure!(
        !found_in(rabbit, &credentials.rabbits)?.is_empty(),
        "the search does not find the rabbit's own token"
    );
    let open = connections(rabbit)?;
    ensure!(
        open.iter().any(|peer| peer.port() == port),
        "the search does not find the rabbit's connection to port {port}: {open:?}"
    );
    Ok(())
}

fn is_ours(event: &&AuditEvent) -> bool {
    [PEOPLE, COORDINATOR, RABBIT, COMPUTE, COMPUTES_OF_SITES].contains(&event.user.as_str())
}

/// Fails if a request of our programs was refused for lack of a right.
pub(crate) fn judge_refusals(audit: &[AuditEvent]) -> anyhow::Result<()> {
    let refused: Vec<_> =
        audit.iter().filter(is_ours).filter(|event| event.code == 403).map(describe).collect();
    ensure!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    Ok(())
}

fn judge(audit: &[AuditEvent], rights: &[(&str, Vec<Need>)]) -> anyhow::Result<()> {
    judge_refusals(audit)?;
    for (user, needs) in rights {
        let used: BTreeSet<_> = audit
            .iter()
            .filter(|event| event.user == *user)
            .map(|event| (event.verb.as_str(), event.resource.as_str()))
            .collect();
        let unused: Vec<_> = needs
            .iter()
            .filter(|need| {
                let plural = need.resource.split_once('/').map_or("", |(_, plural)| plural);
                !used.contains(&(need.verb, plural))
                    && !UNUSED_BY_ONE_JOB.contains(&(*user, need.verb, need.resource.as_str()))
            })
            .map(|need| format!("{} {}", need.verb, need.resource))
            .collect();
        ensure!(unused.is_empty(), "{user} does not use its rights {unused:?}; it used {used:?}");
    }
    Ok(())
}

fn describe(event: &AuditEvent) -> String {
    format!("{} {} {}/{}", event.user, event.verb, event.namespace, event.resource)
}
