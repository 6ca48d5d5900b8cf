use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{
    cluster::patience,
    lab::system::{MOUNT_ROOT, System},
    program::until,
    run::{Machines, Run, Silent},
};

/// Kind and index of each target, in the order in which they are made.
pub(super) const TARGETS: [(&str, u32); 3] = [("mgtmdt", 0), ("ost", 0), ("ost", 1)];

/// Each kind of target, with the number of its targets.
pub(super) const KINDS: [(&str, u32); 2] = [("mgtmdt", 1), ("ost", 2)];

/// Script that prints the drive and the namespace id of each device of the pool `POOL`, according
/// to this guest's kernel.
const DEVICES: &str = r#"
zpool list -v -H -P -L $POOL | awk -F'\t' '$2 ~ "^/dev/" { print $2 }' | while read -r part; do
    disk=$(dirname "$(readlink -f "/sys/class/block/${part##*/}")")
    echo "$(cat "$disk/device/subsysnqn") $(cat "$disk/nsid")"
done
"#;

pub(in super::super) fn pool(run: &Run<Silent, System>, kind: &str, index: u32) -> String {
    format!("pool-{}", run.job.lustre_target(kind, index))
}

pub(in super::super) fn dataset(run: &Run<Silent, System>, kind: &str, index: u32) -> String {
    format!("{}/{kind}", pool(run, kind, index))
}

/// Makes the file system as a site's controllers request it: first the management targets, then the object targets.
pub(in super::super) fn make(
    run: &mut Run<Silent, System>,
    kinds: &[(&str, u32)],
) -> anyhow::Result<()> {
    let chassis = run.cluster.chassis().clone();
    for (kind, count) in kinds {
        let objects = run.job.lustre_targets(&chassis, kind, *count);
        run.apply(kind, &objects)?;
        let name = format!("nnfnodestorage/{}", run.job.lustre_storage(kind));
        let ready = ["wait", &name, "-n", &chassis.rabbit, "--for", "ready", "--timeout", "30s"];
        until(&format!("{kind} to be ready"), patience(), || run.prints(&ready).map(drop))?;
    }
    Ok(())
}

/// Waits until all targets are mounted, each from a pool that this node has imported.
pub(super) fn serve(run: &Run<Silent, System>) -> anyhow::Result<()> {
    until("all targets to serve", patience(), || {
        let script = format!(
            "findmnt -rn -o SOURCE,TARGET | grep {MOUNT_ROOT} || true\nzpool list -H -o name,health"
        );
        let output = run.cluster.run("rabbit", &script)?;
        for (kind, index) in TARGETS {
            let (pool, target) = (pool(run, kind, index), run.job.lustre_target(kind, index));
            let mount = format!("{pool}/{kind} {MOUNT_ROOT}/{target}");
            let all = [mount, format!("{pool}\tONLINE")];
            ensure!(
                all.iter().all(|target| output.lines().any(|line| line == target)),
                "{all:?}: {output}"
            );
        }
        Ok(())
    })
}

/// Checks that each pool has exactly the namespaces that its allocation lists, on at least two drives.
pub(super) fn lie_on_their_namespaces(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let rabbit = &run.cluster.chassis().rabbit;
    for (kind, index) in TARGETS {
        let name = run.job.lustre_storage(kind);
        let text = run.prints(&["get", "nnfnodeblockstorage", &name, "-n", rabbit, "--json"])?;
        let object: Value = serde_json::from_str(&text).context("decode the block storage")?;
        let devices = object["status"]["allocations"][index as usize]["devices"].as_array();
        let listed: BTreeSet<_> = devices.into_iter().flatten().map(device_name).collect();
        let script = format!("POOL={}\n{DEVICES}", pool(run, kind, index));
        let used = run.cluster.run(rabbit, &script)?;
        let used: BTreeSet<_> = used.lines().map(str::to_owned).collect();
        ensure!(
            used == listed && listed.len() > 1,
            "{kind}-{index} is on {used:?}, not on {listed:?}"
        );
    }
    Ok(())
}

fn device_name(device: &Value) -> String {
    let text = |field: &str| device[field].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("NQN"), text("namespaceId"))
}

/// Deletes the file system and waits until nothing of it is left on the rabbit.
pub(in super::super) fn delete_file_system(
    run: &mut Run<Silent, System>,
    kinds: &[(&str, u32)],
) -> anyhow::Result<()> {
    let rabbit = run.cluster.chassis().rabbit.clone();
    for (kind, _) in kinds.iter().rev() {
        let name = run.job.lustre_storage(kind);
        for storage in ["nnfnodestorage", "nnfnodeblockstorage"] {
            run.warren(&["delete", storage, &name, "-n", &rabbit])?;
        }
    }
    run.warren(&["delete", "nnfstorageprofile", &run.job.directive(), "-n", "default"])?;
    let look = format!(
        "zpool list -H -o name | grep ^pool- || true\nfindmnt -rn -o TARGET | grep {MOUNT_ROOT} || true\nls -A {MOUNT_ROOT}"
    );
    let left = run.cluster.run(&rabbit, &look)?;
    ensure!(left.is_empty(), "left on the rabbit: {left}");
    Ok(())
}
