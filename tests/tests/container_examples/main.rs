//! The examples of docs/use/containers.md, word for word: real images, podman on two rabbits with networks of their own, and Open MPI.

mod page;
mod scene;

use anyhow::{Context, ensure};

use self::{
    page::{Block, example},
    scene::Scene,
};

/// Runs an example's blocks in their order. After each job on a compute, and in the end, somebody may look.
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
            // Ranks write at the same time.
            Block::Output(text) => ensure!(
                sorted(text) == sorted(without_open_mpi_s_warnings(&printed).as_str()),
                "{title}: the page has\n{text}and this was printed:\n{printed}"
            ),
        }
    }
    look(scene, None)
}

/// mpirun moves its remote shell into a process group of its own, and so does the remote shell: where mpirun comes second,
/// setpgid(2) answers EACCES, and mpirun prints that and goes on (Open MPI 4.1, `plm_rsh_module.c`).
fn without_open_mpi_s_warnings(printed: &str) -> String {
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
fn a_program_looks_on_as_the_page_says() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() {
        return Ok(());
    }
    let mut scene = Scene::new("view")?;
    run(&mut scene, "### A program that looks on", |_, _| Ok(()))?;
    scene.end()
}

#[test]
fn ranks_run_beside_the_data_of_two_rabbits_as_the_page_says() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::podman() || !gate::mpi() {
        return Ok(());
    }
    let mut scene = Scene::new("ranks")?;
    let mut runs = 0;
    run(&mut scene, "### MPI beside the data", |scene, job| {
        let keys = scene.keys()?;
        let secrets = scene.administrator("warren get secret -n default --json")?;
        match job {
            // Ranks on the other rabbit still wait for their compute.
            Some("compute-1") => {
                runs += 1;
                ensure!(
                    keys == [6, 3],
                    "of launcher and worker, and of a worker, keys that the job's user alone reads: {keys:?}"
                );
                ensure!(secrets.contains("ranks-1-a1-"), "{secrets}");
                let hosts = scene.hosts_of_a_worker().context("look into a worker")?;
                ensure!(hosts.contains("198.18.0.3\tranks-worker-1."), "{hosts}");
            }
            None => {
                ensure!(keys == [0, 0], "keys stay: {keys:?}");
                ensure!(!secrets.contains("ranks-1-a1-"), "{secrets}");
            }
            _ => {}
        }
        Ok(())
    })?;
    ensure!(runs == 1, "nobody looked");
    scene.end()
}
