//! Copies between a directory that two rabbits share and a GFS2 on each of them, while one of the rabbits loses its power.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{
    centre::Job,
    cluster::patience,
    lab::{
        Bench, Machine,
        cluster::{Cluster, joining_pair},
        containers::HOSTS,
        functions::unallocated,
        system::{MOUNT_ROOT, System},
    },
    program::until,
    run::{Run, Silent},
    workflow,
};

use super::{
    Scenario,
    mishaps::KEEP,
    nvme::{make_system, mount_system, with_system},
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "copies-job",
    about: "two rabbits with GFS2 copy from and to a shared directory; one loses its power in the middle: its copy continues, and each file is complete",
    run,
};

const DRIVES: usize = 2;
const STEP: Duration = Duration::from_secs(300);
/// Deadline of a state of the workflow.
const STATE: Duration = Duration::from_secs(1200);
const COMMAND: Duration = Duration::from_secs(1260);

const RABBITS: [&str; 2] = ["rabbit-1", "rabbit-2"];
const USER: u32 = 1050;
/// Number of input files of 1 MiB each.
const FILES: u64 = 96;

const DIRECTIVES: [&str; 3] = [
    "#DW jobdw type=gfs2 capacity=512MiB name=scratch",
    "#DW copy_in source=/project/input/ destination=$DW_JOB_scratch/",
    "#DW copy_out source=$DW_JOB_scratch/ destination=/project/results/",
];

/// Script that mounts the shared directory and configures the programs: at the beginning, and after a loss of power. The
/// limit makes each copy last for more than a minute, so that the loss of power comes in its middle.
const CONFIGURE: &str = "
mkdir -p /project /etc/warren
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 shared /project
echo WARREN_GLOBAL=project=/project > /etc/warren/coordinator
printf 'WARREN_DATAMOVER=/programs/datamover\\nWARREN_MOVEMENT_RATE=1MiB\\n' > /etc/warren/rabbit-agent
";

/// The systemd unit that the package installs.
const UNIT: &str = include_str!("../../../../systemd/warren-rabbit-agent.service");

fn configure() -> String {
    let unit =
        format!("cat > /etc/systemd/system/warren-rabbit-agent.service <<'END'\n{UNIT}\nEND\n");
    format!("{HOSTS}{CONFIGURE}{unit}")
}

fn run(bench: &Bench) -> anyhow::Result<()> {
    let rabbit = Machine { processors: 1, systemd: true, ..Machine::rabbit(DRIVES) };
    // Only the second rabbit uses the system's disk: it keeps the state of copies over the loss of power.
    let mut clusters = Cluster::boot_pairs(bench, 2, &with_system(bench, rabbit)?)?;
    let empty = clusters.iter_mut().map(|cluster| unallocated(&mut cluster.rabbit, 0..DRIVES));
    let empty = empty.collect::<anyhow::Result<Vec<_>>>()?;
    make_system(&mut clusters[1].rabbit)?;
    clusters[1].rabbit.run(KEEP, STEP)?;
    for cluster in &mut clusters {
        cluster.rabbit.run(&configure(), STEP)?;
        cluster.computes.iter_mut().try_for_each(|compute| compute.run(HOSTS, STEP).map(drop))?;
    }
    let project = bench.directory().join("shared");
    plant(&project)?;
    let unused = Job::new(1, "gfs2", MOUNT_ROOT);
    let system = System::start_all(clusters)?;
    let mut run = Run { cluster: system, job: unused, narrator: Silent, patient: false };
    let outcome = story(&mut run, &project).and_then(|()| is_as_before(&run, &empty));
    outcome.map_err(|error| run.cluster.explained(error))
}

/// Creates the input, which belongs to the user: files of random data, and a sparse file.
fn plant(project: &Path) -> anyhow::Result<()> {
    let input = project.join("input");
    fs::create_dir_all(&input)?;
    for number in 0..FILES {
        let mut data = vec![0; 1 << 20];
        fastrand::fill(&mut data);
        fs::write(input.join(number.to_string()), data)?;
    }
    fs::File::create(input.join("sparse"))?.set_len(8 << 20)?;
    fs::create_dir_all(project.join("results"))?;
    let mut all = vec![project.join("results"), input.clone()];
    for entry in fs::read_dir(&input)? {
        all.push(entry?.path());
    }
    all.iter().try_for_each(|path| chown(path, Some(USER), Some(USER)).context("chown"))
}

fn story(run: &mut Run<Silent, System>, project: &Path) -> anyhow::Result<()> {
    run.describe_system()?;
    for rabbit in RABBITS {
        workflow::wait_until_ready(run, rabbit)?;
    }
    let owner = USER.to_string();
    let create = ["workflow", "create", "--name", "copies", "--user", &owner, "--group", &owner];
    run.warren(&[&create[..], &DIRECTIVES].concat())?;
    advance(run, "Setup")?;
    let data_in = run.cluster.guest(RABBITS[0]).start(&advance_script(run, "DataIn"))?;
    until("both copies to run", patience(), || is_under_way(run))?;
    in_a_scope(&run.cluster)?;
    lose_power(&run.cluster)?;
    let done = run.cluster.guest(RABBITS[0]).finish(data_in, COMMAND);
    done.with_context(|| describe(run))?;
    let restarts = movements(run)?.into_iter().find(|line| line["rabbit"] == RABBITS[1]);
    ensure!(restarts.is_some_and(|line| line["restarts"] == 1), "{}", describe(run));
    advance(run, "PreRun")?;
    paths_of_the_go_data_movement(run)?;
    advance(run, "PostRun")?;
    advance(run, "DataOut")?;
    for rabbit in RABBITS {
        assert_same(&project.join("input"), &project.join(format!("results/{rabbit}-0")))?;
    }
    advance(run, "Teardown")?;
    run.warren(&["workflow", "delete", "copies"])
}

fn advance_script(run: &Run<Silent, System>, state: &str) -> String {
    let timeout = format!("{}s", STATE.as_secs());
    let words = ["workflow", "advance", "copies", "--to", state, "--timeout", &timeout];
    let computes: &[&str] = if state == "Setup" { &["--nodes", "compute-[1-2]"] } else { &[] };
    run.cluster.warren(&[&words[..], computes].concat())
}

/// Requests a state of the workflow, and waits until it is complete.
fn advance(run: &Run<Silent, System>, state: &str) -> anyhow::Result<()> {
    let script = advance_script(run, state);
    let advanced = run.cluster.guest(RABBITS[0]).run(&script, COMMAND);
    advanced.map(drop).with_context(|| describe(run))
}

/// Returns the output of `warren movements`, for error messages.
fn describe(run: &Run<Silent, System>) -> String {
    let verbs = [&["movements", "copies"][..], &["workflow", "show", "copies"]];
    let printed =
        verbs.map(|words| run.prints(words).unwrap_or_else(|error| format!("{error:#}\n")));
    printed.concat()
}

fn movements(run: &Run<Silent, System>) -> anyhow::Result<Vec<Value>> {
    let printed = run.prints(&["movements", "copies", "--json"])?;
    serde_json::from_str(&printed).with_context(|| format!("decode {printed}"))
}

/// Checks that both copies run, and that each of them has copied a tenth.
fn is_under_way(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let lines = movements(run)?;
    let runs = |line: &Value| line["state"] == "Running" && line["progress"].as_i64() >= Some(10);
    ensure!(lines.len() == 2 && lines.iter().all(runs), "not yet: {lines:?}");
    Ok(())
}

/// Checks that the copy of the first rabbit has a systemd scope in the slice of all copies.
fn in_a_scope(system: &System) -> anyhow::Result<()> {
    let look = "cat /proc/$(pgrep -xo datamover)/cgroup";
    let group = system.run(RABBITS[0], look)?;
    let expected = "/warren.slice/warren-movements.slice/warren-movement-";
    ensure!(group.contains(expected), "datamover runs in {group}");
    Ok(())
}

/// Runs the test of all paths of the Go data movement from the GFS2 to the shared directory, and back.
fn paths_of_the_go_data_movement(run: &Run<Silent, System>) -> anyhow::Result<()> {
    let text = run.prints(&["get", "workflow", "copies", "-n", "default", "--json"])?;
    let workflow: Value = serde_json::from_str(&text).context("decode the Workflow")?;
    let job = workflow["status"]["env"]["DW_JOB_scratch"].as_str().context("DW_JOB_scratch")?;
    let job = format!("{job}/node-0");
    for roots in [format!("{job}:/project"), format!("/project:{job}")] {
        let test = format!(
            "WARREN_COPY_ROOTS={roots} WARREN_DATAMOVER=/programs/datamover /programs/copy-tests paths::"
        );
        let printed = run.cluster.guest(RABBITS[0]).run(&test, STEP)?;
        ensure!(printed.contains("1 passed"), "{roots}: {printed}");
    }
    Ok(())
}

/// Switches the second rabbit off and on, and starts its agent again.
fn lose_power(system: &System) -> anyhow::Result<()> {
    let node = RABBITS[1];
    system.guest(node).lose_power()?;
    mount_system(&mut system.guest(node))?;
    system.run(node, KEEP)?;
    system.run(node, &configure())?;
    joining_pair(2).iter().try_for_each(|step| system.run(node, step).map(drop))?;
    system.prepare(node)?;
    system.start_agent(node)
}

/// Checks that two directories have the same files with the same content, and that the copies belong to the user.
fn assert_same(source: &Path, copy: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let names = |directory: &Path| -> anyhow::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
            names.push(PathBuf::from(entry?.file_name()));
        }
        names.sort();
        Ok(names)
    };
    let all = names(source)?;
    ensure!(names(copy)? == all, "{} has {:?}", copy.display(), names(copy)?);
    for name in all {
        let (source, copy) = (source.join(&name), copy.join(&name));
        ensure!(fs::metadata(&copy)?.uid() == USER, "{} belongs to another user", copy.display());
        ensure!(fs::read(&source)? == fs::read(&copy)?, "{} has other content", copy.display());
    }
    Ok(())
}

/// Checks that nothing of the workflow is left in the API, on the nodes and on the drives.
fn is_as_before(run: &Run<Silent, System>, empty: &[Vec<u64>]) -> anyhow::Result<()> {
    until("no object to be left", patience(), || {
        let left = workflow::remaining_objects(run)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })?;
    run.cluster.until_empty()?;
    for (rabbit, empty) in RABBITS.into_iter().zip(empty) {
        let left = unallocated(&mut run.cluster.guest(rabbit), 0..DRIVES)?;
        ensure!(left == *empty, "{rabbit}'s drives had {empty:?} bytes left, and now {left:?}");
    }
    Ok(())
}
