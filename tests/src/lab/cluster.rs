use std::{net::UdpSocket, time::Duration};

use anyhow::Context;

use super::{Bench, Guest, Machine, Volume, machine::Network};

/// Number of the rabbit in the cluster. Those of computes are the numbers of their controllers: compute 0 is 2.
const RABBIT: u8 = 1;

/// Longest time for a step of the cluster's software.
const STEP: Duration = Duration::from_secs(180);

/// Who fences a node that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// Nobody asks for it.
    Off,
    /// The lock manager waits until somebody says that it has happened.
    Acknowledged,
}

/// A rabbit and its computes with a namespace per drive that all of them see, and the software that shared file systems
/// need: corosync, the distributed lock manager and LVM's lock daemon.
#[derive(Debug)]
pub struct Cluster {
    /// The node whose vote outweighs all others'.
    pub rabbit: Guest,
    /// The computes.
    pub computes: Vec<Guest>,
    /// What they share.
    pub volumes: Vec<Volume>,
}

impl Cluster {
    /// Boots everything, waits until the lock managers run, and gives all a namespace per drive.
    ///
    /// # Errors
    /// When a guest does not boot, or the cluster does not form.
    pub fn boot(
        bench: &Bench,
        computes: u8,
        drives: usize,
        fencing: Fencing,
    ) -> anyhow::Result<Self> {
        let mut cluster = Self::boot_bare(bench, computes, drives, fencing)?;
        let hosts: Vec<_> = (RABBIT + 1..=RABBIT + computes).map(|host| host.to_string()).collect();
        let controllers = format!("0,{}", hosts.join(","));
        cluster.volumes = (0..drives)
            .map(|drive| Volume::carve(&mut cluster.rabbit, drive, 256, &controllers))
            .collect::<anyhow::Result<_>>()?;
        Ok(cluster)
    }

    /// Boots everything and waits until the lock managers run; the drives are empty.
    ///
    /// # Errors
    /// When a guest does not boot, or the cluster does not form.
    pub fn boot_bare(
        bench: &Bench,
        computes: u8,
        drives: usize,
        fencing: Fencing,
    ) -> anyhow::Result<Self> {
        Self::boot_of(bench, &Machine::rabbit(drives), computes, fencing)
    }

    /// The same with a rabbit that is made of something else.
    ///
    /// # Errors
    /// When a guest does not boot, or the cluster does not form.
    pub fn boot_of(
        bench: &Bench,
        chassis: &Machine,
        computes: u8,
        fencing: Fencing,
    ) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut guests = Vec::new();
        for host in RABBIT..=RABBIT + computes {
            let machine = match host.checked_sub(RABBIT + 1) {
                None => chassis.clone(),
                Some(index) => Machine::compute(index.into(), bench, chassis),
            };
            let network = Some(Network { port, host });
            let small = Machine { memory: 768, processors: 1, network, ..machine };
            guests.push(Guest::switch_on(bench, small)?);
        }
        for guest in &guests {
            guest.wait_for_boot()?;
        }
        for step in joining(computes, fencing) {
            together(&mut guests, &step)?;
        }
        let rabbit = guests.remove(0);
        Ok(Self { rabbit, computes: guests, volumes: Vec::new() })
    }
}

/// What a node does, step by step, to be one of the cluster: when all are there, and again when it alone has lost its power.
#[must_use]
pub fn joining(computes: u8, fencing: Fencing) -> [String; 2] {
    [form(computes + 1, fencing), start_locking(computes + 1)]
}

/// Runs a script on several guests at the same time.
///
/// # Errors
/// When it fails on one.
pub fn together(guests: &mut [Guest], script: &str) -> anyhow::Result<Vec<String>> {
    let jobs: Vec<_> =
        guests.iter_mut().map(|guest| guest.start(script)).collect::<anyhow::Result<_>>()?;
    guests.iter().zip(jobs).map(|(guest, job)| guest.finish(job, STEP)).collect()
}

fn name(host: u8) -> String {
    if host == 1 { "rabbit".to_owned() } else { format!("compute-{}", host - 2) }
}

/// A port that nobody uses at the moment: two clusters must not hear each other.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("find a free port")?;
    Ok(socket.local_addr().context("find a free port")?.port())
}

/// The cluster of a rabbit as sites have it: 17 votes for the rabbit, one for each compute.
fn corosync_conf(nodes: u8) -> String {
    let node = |host: u8| {
        let votes = if host == 1 { 17 } else { 1 };
        format!(
            "  node {{\n    ring0_addr: 192.168.77.{host}\n    name: {}\n    nodeid: {host}\n    quorum_votes: {votes}\n  }}\n",
            name(host)
        )
    };
    let nodes: String = (1..=nodes).map(node).collect();
    // The token's time is for guests that are emulated, on a host that has other work.
    format!(
        "totem {{\n  version: 2\n  cluster_name: rabbit\n  transport: udpu\n  crypto_cipher: none\n  crypto_hash: none\n  token: 8000\n}}\n\
         quorum {{\n  provider: corosync_votequorum\n}}\n\
         logging {{\n  to_syslog: no\n  to_stderr: no\n  to_logfile: yes\n  logfile: /var/log/corosync.log\n}}\n\
         nodelist {{\n{nodes}}}\n"
    )
}

fn form(nodes: u8, fencing: Fencing) -> String {
    let fencing = u8::from(fencing == Fencing::Acknowledged);
    format!(
        "{WAIT}\n\
         mkdir -p /etc/corosync /var/lib/corosync /etc/dlm /var/log/dlm_controld\n\
         cat > /etc/corosync/corosync.conf <<'END'\n{}END\n\
         printf 'enable_fencing={fencing}\\nenable_startup_fencing=0\\n' > /etc/dlm/dlm.conf\n\
         echo 'global {{ use_lvmlockd = 1 }}' > /etc/lvm/lvmlocal.conf\n\
         modprobe -a dlm gfs2 dm_mod\n\
         corosync\n\
         members() {{ corosync-quorumtool -s | grep -q '^Quorate: *Yes' && corosync-quorumtool -s | grep -q '^Nodes: *{nodes}$'; }}\n\
         wait_for members",
        corosync_conf(nodes)
    )
}

fn start_locking(nodes: u8) -> String {
    format!(
        "{WAIT}\n\
         dlm_controld\n\
         members() {{ [ \"$(dlm_tool status | grep -c '^node ')\" = {nodes} ]; }}\n\
         wait_for members\n\
         lvmlockd -g dlm\n\
         answers() {{ lvmlockctl -i; }}\n\
         wait_for answers"
    )
}

/// `wait_for CONDITION`: a minute and a half at most.
const WAIT: &str = r#"
wait_for() {
    for try in $(seq 300); do
        "$1" >/dev/null 2>&1 && return
        sleep 0.3
    done
    echo "waited in vain for $1" >&2
    "$1"
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rabbit_alone_is_quorate_and_its_computes_without_it_are_not() {
        let conf = corosync_conf(17);
        let votes = |value: &str| conf.matches(&format!("quorum_votes: {value}\n")).count();
        assert_eq!((votes("17"), votes("1")), (1, 16));
        assert!(conf.contains("name: compute-15\n    nodeid: 17\n"), "{conf}");
    }
}
