use std::{net::UdpSocket, time::Duration};

use anyhow::Context;

use super::{
    Bench, Guest, Machine, Volume,
    machine::Network,
    ring::{RABBIT, Ring},
};

/// Longest time for a step of the cluster's software.
const STEP: Duration = Duration::from_secs(180);

/// How a lost node is fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// Lost nodes are not fenced.
    Off,
    /// Lost nodes are fenced, and the lock manager waits until the fence is acknowledged.
    Acknowledged,
}

/// A rabbit and its computes. They share a namespace on each drive, and run the software that shared file systems need:
/// corosync, the distributed lock manager and LVM's lock daemon.
#[derive(Debug)]
pub struct Cluster {
    /// The rabbit; its votes in the corosync cluster outweigh those of all computes.
    pub rabbit: Guest,
    /// The rabbit's computes, in the order of their numbers.
    pub computes: Vec<Guest>,
    /// Namespaces that the rabbit and its computes share.
    pub volumes: Vec<Volume>,
}

impl Cluster {
    /// Boots all guests, waits until the lock managers run, makes a namespace on each drive, and gives all
    /// guests access to it.
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

    /// Boots all guests and waits until the lock managers run. The drives are empty.
    ///
    /// # Errors
    /// When a guest does not boot, or the cluster does not form.
    pub fn boot_bare(
        bench: &Bench,
        computes: u8,
        drives: usize,
        fencing: Fencing,
    ) -> anyhow::Result<Self> {
        Self::boot_with(bench, &Machine::rabbit(drives), computes, fencing)
    }

    /// Boots a cluster like [`Cluster::boot_bare`], with `chassis` as the rabbit.
    ///
    /// # Errors
    /// When a guest does not boot, or the cluster does not form.
    pub fn boot_with(
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
        Self::join(guests, &Ring::with_computes(computes), fencing)
    }

    /// Boots several chassis, whose rabbits are all made like `chassis`, on one network: `rabbit-<k>` with
    /// `compute-<k>`, and each such pair forms a cluster. The drives are empty.
    ///
    /// # Errors
    /// When a guest does not boot, or a cluster does not form.
    pub fn boot_pairs(bench: &Bench, pairs: u8, chassis: &Machine) -> anyhow::Result<Vec<Self>> {
        let port = free_port()?;
        let switch_on = |pair| {
            let ring = Ring::for_pair(pair);
            Ok((switch_on_pair(bench, &ring, port, chassis)?, ring))
        };
        let booting = (1..=pairs).map(switch_on).collect::<anyhow::Result<Vec<_>>>()?;
        let join = |(guests, ring): (Vec<Guest>, Ring)| Self::join(guests, &ring, Fencing::Off);
        booting.into_iter().map(join).collect()
    }

    /// Waits until the guests, of which the first is the rabbit, have booted and form a cluster.
    fn join(mut guests: Vec<Guest>, ring: &Ring, fencing: Fencing) -> anyhow::Result<Self> {
        for guest in &guests {
            guest.wait_for_boot()?;
        }
        for step in ring.joining(fencing) {
            together(&mut guests, &step)?;
        }
        let rabbit = guests.remove(0);
        Ok(Self { rabbit, computes: guests, volumes: Vec::new() })
    }
}

fn switch_on_pair(
    bench: &Bench,
    ring: &Ring,
    port: u16,
    chassis: &Machine,
) -> anyhow::Result<Vec<Guest>> {
    let rabbit = Machine { name: ring.rabbit().to_owned(), ..chassis.clone() };
    let compute = Machine { memory: 768, processors: 1, ..Machine::compute(0, bench, &rabbit) };
    let nodes = [rabbit, compute].into_iter().zip(&ring.nodes);
    let switch_on = |(machine, (name, host)): (Machine, &(String, u8))| {
        let network = Some(Network { port, host: *host });
        Guest::switch_on(bench, Machine { name: name.clone(), network, ..machine })
    };
    nodes.map(switch_on).collect()
}

/// Returns the scripts, step by step, with which a node joins the lab's only cluster: at the first boot of all nodes,
/// and again after a node has lost its power.
#[must_use]
pub fn joining(computes: u8, fencing: Fencing) -> [String; 2] {
    Ring::with_computes(computes).joining(fencing)
}

/// Returns the scripts, step by step, with which the rabbit of a pair ([`Cluster::boot_pairs`]) joins its cluster again
/// after it has lost its power.
#[must_use]
pub fn joining_pair(pair: u8) -> [String; 2] {
    Ring::for_pair(pair).joining(Fencing::Off)
}

/// Runs a script on several guests at the same time.
///
/// # Errors
/// When the script fails on any guest.
pub fn together(guests: &mut [Guest], script: &str) -> anyhow::Result<Vec<String>> {
    let jobs: Vec<_> =
        guests.iter_mut().map(|guest| guest.start(script)).collect::<anyhow::Result<_>>()?;
    guests.iter().zip(jobs).map(|(guest, job)| guest.finish(job, STEP)).collect()
}

/// Finds a UDP port that no program uses: two clusters on one port would receive each other's messages.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("find a free port")?;
    Ok(socket.local_addr().context("find a free port")?.port())
}
