//! A copy_in from a directory of the site into a Lustre with object targets on two rabbits, by the real mpirun of Open
//! MPI in podman. Stand-ins are `dcp-stand-in`, which copies with cp and prints dcp's lines, and the programs of Lustre
//! (`tests::lustre_tools`): each rabbit's mount has its own files, so the test reads those of the rank that copies.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::{PATIENCE, patience},
    gate,
    program::until,
};

use super::scene::Scene;

const USER: u32 = 1050;

/// Script of the stand-in. Each rank records its host beside the source. Rank 0 copies: it prints half of the progress,
/// waits for the test, and ends like dcp.
const STAND_IN: &str = r#"#!/bin/sh
while [ $# -gt 2 ]; do shift; done
ranks=${1%/*}/ranks
hostname > "$ranks/$OMPI_COMM_WORLD_RANK"
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
echo 'Copied 6.000 B (50%) in 1.000 secs (6.000 B/s) 1 secs left ...'
until [ -e "$ranks/go" ]; do sleep 0.2; done
cp -r "$1" "$2" || exit 3
echo 'Copied 12.000 B (100%) in 2.000 secs (6.000 B/s) done'
printf 'Seconds: 2.000\nItems: 3\n  Directories: 1\n  Files: 2\n  Links: 0\n'
printf 'Data: 12.000 B (12 bytes)\nRate: 6.000 B/s (12 bytes in 2.000 seconds)\n'
"#;

/// Makes the image as docs/use/containers.md does, from this machine's programs. They have the same paths in the image.
const MAKE_IMAGE: &str = r"
cd dcp
sed -i 1s,.*,#!$(which sh), dcp-stand-in
programs=$(which sh cp sleep hostname mpirun orted)
plugins=$(find /usr/lib/*/openmpi /usr/lib/*/pmix2 -name '*.so')
(echo /tmp; ls /etc/openmpi/*; ldd $programs $plugins | grep -o '/[^ :]*') | sort -u |
    tar -chf root.tar --hard-dereference --no-recursion -T -
podman build -t dcp:1 .
podman save --format oci-archive -o /srv/images/dcp.tar dcp:1
warren apply -f profile.yaml
";
const DOCKERFILE: &str = "FROM scratch\nADD root.tar /\nCOPY dcp-stand-in /bin/dcp-stand-in\n";

/// The site's default command of nnf-dm, with the stand-in's name, and without its call of ulimit.
const PROFILE: &str = "apiVersion: nnf.cray.hpe.com/v1alpha11
kind: NnfDataMovementProfile
metadata: {name: dcp, namespace: nnf-system}
data:
  image: oci-archive:/srv/images/dcp.tar
  command: mpirun --allow-run-as-root --hostfile $HOSTFILE dcp-stand-in --progress 1 --uid $UID --gid $GID $SRC $DEST
  slots: 2
  progressIntervalSeconds: 1
";

/// Starts a scene whose workflow has its Lustre, with object targets on both rabbits. Returns also the site's directory.
fn set_up(name: &str) -> anyhow::Result<(Scene, PathBuf)> {
    let mut scene = Scene::with_lustre(name)?;
    scene.write("dcp/dcp-stand-in", STAND_IN)?;
    scene.make_executable("dcp/dcp-stand-in")?;
    scene.write("dcp/Dockerfile", DOCKERFILE)?;
    scene.write("dcp/profile.yaml", PROFILE)?;
    scene.administrator(MAKE_IMAGE).context("make the image")?;
    let flow = scene.flow();
    let site = flow.fixture.run.cluster.global();
    fs::create_dir_all(site.join("input/deep"))?;
    fs::write(site.join("input/a"), "first\n")?;
    fs::write(site.join("input/deep/b"), "second")?;
    fs::create_dir_all(site.join("ranks"))?;
    chown(site.join("ranks"), Some(USER), Some(USER)).context("give the directory to the user")?;
    begin(&mut scene, &site)?;
    Ok((scene, site))
}

/// Creates the workflow, makes its Lustre, and requests the copy.
fn begin(scene: &mut Scene, site: &Path) -> anyhow::Result<()> {
    let source = site.display();
    let copy =
        format!("#DW copy_in profile=dcp source={source}/input destination=$DW_JOB_lus/data/");
    let flow = scene.flow();
    flow.create(&["#DW jobdw type=lustre capacity=1GB name=lus", &copy])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    flow.reach("Setup")?;
    flow.request_state("DataIn")
}

/// Returns the movement of the copy.
fn movement(scene: &mut Scene) -> anyhow::Result<Value> {
    let (flow, rabbit) = (scene.flow(), "rabbit-1");
    flow.object("nnfdatamovement", &format!("{}-1-0", flow.name), rabbit)
}

/// Waits until rank 0 has printed half of the progress, and the movement says so.
fn wait_for_progress(scene: &mut Scene) -> anyhow::Result<()> {
    until("half of the progress", patience(), || {
        let movement = movement(scene)?;
        let status = &movement["status"];
        ensure!(status["commandStatus"]["progress"] == 50, "not yet: {status:#}");
        ensure!(status["state"] == "Running", "{status:#}");
        Ok(())
    })
}

/// Checks that ranks ran in both workers.
fn ensure_ranks_on_both_rabbits(ranks: &Path, name: &str) -> anyhow::Result<()> {
    for (rank, worker) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let host = fs::read_to_string(ranks.join(rank.to_string()))?;
        ensure!(
            host.trim() == format!("{name}-copy1-worker-{worker}"),
            "rank {rank} ran on {host}"
        );
    }
    Ok(())
}

#[test]
fn dcp_stand_in_copies_by_mpi_on_two_rabbits_and_its_lines_are_the_movements_status()
-> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() || !gate::mpi() {
        return Ok(());
    }
    let (mut scene, site) = set_up("mpicopy")?;
    wait_for_progress(&mut scene)?;
    let shown = scene.administrator("warren containers mpicopy-copy1")?;
    ensure!(shown.matches("worker").count() == 2 && shown.contains("launcher"), "{shown}");
    ensure_ranks_on_both_rabbits(&site.join("ranks"), "mpicopy")?;
    fs::write(site.join("ranks/go"), "")?;
    let flow = scene.flow();
    flow.wait("DataIn", "Completed")?;
    let workflow = flow.reach("PreRun")?;
    let path = workflow["status"]["env"]["DW_JOB_lus"].as_str().context("DW_JOB_lus")?.to_owned();
    let script =
        format!("cat {path}/data/input/a {path}/data/input/deep/b; stat -c %u {path}/data/input/a");
    let copied = flow.run_on("rabbit-1", &script)?;
    ensure!(copied == "first\nsecond1050\n", "{copied:?}");
    let status = movement(&mut scene)?["status"].clone();
    let progress = &status["commandStatus"];
    ensure!(status["status"] == "Success" && progress["items"] == json!(3), "{status:#}");
    ensure!(progress["data"] == "12.000 B" && progress["bytes"] == json!(12), "{status:#}");
    let left = scene.administrator("warren containers")?;
    ensure!(!left.contains("mpicopy"), "containers of a copy that succeeded are left: {left}");
    let flow = scene.flow();
    for state in ["PostRun", "DataOut", "Teardown"] {
        flow.reach(state)?;
    }
    flow.delete()?;
    scene.end()
}

#[test]
fn a_failed_and_a_cancelled_copy_by_mpi_leave_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() || !gate::mpi() {
        return Ok(());
    }
    let (mut scene, site) = set_up("mpifail")?;
    wait_for_progress(&mut scene)?;
    fs::set_permissions(site.join("input/a"), fs::Permissions::from_mode(0o600))?;
    fs::write(site.join("ranks/go"), "")?;
    let failed = scene.flow().wait("DataIn", "Error")?;
    let message = failed["status"]["message"].as_str().context("a message")?;
    ensure!(message.contains("copy_in on rabbit-1: container copy exited with"), "{message}");
    let logs = scene.administrator("warren logs mpifail-copy1")?;
    let is_named = |line: &str| line.contains("input/a'") && line.contains("Permission denied");
    ensure!(logs.lines().any(is_named), "{logs}");
    let flow = scene.flow();
    flow.reach("Teardown")?;
    flow.delete()?;
    fs::remove_file(site.join("ranks/go"))?;

    begin(&mut scene, &site)?;
    wait_for_progress(&mut scene)?;
    scene.administrator("warren movements cancel mpifail")?;
    let cancelled = scene.flow().wait("DataIn", "Error")?;
    let message = cancelled["status"]["message"].as_str().context("a message")?;
    ensure!(message.contains("the copy was cancelled"), "{message}");
    until("no containers to be left", PATIENCE, || {
        let left = scene.administrator("warren containers")?;
        ensure!(!left.contains("mpifail"), "left: {left}");
        Ok(())
    })?;
    let flow = scene.flow();
    flow.reach("Teardown")?;
    flow.delete()?;
    scene.end()
}
