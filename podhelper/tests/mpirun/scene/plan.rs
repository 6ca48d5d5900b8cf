//! Computes the plan of a run: files, Jobs, and the parts of the Jobs that a kubelet uses.

use api::NnfContainerProfileData;
use containers::{Attempt, Rabbit, Run, nodes, objects};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Container, PodSpec, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, from_value, json};

/// Domains that a kubelet searches by default.
const CLUSTER: [&str; 3] = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"];

/// Returns a profile with these fields of `mpiSpec`. Its workers must answer within `seconds`.
pub(super) fn profile(mpi: &Value, seconds: i64) -> NnfContainerProfileData {
    let pod = |name: &str| json!({"containers": [{"name": name, "image": "registry.example/i:1"}]});
    let mut spec = json!({"launcher": pod("launcher"), "worker": pod("worker")});
    spec.as_object_mut().unwrap().extend(mpi.as_object().unwrap().clone());
    // Warren gives the workers half of `preRunTimeoutSeconds`.
    from_value(json!({"preRunTimeoutSeconds": 2 * seconds, "mpiSpec": spec})).unwrap()
}

/// Returns the files and Jobs of a run.
pub(super) fn planned(
    profile: &NnfContainerProfileData,
    workers: usize,
) -> (Vec<(String, String)>, Job, Vec<Job>) {
    let rabbit = |place| Rabbit { name: format!("rabbit-{place}"), computes: Vec::new() };
    let placement: Vec<Rabbit> = (0..workers).map(rabbit).collect();
    let attempt = Attempt {
        number: 1,
        name: "demo-0-a1".to_owned(),
        keys: "demo-0-a1-keys".to_owned(),
        image: Some("registry.example/podhelper:1".to_owned()),
    };
    let metadata = ObjectMeta { namespace: Some("default".to_owned()), ..ObjectMeta::default() };
    let run = Run {
        workflow: "demo",
        service: "demo",
        name: &attempt.name,
        metadata,
        user: 1050,
        group: 1051,
        profile,
        storages: &[],
        packages: &std::collections::BTreeMap::new(),
        devices: &std::collections::BTreeMap::new(),
        placement: &placement,
        ports: &[],
        network_port: None,
        attempt: Some(&attempt),
        cluster_domain: "cluster.local",
    };
    let files = nodes::files(&run).into_iter().collect();
    let workers = (0..workers).map(|place| objects::job(&run, place).unwrap()).collect();
    (files, objects::launcher(&run).unwrap(), workers)
}

pub(super) fn pod(job: &Job) -> &PodSpec {
    job.spec.as_ref().unwrap().template.spec.as_ref().unwrap()
}

/// Returns the init containers of a pod.
pub(super) fn init_containers(job: &Job) -> impl Iterator<Item = &Container> {
    pod(job).init_containers.iter().flatten()
}

pub(super) fn hostname(job: &Job) -> &str {
    pod(job).hostname.as_deref().unwrap()
}

/// Returns the full name of a pod's host.
pub(super) fn full_name(job: &Job) -> String {
    format!("{}.{}.{}", hostname(job), pod(job).subdomain.as_deref().unwrap(), CLUSTER[0])
}

pub(super) fn volume<'a>(job: &'a Job, name: &str) -> &'a Volume {
    pod(job).volumes.iter().flatten().find(|volume| volume.name == name).unwrap()
}

/// Returns the group that a pod's volumes belong to.
pub(super) fn group(job: &Job) -> u32 {
    let context = pod(job).security_context.as_ref().unwrap();
    context.fs_group.unwrap().try_into().unwrap()
}

/// Returns the names by which a process in this pod finds another host; the cluster's DNS has only the full name.
pub(super) fn names_in(job: &Job, full: &str) -> Vec<String> {
    let own = pod(job).dns_config.as_ref().and_then(|config| config.searches.as_ref());
    let searches = own.into_iter().flatten().map(String::as_str).chain(CLUSTER);
    let short = searches.filter_map(|beneath| full.strip_suffix(beneath)?.strip_suffix('.'));
    std::iter::once(full).chain(short).map(str::to_owned).collect()
}
