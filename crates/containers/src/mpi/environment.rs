//! Environment variables of MPI's pods: they name the hosts, and make mpirun start the ranks with `podhelper`.

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};
use k8s_openapi::api::core::v1::EnvVar;

use super::{
    implementation,
    network::INTERFACE,
    pods::{AGENT, HOSTFILE, KEYS},
    slots,
};
use crate::run::Run;

/// Maximum number of workers that may start each other in a tree; with more workers, the launcher starts each of them.
const MAX_TREE_WORKERS: usize = 64;

/// Returns the variables that both launcher and workers have. `role` is the role of the pod.
pub(crate) fn role_variables(role: &str) -> Vec<EnvVar> {
    // Workers need the remote shell too: if there are many workers, some of them start others.
    env_vars([("K_MPI_JOB_ROLE", role), ("NNF_MPI_KEYS", KEYS), ("OMPI_MCA_plm_rsh_agent", AGENT)])
}

/// Returns the variables that only the launcher has.
pub(crate) fn launcher_variables(run: &Run<'_>, mpi: &NnfMpiSpec) -> Vec<EnvVar> {
    let slots = slots(mpi).to_string();
    let mut variables = match implementation(mpi) {
        MpiImplementation::OpenMpi | MpiImplementation::Other(_) => open_mpi(run, mpi, &slots),
        MpiImplementation::Intel => env_vars([
            ("I_MPI_HYDRA_HOST_FILE", HOSTFILE),
            ("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC", AGENT),
            ("I_MPI_PERHOST", &slots),
        ]),
        MpiImplementation::Mpich => env_vars([
            ("HYDRA_HOST_FILE", HOSTFILE),
            ("HYDRA_LAUNCHER", "ssh"),
            ("HYDRA_LAUNCHER_EXEC", AGENT),
        ]),
    };
    if !mpi.run_launcher_as_worker {
        // Hides all GPUs from the launcher: no rank runs in it.
        variables
            .extend(env_vars([("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", "")]));
    }
    variables
}

/// Returns variables that confine mpirun to the run's own network, for sites where Kubernetes provides no network. A
/// launcher with ports is in a second network too, and other rabbits cannot reach the launcher in that network.
pub(crate) fn network_variables() -> Vec<EnvVar> {
    env_vars([
        ("OMPI_MCA_btl_tcp_if_include", INTERFACE),
        ("OMPI_MCA_oob_tcp_if_include", INTERFACE),
        ("PRTE_MCA_prte_if_include", INTERFACE),
    ])
}

/// Returns the variables of Open MPI: its versions up to 4 use ORTE's variables, and later versions use PRRTE's.
fn open_mpi(run: &Run<'_>, mpi: &NnfMpiSpec, slots: &str) -> Vec<EnvVar> {
    // PRRTE compares host names with its own host's name, which is the short one.
    let keeps = if mpi.run_launcher_as_worker { "false" } else { "true" };
    let mut variables = env_vars([
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_default_hostfile", HOSTFILE),
        ("OMPI_MCA_orte_set_default_slots", slots),
        ("PRTE_MCA_plm_ssh_agent", AGENT),
        ("PRTE_MCA_prte_keep_fqdn_hostnames", keeps),
        ("PRTE_MCA_prte_default_hostfile", HOSTFILE),
        ("PRTE_MCA_prte_set_default_slots", slots),
    ]);
    let workers = run.placement.len();
    if workers > MAX_TREE_WORKERS {
        let workers = workers.to_string();
        variables.extend(env_vars([
            ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
            ("OMPI_MCA_plm_rsh_num_concurrent", &workers),
            ("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
            ("PRTE_MCA_plm_ssh_num_concurrent", &workers),
        ]));
    }
    variables
}

fn env_vars<const N: usize>(pairs: [(&str, &str); N]) -> Vec<EnvVar> {
    let variable = |(name, value): (&str, &str)| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    pairs.map(variable).into()
}
