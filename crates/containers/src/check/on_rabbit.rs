//! Finds the parts of a profile that only Kubernetes implements. These are faults at sites where the rabbits'
//! agents run the containers.

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{NnfContainer, NnfPodSpec},
};

use super::{ProfileFault, volumes};
use crate::{
    on_rabbit::{CPU, LONGEST_GRACE, MEMORY, limits},
    quantity,
};

/// Returns the additional faults that a profile has where the rabbits' agents run the containers.
#[must_use]
pub fn faults_on_rabbits(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let mut faults: Vec<_> =
        profile.spec.iter().flat_map(|spec| pod_faults("data.spec", spec)).collect();
    if let Some(mpi) = &profile.mpi_spec {
        faults.extend(pod_faults("data.mpiSpec.launcher", &mpi.launcher));
        faults.extend(pod_faults("data.mpiSpec.worker", &mpi.worker));
    }
    faults
}

fn pod_faults(at: &str, spec: &NnfPodSpec) -> Vec<ProfileFault> {
    let mut faults = volumes::volume_faults(at, spec);
    if !spec.image_pull_secrets.is_empty() {
        faults.push(fault(
            format!("{at}.imagePullSecrets"),
            "ask the administrator to remove them, and to log the rabbits in with podman login",
        ));
    }
    if spec.priority_class_name.is_some() {
        faults.push(fault(
            format!("{at}.priorityClassName"),
            "ask the administrator to remove it; the rabbit's agent has no priorities",
        ));
    }
    let grace = spec.termination_grace_period_seconds;
    if grace.is_some_and(|seconds| !(0..=LONGEST_GRACE).contains(&seconds)) {
        faults.push(fault(
            format!("{at}.terminationGracePeriodSeconds"),
            "ask the administrator to set 0 to 86400 seconds",
        ));
    }
    let containers = spec.init_containers.iter().chain(&spec.containers);
    faults.extend(containers.flat_map(container_faults));
    faults
}

fn container_faults(container: &NnfContainer) -> Vec<ProfileFault> {
    let has_source = container.env.iter().any(|variable| variable.value_from.is_some());
    let refusal =
        |field: &str, remedy| fault(format!("container {:?}: {field}", container.name), remedy);
    let fields = [
        (has_source, "env.valueFrom", "ask the administrator to write the value"),
        (
            !container.env_from.is_empty(),
            "envFrom",
            "ask the administrator to write the variables into env",
        ),
        (container.liveness_probe.is_some(), "livenessProbe", "ask the administrator to remove it"),
        (
            container.readiness_probe.is_some(),
            "readinessProbe",
            "ask the administrator to remove it; a container is ready when it runs",
        ),
        (container.startup_probe.is_some(), "startupProbe", "ask the administrator to remove it"),
        (container.restart_policy.is_some(), "restartPolicy", "ask the administrator to remove it"),
        (
            !container.termination_message_path.is_empty(),
            "terminationMessagePath",
            "ask the administrator to remove it; the agent reports the end of the log",
        ),
        (
            container.image.starts_with('-'),
            "image",
            "ask the administrator to write an image's name, which does not begin with -",
        ),
    ];
    let fields = fields.into_iter().filter(|(has, ..)| *has);
    let mut faults: Vec<_> = fields.map(|(_, field, remedy)| refusal(field, remedy)).collect();
    for (name, quantity) in limits(container) {
        let unit = [CPU, MEMORY].into_iter().find(|(known, _)| *known == name);
        if unit.is_none_or(|(_, per_unit)| quantity::parts(quantity, per_unit).is_none()) {
            let field = format!("resources.limits.{name}: {}", quantity.0);
            faults.push(refusal(
                &field,
                "ask the administrator to give limits of cpu and memory only, such as 500m and 4Gi",
            ));
        }
    }
    faults
}

pub(super) fn fault(field: String, remedy: &'static str) -> ProfileFault {
    ProfileFault::NotOnRabbits { field, remedy }
}
