use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use control_plane::Process;

use crate::program::until;

use super::{port::Port, qmp::Qmp};

/// The emulator of a running guest, with the connections for control (QMP) and for the shell.
#[derive(Debug)]
pub(super) struct Emulator {
    program: PathBuf,
    arguments: Vec<String>,
    process: Process,
    pub(super) port: Port,
    pub(super) qmp: Qmp,
}

impl Emulator {
    /// Starts the emulator; `directory` has the sockets that its arguments name.
    pub(super) fn start(
        program: PathBuf,
        arguments: Vec<String>,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let (process, port, qmp) = start(&program, &arguments, directory)?;
        Ok(Self { program, arguments, process, port, qmp })
    }

    /// Kills the emulator with SIGKILL, and starts another emulator with the same arguments.
    pub(super) fn restart(&mut self, directory: &Path) -> anyhow::Result<()> {
        self.process.kill();
        (self.process, self.port, self.qmp) = start(&self.program, &self.arguments, directory)?;
        Ok(())
    }
}

fn start(
    program: &Path,
    arguments: &[String],
    directory: &Path,
) -> anyhow::Result<(Process, Port, Qmp)> {
    let log = directory.join("qemu.log");
    let mut process = Process::start(program, arguments, &log)?;
    let mut connect = |socket: &str| connect(&mut process, &directory.join(socket), &log);
    let qmp = Qmp::new(connect("qmp.sock")?).with_context(|| describe_end(&log))?;
    let port = Port::new(connect("shell.sock")?)?;
    Ok((process, port, qmp))
}

fn connect(process: &mut Process, socket: &Path, log: &Path) -> anyhow::Result<UnixStream> {
    until(&format!("the emulator; see {}", log.display()), Duration::from_secs(20), || {
        if process.has_ended() {
            return Ok(Err(anyhow::anyhow!(describe_end(log))));
        }
        Ok(Ok(UnixStream::connect(socket).context("connect")?))
    })?
}

fn describe_end(log: &Path) -> String {
    format!("the emulator ended: {}", fs::read_to_string(log).unwrap_or_default().trim_end())
}
