//! Scripts that start our programs on a node.

use std::collections::BTreeMap;

use control_plane::{Authority, Certified};

use super::MOUNT_ROOT;
use crate::lab::kubernetes;

/// Address on which the coordinator listens for nodes.
const ADDRESS: &str = "192.168.77.1";

/// Shell function `started PROGRAM ARGUMENTS...`: starts a program by its systemd unit if the unit is
/// installed. Otherwise starts the program in the background, with its own log and with the variables from the
/// file that its unit reads.
const STARTED: &str = r#"
mkdir -p /run/warren /mnt/nnf /mnt/temp /var/lib/warren/fence
started() (
    unit=/etc/systemd/system/warren-$1.service
    if [ -e "$unit" ]; then
        mkdir -p "$unit.d"
        printf '[Service]\nExecStart=\nExecStart=/programs/%s\nStandardOutput=append:/var/log/%s.log\nStandardError=inherit\n' \
            "$*" "$1" > "$unit.d/lab.conf"
        systemctl daemon-reload
        systemctl start "warren-$1"
        exit
    fi
    set -a
    [ ! -e "/etc/warren/$1" ] || . "/etc/warren/$1"
    setsid "/programs/$@" >> "/var/log/$1.log" 2>&1 < /dev/null &
)
"#;

const COORDINATOR: &str = "coordinator --socket /run/warren/coordinator.sock \
    --listen 0.0.0.0:7443 --ca /etc/warren/ca --certificate /etc/warren/certificate --key /etc/warren/key \
    --workloads-socket /run/warren/workloads.sock --wlm-user slurm";

/// Arguments of every rabbit's agent.
const RABBIT: &str = "--mount-root /mnt/nnf --temp-root /mnt/temp --state-dir /var/lib/warren/rabbit \
    --fence-requests /var/lib/warren/fence/requests --fence-responses /var/lib/warren/fence/responses \
    --allocation-minimum 2";

/// Script that prints a kubeconfig with which programs on other hosts use the coordinator's embedded API.
pub(super) const KUBECONFIG: &str = "
kubeconfig=/var/lib/warren/coordinator/kubeconfig
for try in $(seq 600); do [ -s $kubeconfig ] && break; sleep 0.1; done
cat $kubeconfig
";

/// Script that opens the coordinator's end of a tunnel. The coordinator's embedded API listens on loopback only, so the
/// agents of other rabbits connect through the tunnel. TLS protects the whole connection.
pub(super) const WAY_IN: &str = "setsid socat TCP-LISTEN:6443,bind=192.168.77.1,fork,reuseaddr TCP:127.0.0.1:6443 >/dev/null 2>&1 </dev/null &\n";
/// Script that opens the rabbit's end of the tunnel.
const WAY_OUT: &str = "setsid socat TCP-LISTEN:6443,bind=127.0.0.1,fork,reuseaddr TCP:192.168.77.1:6443 >/dev/null 2>&1 </dev/null &\n";

/// The API on the coordinator's host.
#[derive(Debug, Clone, Copy)]
pub(super) enum Api {
    /// The coordinator's own API.
    Embedded,
    /// The API of a Kubernetes cluster whose control plane runs on the coordinator's host.
    Kubernetes,
}

impl Api {
    /// Returns the address at which programs on that host reach the API.
    pub(super) fn address(self) -> String {
        match self {
            Self::Embedded => "unix:///run/warren/api.sock".to_owned(),
            Self::Kubernetes => format!("kubeconfig:{}", kubernetes::KUBECONFIG),
        }
    }

    /// Returns the argument with the rabbit's directory of job packages: on Kubernetes, a rabbit has such a directory
    /// only if it is configured.
    fn packages(self) -> &'static str {
        match self {
            Self::Embedded => "",
            Self::Kubernetes => "--package-dir /var/lib/warren/rabbit/packages",
        }
    }

    /// Returns the coordinator's arguments for the API, and a socket that exists once the coordinator serves.
    fn of_coordinator(self) -> (String, &'static str) {
        match self {
            Self::Embedded => {
                let own =
                    "--data-dir /var/lib/warren/coordinator --api-socket /run/warren/api.sock";
                (own.to_owned(), "api.sock")
            }
            Self::Kubernetes => {
                let kubeconfig = kubernetes::COORDINATOR;
                let image = kubernetes::PODHELPER;
                let engine = format!(
                    "--workflows --container-namespace default --podhelper-image {image} --container-packages"
                );
                (format!("--kubeconfig {kubeconfig} {engine}"), "coordinator.sock")
            }
        }
    }
}

/// Returns a script that starts the coordinator.
pub(super) fn coordinator(api: Api) -> String {
    let (api, socket) = api.of_coordinator();
    format!(
        "{STARTED}started {COORDINATOR} {api}
         for try in $(seq 600); do [ -S /run/warren/{socket} ] && break; sleep 0.1; done
         [ -S /run/warren/{socket} ]\n"
    )
}

/// Returns a script that starts the rabbit agent on the coordinator's host.
pub(super) fn rabbit_agent(node: &str, api: Api) -> String {
    let here = format!("--api {} --coordinator unix:///run/warren/coordinator.sock", api.address());
    let packages = api.packages();
    format!("{STARTED}started rabbit-agent --node {node} {here} {RABBIT} {packages}\n")
}

/// Returns a script that starts the rabbit agent on another host.
pub(super) fn distant_rabbit_agent(node: &str) -> String {
    let there = format!("--api kubeconfig:/etc/warren/kubeconfig {}", distant_arguments());
    format!("{STARTED}started rabbit-agent --node {node} {there} {RABBIT}\n")
}

/// Returns a script that starts the agent of a compute.
pub(super) fn clientmount_agent(node: &str) -> String {
    format!(
        "{STARTED}started clientmount-agent --node {node} {} --state-dir /var/lib/warren/compute --mount-root {MOUNT_ROOT}\n",
        distant_arguments()
    )
}

/// Returns the arguments with which an agent on another host reaches the coordinator.
fn distant_arguments() -> String {
    format!(
        "--coordinator https://{ADDRESS}:7443 --ca /etc/warren/ca --certificate /etc/warren/certificate --key /etc/warren/key"
    )
}

/// Returns a script that installs the kubeconfig that [`KUBECONFIG`] printed, and opens the rabbit's end of the tunnel.
pub(super) fn script_to_reach_coordinator(kubeconfig: &str) -> String {
    format!("{}{WAY_OUT}", file("kubeconfig", kubeconfig))
}

/// Returns scripts that install, on each node, a certificate with the node's name, and its key. No node gets the key of
/// another. `head` is the coordinator's node.
pub(super) fn certificates<'a>(
    head: &str,
    nodes: impl Iterator<Item = &'a String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let authority = Authority::new("the lab")?;
    let certified = |node: &String| {
        let own = if *node == head {
            authority.server_at(&[ADDRESS, node])?
        } else {
            authority.client(node, None)?
        };
        Ok((node.clone(), install_script(&authority, &own)))
    };
    nodes.map(certified).collect()
}

fn install_script(authority: &Authority, own: &Certified) -> String {
    format!(
        "mkdir -p /etc/warren\n{}{}{}",
        file("ca", authority.certificate()),
        file("certificate", &own.certificate),
        file("key", &own.key)
    )
}

fn file(name: &str, text: &str) -> String {
    format!("cat > /etc/warren/{name} <<'END'\n{text}\nEND\n")
}
