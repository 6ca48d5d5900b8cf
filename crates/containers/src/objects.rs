//! The Kubernetes objects of a run.

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

/// Seconds within which containers must start, and within which they must end, if the profile gives no time.
pub const TIMEOUT: i64 = 300;

/// Returns the Service that makes `<rabbit>.<workflow>` resolve, even before a container is ready.
#[must_use]
pub fn service(run: &Run<'_>) -> Service {
    let selector = [(label::CONTAINER.to_owned(), run.service.to_owned())];
    Service {
        metadata: object_metadata(run, run.service),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector.into()),
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the NetworkPolicy of the run's pods. The run's own pods reach them on all ports, and all other peers only on
/// the run's ports. With MPI the policy concerns only the workers. Workers do not have the run's ports, so no other
/// peer can reach a worker: a connection costs the worker work even if the peer does not have the attempt's keys.
#[must_use]
pub fn network_policy(run: &Run<'_>) -> NetworkPolicy {
    let run_labels = [label::CONTAINER, label::WORKFLOW_UID, label::DIRECTIVE_INDEX];
    let labels: BTreeMap<String, String> = run.metadata.labels.clone().unwrap_or_default();
    let labels: BTreeMap<String, String> =
        labels.into_iter().filter(|(name, _)| run_labels.contains(&name.as_str())).collect();
    let is_mpi = run.profile.mpi_spec.is_some();
    let mut guarded = labels.clone();
    guarded.extend(is_mpi.then(|| (label::ROLE.to_owned(), mpi::WORKER.to_owned())));
    let selector =
        |labels| LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let own =
        NetworkPolicyPeer { pod_selector: Some(selector(labels)), ..NetworkPolicyPeer::default() };
    let own = NetworkPolicyIngressRule { from: Some(vec![own]), ports: None };
    let open = run.ports.iter().filter(|_| !is_mpi).map(|port| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(*port))),
        ..NetworkPolicyPort::default()
    });
    let open: Vec<NetworkPolicyPort> = open.collect();
    // A rule that names no ports would open all of them.
    let open = Some(open).filter(|ports| !ports.is_empty());
    let open = open.map(|ports| NetworkPolicyIngressRule { from: None, ports: Some(ports) });
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector(guarded)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some([own].into_iter().chain(open).collect()),
        egress: None,
    };
    NetworkPolicy { metadata: object_metadata(run, run.service), spec: Some(spec) }
}

/// Returns the ConfigMap with the run's files.
#[must_use]
pub fn config_map(run: &Run<'_>) -> ConfigMap {
    ConfigMap {
        metadata: object_metadata(run, run.name),
        data: Some(nodes::files(run)),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// Returns the Job on the rabbit with this index in the run; `None` if the profile has no pod for this Job.
#[must_use]
pub fn job(run: &Run<'_>, index: usize) -> Option<Job> {
    let rabbit = run.placement.get(index)?;
    if let Some(spec) = &run.profile.spec {
        let name = names::job(run.service, &rabbit.name);
        return Some(pod_job(run, &name, pod::with_ports(run, index, rabbit, spec)));
    }
    let mpi = run.profile.mpi_spec.as_ref()?;
    let pod = mpi::worker(run, run.attempt?, mpi, index, rabbit);
    Some(with_role(pod_job(run, &names::worker(run.service, index), pod), mpi::WORKER))
}

/// Returns the Job of MPI's launcher, on the first rabbit.
#[must_use]
pub fn launcher(run: &Run<'_>) -> Option<Job> {
    let mpi = run.profile.mpi_spec.as_ref()?;
    let pod = mpi::launcher(run, run.attempt?, mpi, run.placement.first()?);
    Some(with_role(pod_job(run, &names::launcher(run.service), pod), mpi::LAUNCHER))
}

/// Returns the Secret of an attempt, but without the keys in it. The attempt's ConfigMap is the owner of the Secret, so
/// that both are deleted together.
#[must_use]
pub fn keys(run: &Run<'_>, config_map: &ConfigMap) -> Option<Secret> {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: config_map.metadata.name.clone()?,
        uid: config_map.metadata.uid.clone()?,
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        owner_references: Some(vec![owner]),
        ..object_metadata(run, &run.attempt?.keys)
    };
    Some(Secret { metadata, immutable: Some(true), ..Secret::default() })
}

fn pod_job(run: &Run<'_>, name: &str, pod: PodSpec) -> Job {
    let metadata = object_metadata(run, name);
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: metadata.labels.clone(), ..ObjectMeta::default() }),
        spec: Some(pod),
    };
    let spec = JobSpec {
        backoff_limit: Some(i32::try_from(run.profile.retry_limit).unwrap_or(i32::MAX)),
        active_deadline_seconds: start_deadline(run),
        // Two pods of a Job must never run at the same time, because they would write to the same storage.
        pod_replacement_policy: Some("Failed".to_owned()),
        template,
        ..JobSpec::default()
    };
    Job { metadata, spec: Some(spec), ..Job::default() }
}

/// Labels a Job and its pods with their MPI role, because both roles have a pod on the first rabbit.
fn with_role(mut job: Job, role: &str) -> Job {
    let template = job.spec.as_mut().and_then(|spec| spec.template.metadata.as_mut());
    for metadata in std::iter::once(&mut job.metadata).chain(template) {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(label::ROLE.to_owned(), role.to_owned());
    }
    job
}

/// Returns the seconds within which a Job's container must be ready; `None` if there is no limit.
#[must_use]
pub fn start_deadline(run: &Run<'_>) -> Option<i64> {
    Some(run.profile.pre_run_timeout_seconds.unwrap_or(TIMEOUT)).filter(|seconds| *seconds > 0)
}

/// Returns the metadata of an object of the run.
pub(crate) fn object_metadata(run: &Run<'_>, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..run.metadata.clone() }
}

#[cfg(test)]
mod tests;
