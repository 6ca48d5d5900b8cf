//! Lists the lock spaces of volume groups, and makes lvmlockd leave a lock space.

use std::{
    io,
    time::{Duration, Instant},
};

use process::{Cmd, hung::lock_spaces};
use storage::host::StepError;

use block_devices::busy::pause_for;

/// Interval between checks whether the node has left a lock space: lvmlockd answers before the node has left.
const LEFT_EVERY: Duration = Duration::from_millis(50);

/// Returns the volume groups whose lock space this node has joined. lvmlockd names the lock space of a group
/// `lvm_<group>` (lvm2, daemons/lvmlockd/lvmlockd-core.c); lock spaces with other names belong to other programs.
pub(super) fn groups() -> io::Result<Vec<String>> {
    let spaces = lock_spaces()?;
    Ok(spaces.iter().filter_map(|space| space.strip_prefix("lvm_").map(str::to_owned)).collect())
}

/// Makes lvmlockd leave the lock space of a group that LVM no longer finds (lvmlockctl(8), `--drop`), and waits until
/// the kernel has left it. `vgchange --lock-stop` refuses such a group.
pub(super) fn drop_group(group: &str, deadline: Duration) -> Result<(), StepError> {
    Cmd::new(["lvmlockctl", "--drop", group]).run(deadline)?;
    let failed = StepError::system("lvmlockctl --drop", group);
    let until = Instant::now() + deadline;
    while groups().map_err(failed)?.iter().any(|name| name == group) {
        if Instant::now() >= until {
            let text =
                "the command succeeded, but the lock space still exists: see lvmlockctl --info";
            return Err(failed(io::Error::other(text)));
        }
        pause_for(LEFT_EVERY);
    }
    Ok(())
}
