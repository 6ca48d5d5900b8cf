//! Finds and removes the mounts, loop devices, processes and files that a run left beneath its directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::program::{command, until_even_if_interrupted};

const PROGRAMS: [&str; 6] =
    ["coordinator", "rabbit-agent", "clientmount-agent", "clientmountd", "stand-in", "warren"];

/// Returns one line for each mount, loop device and program that is left. The list is empty if the computer is
/// as before the run.
///
/// # Errors
/// When the computer cannot be inspected; an empty list would then prove nothing.
pub fn leftovers(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut left: Vec<_> =
        mounts(directory)?.iter().map(|path| format!("mount: {}", path.display())).collect();
    left.extend(
        loop_devices(directory)?.iter().map(|device| format!("loop device: {}", device.display())),
    );
    left.extend(programs(directory)?.iter().map(|(pid, argv)| format!("process: {pid} {argv}")));
    Ok(left)
}

/// Kills Warren's programs that work beneath `directory`, removes their mounts and loop devices,
/// and removes the directory.
///
/// # Errors
/// When a process, mount, loop device or file cannot be removed.
#[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
pub fn clear(directory: &Path) -> anyhow::Result<()> {
    until_even_if_interrupted("our programs to end", Duration::from_secs(10), || {
        // Repeats the search: a supervisor may start its program once more before the supervisor is killed too.
        let running = programs(directory)?;
        for (pid, _) in &running {
            // An error means that the process has already ended, which is the aim too.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        ensure!(running.is_empty(), "they still run");
        Ok(())
    })?;
    for path in mounts(directory)?.iter().rev() {
        run("umount", path)?;
    }
    release_drives(directory)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("remove the directory")
        }
        _ => Ok(()),
    }
}

/// Detaches every loop device over a file beneath `directory`.
///
/// # Errors
/// When a loop device stays attached.
pub fn release_drives(directory: &Path) -> anyhow::Result<()> {
    for device in loop_devices(directory)? {
        run("losetup", &device)?;
    }
    // The kernel detaches a loop device at its last close. A mount that is being unmounted may keep the device open for
    // a moment.
    until_even_if_interrupted("loop devices to be detached", Duration::from_secs(10), || {
        ensure!(loop_devices(directory)?.is_empty(), "some are in use");
        Ok(())
    })
}

fn run(program: &str, path: &Path) -> anyhow::Result<()> {
    let mut argv = command(program);
    if program == "losetup" {
        argv.arg("-d");
    }
    let status = argv.arg(path).status().with_context(|| format!("start {program}"))?;
    ensure!(status.success(), "{program} {}: {status}", path.display());
    Ok(())
}

fn mounts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("read mountinfo")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    Ok(points.filter(|point| point.starts_with(directory)).collect())
}

fn loop_devices(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for entry in fs::read_dir("/sys/block").context("list block devices")? {
        let entry = entry.context("list block devices")?;
        // Skips loop devices without this file: they are not in use.
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        if Path::new(backing.trim_end()).starts_with(directory) {
            devices.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(devices)
}

fn programs(directory: &Path) -> anyhow::Result<Vec<(i32, String)>> {
    let text = directory.to_str().context("the directory's name is not UTF-8")?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("list processes")? {
        let entry = entry.context("list processes")?;
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        // Skips a process that ends while it is inspected.
        let Ok(argv) = fs::read(entry.path().join("cmdline")) else { continue };
        let argv = String::from_utf8_lossy(&argv).replace('\0', " ");
        let ours = argv.split(' ').next().and_then(|path| Path::new(path).file_name());
        let supervised = argv.contains(" supervisor ");
        if argv.contains(text)
            && (supervised || PROGRAMS.iter().any(|name| ours == Some(name.as_ref())))
        {
            found.push((pid, argv));
        }
    }
    Ok(found)
}
