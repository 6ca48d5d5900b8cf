//! The chapters of the demo.

use super::Screen;
use crate::run::Run;

/// Everything from the first object to the last.
///
/// # Errors
/// When a chapter fails.
pub fn tell(run: &mut Run<Screen>) -> anyhow::Result<()> {
    run.narrator.chapter("describe the system: rabbit-1 and the computes of its chassis");
    run.describe_system()?;
    run.warren(&["nodes"])?;
    run.narrator.chapter("carve three allocations and make a file system on each");
    run.carve()?;
    run.wait_for_file_systems()?;
    run.narrator.chapter("give each compute access to its allocation, and mount there");
    run.mount_on_computes()?;
    run.wait_for_computes("mounted")?;
    run.warren(&["mounts"])?;
    run.narrator.chapter("write on each compute as an ordinary user");
    run.write()?;
    run.narrator.chapter("unmount from the computes and withdraw their access");
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.narrator.chapter("show all allocations as one tree on the rabbit");
    run.mount_on_rabbit()?;
    tree(run)?;
    run.narrator.chapter("read what compute-2 wrote, by its host name and by its index");
    run.read_on_rabbit(1)?;
    run.narrator.chapter("tear down: unmount, remove the file systems, free the drives");
    run.tear_down()
}

fn tree(run: &mut Run<Screen>) -> anyhow::Result<()> {
    let rabbit = run.cluster.chassis().rabbit.clone();
    let script = format!("ls -l --time-style=+ {}", run.job.mount_path());
    let shown = run.cluster.run_on(&rabbit, run.job.user, &script)?;
    run.narrator.told(&format!("{rabbit}$ {script}\n{shown}"));
    Ok(())
}
