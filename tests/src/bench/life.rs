//! Measures ClientMounts on one compute from creation to deletion, by a watch on the API like that of a site's DWS and
//! NNF controllers.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, future::try_join_all};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use nix::mount::{MntFlags, MsFlags, umount2};
use serde_json::{Value, json};

use super::Row;
use crate::{
    centre::Chassis,
    cluster::PATIENCE,
    program::until,
    run::{Run, Silent},
};

/// Milliseconds from the creation of a ClientMount until the sites' Go agent reports it as ready, measured
/// without a real mount.
const GO_READY: f64 = 25.5;
/// Milliseconds that the Go agent takes for 50 mounts that are requested at the same moment.
const GO_AT_ONCE: f64 = 6900.0;
/// The Go agent's watch events per life cycle.
const GO_EVENTS: f64 = 8.0;

/// Number of events that the controllers cause in a life cycle: create, unmount, delete.
const OTHERS: f64 = 3.0;
/// Fewest writes that an agent needs in a life cycle: finalizer, mounted, unmounted, finalizer removed.
const WRITES: f64 = 4.0;

/// Measured times and events of one ClientMount.
#[derive(Debug)]
struct Life {
    /// Milliseconds until the server answered the creation: the time of one durable write and of one round trip.
    created: f64,
    /// Milliseconds from the start of the creation until the watch showed the ClientMount as ready.
    ready: f64,
    /// Number of events that the watch showed until the ClientMount was gone.
    events: f64,
}

/// File systems that can be mounted on compute-1, and the API through which the bench requests the mounts.
#[derive(Debug)]
pub struct Lives {
    api: Api<DynamicObject>,
    mounts: Vec<DynamicObject>,
    devices: Vec<PathBuf>,
    scratch: PathBuf,
}

impl Lives {
    /// Makes `count` file systems that compute-1 can access.
    ///
    /// # Errors
    /// When the file systems are not ready in time.
    pub async fn carve(run: &mut Run<Silent>, count: usize) -> anyhow::Result<Self> {
        let chassis = run.cluster.chassis().clone();
        let many =
            Chassis { computes: vec![chassis.computes[0].clone(); count], ..chassis.clone() };
        let objects =
            [run.job.profile(), run.job.block_storage(&many, true), run.job.file_systems(&many)];
        run.apply("storage", &objects)?;
        run.wait_for_file_systems()?;
        let carved = until("access", PATIENCE, || {
            let carved = run.block_storage()?;
            let last = &carved["status"]["allocations"][count - 1]["accesses"]["compute-1"];
            last.is_object().then_some(carved.clone()).context("not yet")
        })?;
        let config = Kubeconfig::read_from(run.cluster.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let kind =
            GroupVersionKind::gvk("dataworkflowservices.github.io", "v1alpha7", "ClientMount");
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::namespaced_with(Client::try_from(config)?, "compute-1", &resource);
        let mounts = (0..count)
            .map(|place| object(run, &many, place, &carved))
            .collect::<anyhow::Result<_>>()?;
        let scratch = run.cluster.logs().join("bare");
        std::fs::create_dir_all(&scratch).context("make a mount point")?;
        Ok(Self { api, mounts, devices: devices(&carved), scratch })
    }

    /// Mounts, unmounts and deletes the first `count` ClientMounts one after another.
    ///
    /// # Errors
    /// When a ClientMount is not mounted, unmounted or deleted in time.
    pub async fn in_turn(&self, count: usize) -> anyhow::Result<Vec<Row>> {
        let (mut ready, mut bare, mut floor, mut events) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (mount, device) in self.mounts.iter().zip(&self.devices).take(count) {
            let mounted = self.mount_bare(device)?;
            let life = self.live(mount).await?;
            bare.push(mounted);
            ready.push(life.ready);
            floor.push(mounted + 3.0 * life.created);
            events.push(life.events);
        }
        let (ready, bare) = (median(&mut ready), median(&mut bare));
        Ok(vec![
            Row::ratio(
                "create to ready, median",
                ready,
                "Go agent without a mount",
                GO_READY,
                "ms",
            ),
            Row::ratio("create to ready, median", ready, "bare mount(2)", bare, "ms"),
            Row::ratio("our share of it", ready - bare, "bare mount(2)", bare, "ms"),
            Row::ratio(
                "create to ready, median",
                ready,
                "mount(2), the create and two more writes",
                median(&mut floor),
                "ms",
            ),
            Row::ratio(
                "watch events per life cycle",
                median(&mut events),
                "Go agent",
                GO_EVENTS,
                "",
            ),
            Row::ratio("of these, writes of ours", median(&mut events) - OTHERS, "aim", WRITES, ""),
        ])
    }

    /// Requests the mounts of all ClientMounts at the same moment.
    ///
    /// # Errors
    /// When a ClientMount is not mounted in time.
    pub async fn at_once(&self) -> anyhow::Result<Vec<Row>> {
        let bare: f64 = self
            .devices
            .iter()
            .map(|device| self.mount_bare(device))
            .sum::<anyhow::Result<f64>>()?;
        let mut events = self.api.watch(&WatchParams::default(), "0").await?.boxed();
        let begun = Instant::now();
        try_join_all(self.mounts.iter().map(|mount| self.create(mount))).await?;
        let mut waiting = self.mounts.len();
        while waiting > 0 {
            match tokio::time::timeout(PATIENCE, events.try_next())
                .await
                .context("wait for mounts")??
            {
                Some(WatchEvent::Modified(object)) if is_in_state(&object, "mounted") => {
                    waiting -= 1;
                }
                Some(_) => {}
                None => bail!("the watch ended"),
            }
        }
        let time = millis(begun.elapsed());
        Ok(vec![
            Row::ratio(
                &format!("{} at once, all ready", self.mounts.len()),
                time,
                "Go agent without mounts",
                GO_AT_ONCE,
                "ms",
            ),
            Row::ratio(
                &format!("{} at once, all ready", self.mounts.len()),
                time,
                "bare mount(2), in turn",
                bare,
                "ms",
            ),
        ])
    }

    async fn create(&self, mount: &DynamicObject) -> anyhow::Result<()> {
        self.api.create(&PostParams::default(), mount).await.context("create").map(drop)
    }

    async fn live(&self, mount: &DynamicObject) -> anyhow::Result<Life> {
        let name = mount.metadata.name.clone().context("the ClientMount has no name")?;
        let mut events = self.api.watch(&WatchParams::default(), "").await?.boxed();
        let begun = Instant::now();
        self.create(mount).await?;
        let created = millis(begun.elapsed());
        let (mut ready, mut event_count) = (None, 0.0);
        loop {
            let event = tokio::time::timeout(PATIENCE, events.try_next())
                .await
                .context("wait for the mount")??;
            match event.context("the watch ended")? {
                WatchEvent::Added(object) if object.metadata.name.as_ref() == Some(&name) => {
                    event_count += 1.0;
                }
                WatchEvent::Modified(object) if object.metadata.name.as_ref() == Some(&name) => {
                    event_count += 1.0;
                    if is_in_state(&object, "mounted") && ready.is_none() {
                        ready = Some(millis(begun.elapsed()));
                        let unmount = json!({"spec": {"desiredState": "unmounted"}});
                        self.api
                            .patch(&name, &PatchParams::default(), &Patch::Merge(unmount))
                            .await?;
                    } else if is_in_state(&object, "unmounted")
                        && object.metadata.deletion_timestamp.is_none()
                    {
                        self.api.delete(&name, &DeleteParams::default()).await?;
                    }
                }
                WatchEvent::Deleted(object) if object.metadata.name.as_ref() == Some(&name) => {
                    let ready = ready.context("the ClientMount was never ready")?;
                    return Ok(Life { created, ready, events: event_count + 1.0 });
                }
                _ => {}
            }
        }
    }

    /// Returns the milliseconds that the kernel alone takes to mount the device.
    #[expect(clippy::disallowed_methods, reason = "the bare call is what ours is compared with")]
    fn mount_bare(&self, device: &PathBuf) -> anyhow::Result<f64> {
        let begun = Instant::now();
        nix::mount::mount(Some(device), &self.scratch, Some("xfs"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mount {}", device.display()))?;
        let time = millis(begun.elapsed());
        umount2(&self.scratch, MntFlags::empty()).context("unmount")?;
        Ok(time)
    }
}

fn object(
    run: &Run<Silent>,
    many: &Chassis,
    place: usize,
    carved: &Value,
) -> anyhow::Result<DynamicObject> {
    let mut mount = run.job.compute_mount(many, place, carved);
    mount["metadata"]["name"] = json!(format!("bench-{place}"));
    mount["spec"]["mounts"][0]["mountPath"] =
        json!(format!("{}/{place}", run.cluster.mount_root()));
    serde_json::from_value(mount).context("a ClientMount")
}

fn devices(carved: &Value) -> Vec<PathBuf> {
    let allocations = carved["status"]["allocations"].as_array().cloned().unwrap_or_default();
    allocations
        .iter()
        .filter_map(|allocation| {
            allocation["accesses"]["rabbit-1"]["devicePaths"][0].as_str().map(PathBuf::from)
        })
        .collect()
}

fn is_in_state(object: &DynamicObject, state: &str) -> bool {
    let mount = &object.data["status"]["mounts"][0];
    mount["state"] == state && mount["ready"] == true
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
