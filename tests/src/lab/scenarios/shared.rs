use std::time::Duration;

use anyhow::ensure;

use crate::{
    centre::Job,
    lab::{
        Bench, checksum,
        cluster::{Cluster, Fencing},
        system::{MOUNT_ROOT, System},
    },
    run::{Machines, Run, Silent},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "gfs2-job",
    about: "our programs on a rabbit and two computes: a GFS2 each on four drives, written there and read on the rabbit meanwhile",
    run,
};

const STEP: Duration = Duration::from_secs(180);

/// Script that writes one file after another until it is stopped. Each file gets its final name when it is complete.
const WRITE: &str = r#"
n=0
until [ -e /run/enough ]; do
    n=$((n+1))
    echo "file $n" > $MOUNT/.new
    sync $MOUNT/.new
    mv $MOUNT/.new $MOUNT/file
    echo $n
done
"#;

fn run(bench: &Bench) -> anyhow::Result<()> {
    let cluster = Cluster::boot_bare(bench, 2, 4, Fencing::Off)?;
    let job = Job { capacity: 256 << 20, ..Job::new(1, "gfs2", MOUNT_ROOT) };
    let mut run = Run { cluster: System::start(cluster)?, job, narrator: Silent, patient: false };
    let outcome = story(&mut run);
    outcome.map_err(|error| run.cluster.explained(error))
}

fn story(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.describe_system()?;
    run.carve_and_mount()?;
    let path = run.job.mount_path();
    let file = checksum::write(&format!("{path}/data"), 20);
    let written: Vec<_> =
        computes(run).iter().map(|node| run.cluster.run(node, &file)).collect::<Result<_, _>>()?;

    // The rabbit mounts the file systems while its compute has them mounted.
    run.mount_on_rabbit()?;
    let nodes = computes(run);
    let write = format!("MOUNT={path}\n{WRITE}");
    let writing: Vec<_> =
        nodes.iter().map(|node| run.cluster.guest(node).start(&write)).collect::<Result<_, _>>()?;
    for (place, (node, written)) in nodes.iter().zip(&written).enumerate() {
        run.cluster.guest(node).wait_for_print(writing[place], "\n3\n", STEP)?;
        let here = format!("{path}/node-{place}");
        let back = run.cluster.run("rabbit", &checksum::read(&format!("{here}/data")))?;
        ensure!(back == *written, "{node} wrote {written}, the rabbit reads {back}");
        check_file_changes(run, &format!("{here}/file"))?;
    }
    for (node, writing) in nodes.iter().zip(writing) {
        run.cluster.run(node, "touch /run/enough")?;
        run.cluster.guest(node).finish(writing, STEP)?;
    }
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.tear_down()?;
    run.cluster.until_empty()
}

fn computes(run: &Run<Silent, System>) -> Vec<String> {
    run.cluster.chassis().computes.iter().map(|(name, _)| name.clone()).collect()
}

/// Checks that the rabbit reads a file of the compute, and after some time a newer file.
fn check_file_changes(run: &Run<Silent, System>, file: &str) -> anyhow::Result<()> {
    let script = format!(
        "first=$(cat {file})
         for try in $(seq 300); do [ \"$(cat {file})\" != \"$first\" ] && exit; sleep 0.1; done
         echo \"{file} stays $first\" >&2; exit 1"
    );
    run.cluster.run("rabbit", &script).map(drop)
}
