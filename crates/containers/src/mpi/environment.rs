//! What the pods of MPI are told: where the hosts are, and that `podhelper` starts the ranks there.

use api::nnf_container_profile::{MpiImplementation, NnfMpiSpec};
use k8s_openapi::api::core::v1::EnvVar;

use super::{
    implementation,
    network::INTERFACE,
    pods::{AGENT, HOSTFILE, KEYS},
    slots,
};
use crate::run::Run;

/// Above so many workers each is started by the launcher itself, not by one that was started before.
const FLAT: usize = 64;

/// What both roles are told.
pub(crate) fn of_role(role: &str) -> Vec<EnvVar> {
    // A worker starts others when there are many.
    all([("K_MPI_JOB_ROLE", role), ("NNF_MPI_KEYS", KEYS), ("OMPI_MCA_plm_rsh_agent", AGENT)])
}

/// What the launcher is told.
pub(crate) fn of_launcher(run: &Run<'_>, mpi: &NnfMpiSpec) -> Vec<EnvVar> {
    let slots = slots(mpi).to_string();
    let mut told = match implementation(mpi) {
        MpiImplementation::OpenMpi | MpiImplementation::Other(_) => open_mpi(run, mpi, &slots),
        MpiImplementation::Intel => all([
            ("I_MPI_HYDRA_HOST_FILE", HOSTFILE),
            ("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC", AGENT),
            ("I_MPI_PERHOST", &slots),
        ]),
        MpiImplementation::Mpich => all([
            ("HYDRA_HOST_FILE", HOSTFILE),
            ("HYDRA_LAUNCHER", "ssh"),
            ("HYDRA_LAUNCHER_EXEC", AGENT),
        ]),
    };
    if !mpi.run_launcher_as_worker {
        // An image that asks for every GPU is to ask for none where no rank runs.
        told.extend(all([("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", "")]));
    }
    told
}

/// What the launcher is told besides where no Kubernetes has a network for the run: a launcher with ports has another one too,
/// in which nobody reaches it from another rabbit.
pub(crate) fn of_network() -> Vec<EnvVar> {
    all([
        ("OMPI_MCA_btl_tcp_if_include", INTERFACE),
        ("OMPI_MCA_oob_tcp_if_include", INTERFACE),
        ("PRTE_MCA_prte_if_include", INTERFACE),
    ])
}

/// Open MPI to version 4 reads the names of ORTE, and since version 5 those of PRRTE.
fn open_mpi(run: &Run<'_>, mpi: &NnfMpiSpec, slots: &str) -> Vec<EnvVar> {
    // PRRTE compares the names of hosts with its own, which is short.
    let keeps = if mpi.run_launcher_as_worker { "false" } else { "true" };
    let mut told = all([
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_default_hostfile", HOSTFILE),
        ("OMPI_MCA_orte_set_default_slots", slots),
        ("PRTE_MCA_plm_ssh_agent", AGENT),
        ("PRTE_MCA_prte_keep_fqdn_hostnames", keeps),
        ("PRTE_MCA_prte_default_hostfile", HOSTFILE),
        ("PRTE_MCA_prte_set_default_slots", slots),
    ]);
    let workers = run.placement.len();
    if workers > FLAT {
        let workers = workers.to_string();
        told.extend(all([
            ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
            ("OMPI_MCA_plm_rsh_num_concurrent", &workers),
            ("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
            ("PRTE_MCA_plm_ssh_num_concurrent", &workers),
        ]));
    }
    told
}

fn all<const N: usize>(of: [(&str, &str); N]) -> Vec<EnvVar> {
    let variable = |(name, value): (&str, &str)| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    of.map(variable).into()
}
