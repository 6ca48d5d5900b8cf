//! Scripts that start our programs on a node.

use std::collections::BTreeMap;

use control_plane::{Authority, Certified};

use super::MOUNT_ROOT;
use crate::lab::kubernetes;

/// Where the coordinator listens for nodes.
const ADDRESS: &str = "192.168.77.1";

/// `started PROGRAM ARGUMENTS...`: as its unit says where that is installed; else in the background, with a log of its own, and the
/// variables that its unit reads.
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

/// Every rabbit's.
const RABBIT: &str = "--mount-root /mnt/nnf --temp-root /mnt/temp --state-dir /var/lib/warren/rabbit \
    --fence-requests /var/lib/warren/fence/requests --fence-responses /var/lib/warren/fence/responses \
    --allocation-minimum 2";

/// Prints what a program of another host needs to use the coordinator's own API.
pub(super) const KUBECONFIG: &str = "
kubeconfig=/var/lib/warren/coordinator/kubeconfig
for try in $(seq 600); do [ -s $kubeconfig ] && break; sleep 0.1; done
cat $kubeconfig
";

/// That API serves its own host alone. Another's rabbit comes by a tunnel: this is its end at the coordinator. TLS goes all the way.
pub(super) const WAY_IN: &str = "setsid socat TCP-LISTEN:6443,bind=192.168.77.1,fork,reuseaddr TCP:127.0.0.1:6443 >/dev/null 2>&1 </dev/null &\n";
/// And this its end at the rabbit.
const WAY_OUT: &str = "setsid socat TCP-LISTEN:6443,bind=127.0.0.1,fork,reuseaddr TCP:192.168.77.1:6443 >/dev/null 2>&1 </dev/null &\n";

/// The API of the coordinator's host.
#[derive(Debug, Clone, Copy)]
pub(super) enum Api {
    /// The coordinator's own.
    Embedded,
    /// That of a cluster whose control plane is there.
    Kubernetes,
}

impl Api {
    /// How programs of that host name it.
    pub(super) fn address(self) -> String {
        match self {
            Self::Embedded => "unix:///run/warren/api.sock".to_owned(),
            Self::Kubernetes => format!("kubeconfig:{}", kubernetes::KUBECONFIG),
        }
    }

    /// Where the rabbit has packages: on Kubernetes only where that is said.
    fn packages(self) -> &'static str {
        match self {
            Self::Embedded => "",
            Self::Kubernetes => "--package-dir /var/lib/warren/rabbit/packages",
        }
    }

    /// What the coordinator is to know of it, and the socket that is there once it serves.
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

/// The coordinator.
pub(super) fn coordinator(api: Api) -> String {
    let (api, socket) = api.of_coordinator();
    format!(
        "{STARTED}started {COORDINATOR} {api}
         for try in $(seq 600); do [ -S /run/warren/{socket} ] && break; sleep 0.1; done
         [ -S /run/warren/{socket} ]\n"
    )
}

/// The agent of the rabbit that has the coordinator.
pub(super) fn rabbit_agent(node: &str, api: Api) -> String {
    let here = format!("--api {} --coordinator unix:///run/warren/coordinator.sock", api.address());
    let packages = api.packages();
    format!("{STARTED}started rabbit-agent --node {node} {here} {RABBIT} {packages}\n")
}

/// The agent of another rabbit.
pub(super) fn distant_rabbit_agent(node: &str) -> String {
    let there = format!("--api kubeconfig:/etc/warren/kubeconfig {}", distant());
    format!("{STARTED}started rabbit-agent --node {node} {there} {RABBIT}\n")
}

/// The agent of a compute.
pub(super) fn clientmount_agent(node: &str) -> String {
    format!(
        "{STARTED}started clientmount-agent --node {node} {} --state-dir /var/lib/warren/compute --mount-root {MOUNT_ROOT}\n",
        distant()
    )
}

/// How an agent of another host reaches the coordinator.
fn distant() -> String {
    format!(
        "--coordinator https://{ADDRESS}:7443 --ca /etc/warren/ca --certificate /etc/warren/certificate --key /etc/warren/key"
    )
}

/// Installs what [`KUBECONFIG`] printed, and the way that it names.
pub(super) fn way_out(kubeconfig: &str) -> String {
    format!("{}{WAY_OUT}", file("kubeconfig", kubeconfig))
}

/// Scripts that give every node a certificate of its own name, and nobody another's key. `head` has the coordinator.
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
        Ok((node.clone(), installed(&authority, &own)))
    };
    nodes.map(certified).collect()
}

fn installed(authority: &Authority, own: &Certified) -> String {
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
