//! Runs the examples of docs/use/containers.md word for word, with real images, Open MPI, and podman on two rabbits,
//! each with its own network namespace. Copies by MPI run on the same rabbits.

mod copies;
mod page;
mod scene;

use anyhow::{Context, ensure};

use self::{
    page::{Block, example},
    scene::Scene,
};

/// Runs an example's blocks in their order. Calls `look` after each job, with its compute, and once at the end.
fn run(
    scene: &mut Scene,
    title: &str,
    mut look: impl FnMut(&Scene, Option<&str>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut printed = String::new();
    for block in example(title)? {
        match block {
            Block::File(path, text) => scene.write(path, text)?,
            Block::Commands(text) => printed = scene.administrator(text)?,
            Block::Job(compute, text) => {
                scene.job(compute, text)?;
                look(scene, Some(compute))?;
            }
            // Compares sorted lines, since the order of the ranks' lines varies.
            Block::Output(text) => ensure!(
                sorted(text) == sorted(without_setpgid_warnings(&printed).as_str()),
                "{title}: the page has\n{text}and this was printed:\n{printed}"
            ),
        }
    }
    look(scene, None)
}

/// Removes mpirun's warnings about setpgid(2). Both mpirun and its remote shell move the remote shell into
/// a new process group. If mpirun is the second to do so, it gets EACCES, prints a warning and continues
/// (Open MPI 4.1, `plm_rsh_module.c`).
fn without_setpgid_warnings(printed: &str) -> String {
    printed
        .lines()
        .filter(|line| !line.contains("plm:rsh: Warning: setpgid("))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_example_of_a_program_beside_the_job_prints_what_the_page_shows() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let mut scene = Scene::new("view")?;
    run(&mut scene, "### A program that looks on", |_, _| Ok(()))?;
    scene.end()
}

#[test]
fn the_example_of_mpi_on_two_rabbits_prints_what_the_page_shows() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() || !gate::mpi() {
        return Ok(());
    }
    let mut scene = Scene::new("ranks")?;
    let mut runs = 0;
    run(&mut scene, "### MPI beside the data", |scene, job| {
        let keys = scene.keys()?;
        let secrets = scene.administrator("warren get secret -n default --json")?;
        match job {
            // The container still runs: its ranks on the second rabbit wait for compute-2.
            Some("compute-1") => {
                runs += 1;
                ensure!(
                    keys == [6, 3],
                    "key files: launcher and worker on the first rabbit have 6, the worker on the second 3, not {keys:?}"
                );
                ensure!(secrets.contains("ranks-1-a1-"), "{secrets}");
                let hosts = scene.hosts_of_a_worker().context("look into a worker")?;
                ensure!(hosts.contains("198.18.0.3\tranks-worker-1."), "{hosts}");
            }
            None => {
                ensure!(keys == [0, 0], "key files are left: {keys:?}");
                ensure!(!secrets.contains("ranks-1-a1-"), "{secrets}");
            }
            _ => {}
        }
        Ok(())
    })?;
    ensure!(runs == 1, "{runs} jobs ran on compute-1 instead of 1");
    scene.end()
}
