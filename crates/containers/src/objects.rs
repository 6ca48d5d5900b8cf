//! The objects of a run.

use std::collections::BTreeMap;

use api::names::label;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{ConfigMap, PodSpec, PodTemplateSpec, Secret, Service, ServiceSpec},
        networking::v1::{
            NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
            NetworkPolicySpec,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};

use crate::{mpi, names, nodes, pod, run::Run};

/// Seconds that containers have to start in, and to end in, when a profile says nothing.
pub const TIMEOUT: i64 = 300;

/// Lets `<rabbit>.<workflow>` resolve, also before a container is ready.
#[must_use]
pub fn service(run: &Run<'_>) -> Service {
    let selector = [(label::CONTAINER.to_owned(), run.workflow.to_owned())];
    Service {
        metadata: named(run, run.workflow),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector.into()),
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Who reaches the pods of the run: its own, and everybody on the ports that its rabbits have open for it. With MPI it is about the
/// workers, which have no such ports: whoever reaches a worker's port costs it work, also without its keys.
#[must_use]
pub fn network_policy(run: &Run<'_>) -> NetworkPolicy {
    let of_run = [label::CONTAINER, label::WORKFLOW_UID, label::DIRECTIVE_INDEX];
    let all: BTreeMap<String, String> = run.metadata.labels.clone().unwrap_or_default();
    let all: BTreeMap<String, String> =
        all.into_iter().filter(|(name, _)| of_run.contains(&name.as_str())).collect();
    let is_mpi = run.profile.mpi_spec.is_some();
    let mut guarded = all.clone();
    guarded.extend(is_mpi.then(|| (label::ROLE.to_owned(), mpi::WORKER.to_owned())));
    let selector =
        |labels| LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let own =
        NetworkPolicyPeer { pod_selector: Some(selector(all)), ..NetworkPolicyPeer::default() };
    let own = NetworkPolicyIngressRule { from: Some(vec![own]), ports: None };
    let open = run.ports.iter().filter(|_| !is_mpi).map(|port| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(*port))),
        ..NetworkPolicyPort::default()
    });
    let open: Vec<NetworkPolicyPort> = open.collect();
    // A rule without ports would open all of them.
    let open = Some(open).filter(|ports| !ports.is_empty());
    let open = open.map(|ports| NetworkPolicyIngressRule { from: None, ports: Some(ports) });
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector(guarded)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some([own].into_iter().chain(open).collect()),
        egress: None,
    };
    NetworkPolicy { metadata: named(run, run.workflow), spec: Some(spec) }
}

/// The files of the run.
#[must_use]
pub fn config_map(run: &Run<'_>) -> ConfigMap {
    ConfigMap {
        metadata: named(run, run.name),
        data: Some(nodes::files(run)),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// The Job on the rabbit at this place of the run; none when the profile has no pod for it.
#[must_use]
pub fn job(run: &Run<'_>, index: usize) -> Option<Job> {
    let rabbit = run.placement.get(index)?;
    if let Some(spec) = &run.profile.spec {
        let name = names::job(run.workflow, &rabbit.name);
        return Some(of_pod(run, &name, pod::with_ports(run, index, rabbit, spec)));
    }
    let mpi = run.profile.mpi_spec.as_ref()?;
    let pod = mpi::worker(run, run.attempt?, mpi, index, rabbit);
    Some(with_role(of_pod(run, &names::worker(run.workflow, index), pod), mpi::WORKER))
}

/// The Job of the launcher of MPI, on the first rabbit.
#[must_use]
pub fn launcher(run: &Run<'_>) -> Option<Job> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    let pod = mpi::launcher(run, run.attempt?, mpi, run.placement.first()?);
    Some(with_role(of_pod(run, &names::launcher(run.workflow), pod), mpi::LAUNCHER))
}

/// The Secret of an attempt, without its keys: it goes with the ConfigMap of the attempt, which owns it.
#[must_use]
pub fn keys(run: &Run<'_>, config_map: &ConfigMap) -> Option<Secret> {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: config_map.metadata.name.clone()?,
        uid: config_map.metadata.uid.clone()?,
        ..OwnerReference::default()
    };
    let metadata =
        ObjectMeta { owner_references: Some(vec![owner]), ..named(run, &run.attempt?.keys) };
    Some(Secret { metadata, immutable: Some(true), ..Secret::default() })
}

fn of_pod(run: &Run<'_>, name: &str, pod: PodSpec) -> Job {
    let metadata = named(run, name);
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: metadata.labels.clone(), ..ObjectMeta::default() }),
        spec: Some(pod),
    };
    let spec = JobSpec {
        backoff_limit: Some(i32::try_from(run.profile.retry_limit).unwrap_or(i32::MAX)),
        active_deadline_seconds: start_deadline(run),
        // Two pods of a Job never run side by side: they would write to the same storage.
        pod_replacement_policy: Some("Failed".to_owned()),
        template,
        ..JobSpec::default()
    };
    Job { metadata, spec: Some(spec), ..Job::default() }
}

/// Labels a Job and its pods with what they are in MPI: both roles have a pod on the first rabbit.
fn with_role(mut job: Job, role: &str) -> Job {
    let template = job.spec.as_mut().and_then(|spec| spec.template.metadata.as_mut());
    for metadata in std::iter::once(&mut job.metadata).chain(template) {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(label::ROLE.to_owned(), role.to_owned());
    }
    job
}

/// Seconds that a Job has until its container must be ready, unless there is no limit.
#[must_use]
pub fn start_deadline(run: &Run<'_>) -> Option<i64> {
    Some(run.profile.pre_run_timeout_seconds.unwrap_or(TIMEOUT)).filter(|seconds| *seconds > 0)
}

/// Metadata of an object of the run.
pub(crate) fn named(run: &Run<'_>, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..run.metadata.clone() }
}

#[cfg(test)]
mod tests;
