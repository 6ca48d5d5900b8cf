//! Connects a pod to the network of an MPI run. Each pod has a network device for the run, and a VXLAN tunnel to each
//! other pod of the run. The tunnels run between the rabbits' own addresses, at a UDP port that is reserved for the run
//! on all its rabbits.
//!
//! All devices are in the pod's network namespace and vanish with it, so the agent removes none.
//!
//! ```text
//! mpi0 ─── mpi-in ─ mpi-bridge ─ mpi-out ═══ UDP ═══ another rabbit, or another pod of the run on this one
//! ```
//! The bridge is needed for pods of one rabbit: the kernel drops a frame that goes from one VXLAN device directly to
//! another on the same host, but not a frame that comes from another kind of device, such as a bridge.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, ToSocketAddrs},
    time::Duration,
};

use causes::CommandError;
use containers::mpi::network::{INTERFACE, PREFIX, address};
use process::Cmd;

use super::{HostError, PodmanHost};
use crate::kinds::container::step::Network;

/// Maximum bytes of a frame: VXLAN adds 50 bytes to each frame, and the rabbits' Ethernet carries 1500.
const MTU: u32 = 1450;
/// Name of the bridge between the pod's own device and the tunnel.
const BRIDGE: &str = "mpi-bridge";
const TUNNEL: &str = "mpi-out";

/// Runs a command line, split at blanks; if `process` is given, in the network namespace of that process.
fn run(process: Option<i32>, line: &str, deadline: Duration) -> Result<(), CommandError> {
    let within = process.map(|process| format!("nsenter --net=/proc/{process}/ns/net "));
    let line = within.unwrap_or_default() + line;
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Cmd::with_text(words.iter(), line).run(deadline)
}

impl PodmanHost {
    /// Connects a pod to the network of its run. First deletes devices that an interrupted connect left.
    pub(super) fn connect(&self, network: &Network) -> Result<(), HostError> {
        let peers = addresses(network)?;
        let pod = network.pod.to_string();
        let output = |what: &str, words: [&str; 5]| -> Result<String, HostError> {
            let printed = self.podman.run(what, &words.map(str::to_owned), self.deadline)?;
            Ok(String::from_utf8_lossy(&printed).trim().to_owned())
        };
        let what = format!("connect pod {pod}");
        let holder = output(&what, ["pod", "inspect", "--format", "{{.InfraContainerID}}", &pod])?;
        self.podman.run(&what, &["start".to_owned(), holder.clone()], self.deadline)?;
        let process =
            output(&what, ["container", "inspect", "--format", "{{.State.Pid}}", &holder])?;
        let process = process.parse().map_err(|_| HostError::NoProcess { pod })?;
        for (namespace, line) in command_lines(network, &peers, process, &existing_devices(process))
        {
            run(namespace, &line, self.deadline)?;
        }
        Ok(())
    }
}

/// Returns whether a process is in the network of an MPI run, by the route that `connect` adds last.
pub(super) fn is_connected(process: i32) -> bool {
    let routes = fs::read_to_string(format!("/proc/{process}/net/route")).unwrap_or_default();
    routes.lines().any(|line| line.split_whitespace().next() == Some(INTERFACE))
}

/// Returns the IPv4 address of each pod's rabbit.
fn addresses(network: &Network) -> Result<Vec<Ipv4Addr>, HostError> {
    let own = usize::try_from(network.place).ok().and_then(|place| network.rabbits.get(place));
    let address_of = |rabbit: &String| {
        if Some(rabbit) == own {
            return Ok(Ipv4Addr::LOCALHOST);
        }
        let found = (rabbit.as_str(), 0).to_socket_addrs().ok();
        let mut found = found.into_iter().flatten().filter_map(|address| match address.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        found.next().ok_or_else(|| HostError::NoIpv4 { rabbit: rabbit.clone() })
    };
    network.rabbits.iter().map(address_of).collect()
}

/// Returns the commands that create the devices, in order. Each command comes with the process in whose
/// network namespace it runs, or with `None` for the rabbit's own namespace. The first commands delete the
/// devices in `existing`. Pure.
fn command_lines(
    network: &Network,
    peers: &[Ipv4Addr],
    process: i32,
    existing: &[&str],
) -> Vec<(Option<i32>, String)> {
    let (port, own) = (network.port, network.place);
    let within = |line: String| (Some(process), line);
    let mut lines: Vec<_> =
        existing.iter().map(|name| within(format!("ip link delete dev {name}"))).collect();
    // The tunnel is created in the rabbit's namespace: its UDP socket stays there when the tunnel moves to the pod's
    // namespace.
    lines.push((
        None,
        format!(
            "ip link add name {TUNNEL} netns {process} mtu {MTU} type vxlan id {} dstport {port} nolearning",
            own + 1
        ),
    ));
    let devices = [
        format!("ip link add name {BRIDGE} type bridge"),
        format!(
            "ip link add name {INTERFACE} address {} mtu {MTU} type veth peer name mpi-in mtu {MTU}",
            mac(own)
        ),
        format!("ip link set dev mpi-in master {BRIDGE} up"),
        format!("ip link set dev {TUNNEL} master {BRIDGE} up"),
        format!("ip link set dev {BRIDGE} up"),
    ];
    lines.extend(devices.map(within));
    for ((place, rabbit), address) in (0..).zip(peers).zip((0..).map_while(address)) {
        if place == own {
            lines.push(within(format!("ip address add {address}/{PREFIX} dev {INTERFACE}")));
            continue;
        }
        let (mac, id) = (mac(place), place + 1);
        lines.push(within(format!(
            "ip neighbour add {address} lladdr {mac} dev {INTERFACE} nud permanent"
        )));
        lines.push(within(format!(
            "bridge fdb append {mac} dev {TUNNEL} dst {rabbit} vni {id} port {port} self permanent"
        )));
    }
    // This command is the last, because `is_connected` looks for its effect.
    lines.push(within(format!("ip link set dev {INTERFACE} up")));
    lines
}

/// Returns the locally administered MAC address of the pod with this index.
fn mac(place: u32) -> String {
    let [a, b, c, d] = place.to_be_bytes();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Returns the names of Warren's devices that exist in the network namespace of a process.
fn existing_devices(process: i32) -> Vec<&'static str> {
    let all = fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
    let is_there =
        |name: &&str| all.lines().any(|line| line.trim_start().starts_with(&format!("{name}:")));
    [INTERFACE, BRIDGE, TUNNEL].into_iter().filter(is_there).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::container::step::PodName;

    #[test]
    fn each_pod_gets_a_tunnel_to_each_other_rabbit_and_its_device_up_last() {
        let rabbits = ["r", "r", "s"].map(str::to_owned).to_vec();
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let pod = PodName { uid, attempt: 1 };
        let network = Network { pod, port: 5001, place: 1, rabbits };
        let peers = [Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, 2)];
        let lines = command_lines(&network, &peers, 7, &["mpi-out"]);
        let (outside, inside): (Vec<_>, Vec<_>) =
            lines.iter().partition(|(namespace, _)| namespace.is_none());
        let made =
            "ip link add name mpi-out netns 7 mtu 1450 type vxlan id 2 dstport 5001 nolearning";
        assert_eq!(outside, [&(None, made.to_owned())]);
        let inside: Vec<&str> = inside.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(
            (inside[0], inside[inside.len() - 1]),
            ("ip link delete dev mpi-out", "ip link set dev mpi0 up")
        );
        for line in [
            "ip address add 198.18.0.2/15 dev mpi0",
            "bridge fdb append 02:00:00:00:00:00 dev mpi-out dst 127.0.0.1 vni 1 port 5001 self permanent",
            "ip neighbour add 198.18.0.3 lladdr 02:00:00:00:00:02 dev mpi0 nud permanent",
            "bridge fdb append 02:00:00:00:00:02 dev mpi-out dst 10.0.0.2 vni 3 port 5001 self permanent",
        ] {
            assert!(inside.contains(&line), "{line}: {inside:#?}");
        }
        assert_eq!(
            inside.iter().filter(|line| line.starts_with("bridge ")).count(),
            2,
            "no tunnel to the pod itself"
        );
    }
}
