//! The systemd scope of a `datamover` process: a cgroup of its own, so that an administrator sees and limits the
//! processor time, the memory and the I/O of each copy (systemd.resource-control(5)).

use std::path::Path;

use causes::CommandError;
use storage::desired::ObjectUid;

use super::args::MovementConfig;

/// Slice of all scopes. Its limits hold for all copies of the rabbit together.
const SLICE: &str = "warren-movements.slice";

/// Whether systemd is the init system of this host (sd_booted(3)). In a container it is not.
pub(super) fn is_systemd_running() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Returns the program and the arguments that start `datamover`. systemd-run(1) moves itself into the new scope and then
/// executes `datamover`: process number, standard input and standard output stay the same. `number` differs from process
/// to process that this agent starts for a movement. The agent's own process number makes the name differ from those of
/// an earlier agent: systemd may keep the name of an ended scope for a moment.
///
/// # Errors
/// When `datamover` does not exist: systemd-run would say so on its standard output only.
pub(super) fn command_line(
    config: &MovementConfig,
    uid: ObjectUid,
    number: u64,
) -> Result<(&Path, Vec<String>), CommandError> {
    let datamover = config.datamover.as_path();
    if !config.uses_scopes {
        return Ok((datamover, Vec::new()));
    }
    let program = datamover.display().to_string();
    datamover
        .metadata()
        .map_err(|source| CommandError::Start { program: program.clone(), source })?;
    let slice = format!("--slice={SLICE}");
    let unit = format!("--unit=warren-movement-{uid}-{}-{number}", std::process::id());
    let options = ["--scope", "--quiet", "--collect", &slice, &unit, "--", &program];
    Ok((Path::new("systemd-run"), options.map(str::to_owned).to_vec()))
}
