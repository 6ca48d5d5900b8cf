use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::program::until;

use super::{
    Bench, Machine,
    emulator::Emulator,
    job::{Job, Output},
    machine::{properties, shared_directory},
    qmp::Qmp,
};

/// Longest time for a boot. A boot takes five seconds on two idle cores, but the lab's cores are seldom idle.
const BOOT: Duration = Duration::from_secs(180);
/// Longest time for an orderly unplug. Five seconds of it pass after the slot's button was pressed, in which
/// an operator could cancel.
const UNPLUG: Duration = Duration::from_secs(60);

/// A virtual machine that was booted. It is switched off when this value is dropped.
#[derive(Debug)]
pub struct Guest {
    machine: Machine,
    directory: PathBuf,
    emulator: Emulator,
    jobs: u32,
}

impl Guest {
    /// Switches a guest on and waits until it can run scripts.
    ///
    /// # Errors
    /// When the guest does not boot in time; the output of its console is kept.
    pub fn boot(bench: &Bench, machine: Machine) -> anyhow::Result<Self> {
        let guest = Self::switch_on(bench, machine)?;
        guest.wait_for_boot()?;
        Ok(guest)
    }

    /// Switches a guest on and does not wait, so that several guests can boot at the same time. A guest that ran before
    /// still has its data on its drives and in /lab.
    ///
    /// # Errors
    /// When the emulator does not start.
    pub fn switch_on(bench: &Bench, machine: Machine) -> anyhow::Result<Self> {
        let directory = bench.directory().join(&machine.name);
        for made in [directory.join("exchange"), shared_directory(&directory)] {
            fs::create_dir_all(made).context("make the guest's directories")?;
        }
        forget_jobs(&directory.join("exchange"))
            .context("delete the scripts of an earlier boot")?;
        for (file, bytes) in machine.media(&directory) {
            // An existing file is the medium of a drive that was switched off.
            File::options()
                .create(true)
                .append(true)
                .open(&file)
                .and_then(|file| file.set_len(bytes))
                .context("make a drive's medium")?;
        }
        let arguments = machine.arguments(bench.assets(), &directory, bench.programs());
        let emulator = Emulator::start(bench.assets().qemu(), arguments, &directory)?;
        Ok(Self { machine, directory, emulator, jobs: 0 })
    }

    /// Waits until the guest has booted.
    ///
    /// # Errors
    /// When the guest does not boot in time.
    pub fn wait_for_boot(&self) -> anyhow::Result<()> {
        self.emulator.port.wait_for_boot(BOOT).with_context(|| self.console())
    }

    /// Returns the machine from which the guest was made.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the directory that the guest sees as /lab.
    #[must_use]
    pub fn exchange(&self) -> PathBuf {
        self.directory.join("exchange")
    }

    /// Runs a bash script in the guest, and returns its output. The guest sees our programs in /programs.
    ///
    /// # Errors
    /// When the script fails or takes longer than `deadline`; the message of a failure has the script's output.
    pub fn run(&mut self, script: &str, deadline: Duration) -> anyhow::Result<String> {
        let job = self.start(script)?;
        self.finish(job, deadline)
    }

    /// Starts a script and does not wait for its end.
    ///
    /// # Errors
    /// When the guest cannot be reached.
    pub fn start(&mut self, script: &str) -> anyhow::Result<Job> {
        self.jobs += 1;
        let job = Job(self.jobs);
        job.write(&self.exchange(), script)?;
        self.emulator.port.request(job.0).with_context(|| self.console())?;
        Ok(job)
    }

    /// Waits for a script to succeed, and returns its output.
    ///
    /// # Errors
    /// When the script fails or takes longer than `deadline`; the message of a failure has the script's output.
    pub fn finish(&self, job: Job, deadline: Duration) -> anyhow::Result<String> {
        self.wait(job, deadline)?.ok(&format!("script {} on {}", job.0, self.machine.name))
    }

    /// Waits for a script to end, with success or without.
    ///
    /// # Errors
    /// When the script takes longer than `deadline`.
    pub fn wait(&self, job: Job, deadline: Duration) -> anyhow::Result<Output> {
        let code = self.emulator.port.wait_for_code(job.0, deadline).with_context(|| {
            let (out, err) = (self.printed(job), job.read(&self.exchange(), "err"));
            format!("{}\n{}\n{}", self.console(), out.unwrap_or_default(), err.unwrap_or_default())
        })?;
        job.output(&self.exchange(), code)
    }

    /// Returns the exit code and the output of a script, if it has ended.
    ///
    /// # Errors
    /// When the output cannot be read.
    pub fn output_if_ended(&self, job: Job) -> anyhow::Result<Option<Output>> {
        self.emulator.port.code(job.0).map(|code| job.output(&self.exchange(), code)).transpose()
    }

    /// Returns the output of a running script so far.
    ///
    /// # Errors
    /// When the script has not begun.
    pub fn printed(&self, job: Job) -> anyhow::Result<String> {
        job.read(&self.exchange(), "out")
    }

    /// Waits until a running script has printed `text`.
    ///
    /// # Errors
    /// When the script does not print the text within `deadline`.
    pub fn wait_for_print(
        &self,
        job: Job,
        text: &str,
        deadline: Duration,
    ) -> anyhow::Result<String> {
        until(&format!("{text:?} from {}", self.machine.name), deadline, || {
            let printed = self.printed(job)?;
            ensure!(printed.contains(text), "so far: {printed}");
            Ok(printed)
        })
        .with_context(|| self.console())
    }

    /// Switches the guest's power off and on: the content of its memory is lost, the data on the drives is kept, and
    /// all drives are in their slots again.
    ///
    /// The guest gets a new emulator process. An emulator that is only reset keeps its translations of the old
    /// kernel's code, and each write of the booting kernel to those pages is slow: a boot would take minutes, or never
    /// end.
    ///
    /// # Errors
    /// When the guest does not boot again in time.
    pub fn lose_power(&mut self) -> anyhow::Result<()> {
        // The processors stop first: afterwards every command that a drive has received is complete, or was not begun.
        self.freeze()?;
        self.emulator.restart(&self.directory)?;
        self.wait_for_boot()
    }

    /// Stops the guest's processors, as in a computer that hangs.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn freeze(&mut self) -> anyhow::Result<()> {
        self.emulator.qmp.execute("stop", &json!({})).map(drop)
    }

    /// Lets the guest's processors continue.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn thaw(&mut self) -> anyhow::Result<()> {
        self.emulator.qmp.execute("cont", &json!({})).map(drop)
    }

    /// Pulls a drive out of its slot.
    ///
    /// # Errors
    /// When the guest does not release the drive in time.
    pub fn unplug(&mut self, drive: usize) -> anyhow::Result<()> {
        let id = format!("drive{drive}");
        self.emulator.qmp.execute("device_del", &json!({ "id": id }))?;
        self.emulator.qmp.event("DEVICE_DELETED", UNPLUG, |data| data["device"] == *id)
    }

    /// Puts a drive back into its slot, with its data.
    ///
    /// # Errors
    /// When the drive does not exist, or is already in its slot.
    pub fn plug(&mut self, drive: usize) -> anyhow::Result<()> {
        self.plug_into(drive, drive)
    }

    /// Puts a drive that was pulled into another slot, which must be empty.
    ///
    /// # Errors
    /// When the drive does not exist or is already in a slot, or when the slot is not empty.
    pub fn plug_into(&mut self, drive: usize, slot: usize) -> anyhow::Result<()> {
        let device = self.machine.drives.get(drive).context("no such drive")?.device(drive);
        let mut arguments = properties(&device);
        arguments["bus"] = format!("slot{slot}").into();
        self.emulator.qmp.execute("device_add", &arguments).map(drop)
    }

    /// Returns the emulator's control connection, for commands that have no method here.
    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.emulator.qmp
    }

    /// Returns the path and the end of the console's output, for messages.
    fn console(&self) -> String {
        let path = self.directory.join("console.log");
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let end = &lines[lines.len().saturating_sub(8)..];
        format!(
            "{}: console in {}, its end:\n  {}",
            self.machine.name,
            path.display(),
            end.join("\n  ")
        )
    }
}

fn forget_jobs(exchange: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(exchange)? {
        let path = entry?.path();
        let numbered =
            path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok()).is_some();
        if numbered {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
