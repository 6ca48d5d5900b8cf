//! What a profile may not ask for where the rabbits' agents run the containers: nobody there has Kubernetes' objects.

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{NnfContainer, NnfPodSpec},
};

use super::{ProfileFault, volumes};
use crate::{
    on_rabbit::{CPU, LONGEST_GRACE, MEMORY, limits},
    quantity,
};

/// Everything that is wrong with a profile there, besides what is wrong with it anywhere.
#[must_use]
pub fn on_rabbits(profile: &NnfContainerProfileData) -> Vec<ProfileFault> {
    let mut faults: Vec<_> =
        profile.spec.iter().flat_map(|spec| of_pod("data.spec", spec)).collect();
    if let Some(mpi) = &profile.mpi_spec {
        faults.extend(of_pod("data.mpiSpec.launcher", &mpi.launcher));
        faults.extend(of_pod("data.mpiSpec.worker", &mpi.worker));
    }
    faults
}

fn of_pod(at: &str, spec: &NnfPodSpec) -> Vec<ProfileFault> {
    let mut faults = volumes::of_pod(at, spec);
    if !spec.image_pull_secrets.is_empty() {
        faults.push(fault(
            format!("{at}.imagePullSecrets"),
            "the administrator takes them out, and logs the rabbits in with podman login",
        ));
    }
    if spec.priority_class_name.is_some() {
        faults.push(fault(
            format!("{at}.priorityClassName"),
            "the administrator takes it out; the kernel alone shares the rabbit there",
        ));
    }
    let grace = spec.termination_grace_period_seconds;
    if grace.is_some_and(|seconds| !(0..=LONGEST_GRACE).contains(&seconds)) {
        faults.push(fault(
            format!("{at}.terminationGracePeriodSeconds"),
            "the administrator sets 0 to 86400 seconds",
        ));
    }
    let containers = spec.init_containers.iter().chain(&spec.containers);
    faults.extend(containers.flat_map(of_container));
    faults
}

fn of_container(of: &NnfContainer) -> Vec<ProfileFault> {
    let has_source = of.env.iter().any(|one| one.value_from.is_some());
    let refusal = |field: &str, remedy| fault(format!("container {:?}: {field}", of.name), remedy);
    let fields = [
        (has_source, "env.valueFrom", "the administrator writes the value"),
        (!of.env_from.is_empty(), "envFrom", "the administrator writes the variables into env"),
        (of.liveness_probe.is_some(), "livenessProbe", "the administrator takes it out"),
        (
            of.readiness_probe.is_some(),
            "readinessProbe",
            "the administrator takes it out; a container is ready when it runs",
        ),
        (of.startup_probe.is_some(), "startupProbe", "the administrator takes it out"),
        (of.restart_policy.is_some(), "restartPolicy", "the administrator takes it out"),
        (
            !of.termination_message_path.is_empty(),
            "terminationMessagePath",
            "the administrator takes it out; the agent reports the end of the log",
        ),
        (
            of.image.starts_with('-'),
            "image",
            "the administrator writes an image's name, which does not begin with -",
        ),
    ];
    let fields = fields.into_iter().filter(|(has, ..)| *has);
    let mut faults: Vec<_> = fields.map(|(_, field, remedy)| refusal(field, remedy)).collect();
    for (name, quantity) in limits(of) {
        let unit = [CPU, MEMORY].into_iter().find(|(known, _)| *known == name);
        if unit.is_none_or(|(_, of_each)| quantity::parts(quantity, of_each).is_none()) {
            let field = format!("resources.limits.{name}: {}", quantity.0);
            faults.push(refusal(
                &field,
                "the administrator gives limits of cpu and memory only, such as 500m and 4Gi",
            ));
        }
    }
    faults
}

pub(super) fn fault(field: String, remedy: &'static str) -> ProfileFault {
    ProfileFault::NotOnRabbits { field, remedy }
}
