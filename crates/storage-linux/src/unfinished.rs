//! Finds the mappings that remain when an LVM command was killed while it activated or deactivated a volume.
//!
//! Mappings without a table are visible only in device-mapper's own list (dmsetup(8)): the kernel adds a mapping to
//! sysfs as a block device when the mapping gets its first table (Linux drivers/md/dm.c, `dm_setup_md_queue`). When LVM
//! activates the volume again, it completes an unfinished mapping of the volume itself, and resumes a suspended
//! mapping. But LVM refuses to activate a RAID if mappings of its parts exist while the RAID's own mapping does not.

use std::time::Duration;

use causes::CommandError;
use process::Cmd;
use storage::{
    desired::Volume,
    host::ObserveError,
    observed::{Activation, DeviceNumber, Unfinished},
};

use super::mapped;

/// Columns for dmsetup(8), separated by tabs: libdm escapes tabs in names.
const COLUMNS: &str = "name,major,minor,tables_loaded,suspended,open";

/// The line that dmsetup prints instead of an empty list.
const NOTHING: &str = "No devices found";

/// Maximum number of times that dmsetup is started when devices disappear while it lists them.
const ATTEMPTS: u32 = 10;

/// A line of `dmsetup info --columns`.
struct Row {
    name: String,
    number: DeviceNumber,
    is_live: bool,
    is_suspended: bool,
    is_open: bool,
}

/// Returns the state of a volume whose device cannot be used, with its leftover mappings.
pub(super) fn activation(volume: &Volume, deadline: Duration) -> Result<Activation, ObserveError> {
    let wanted = volume.mapper_name();
    let rows = rows(deadline)?;
    Ok(leftovers_of(&wanted, rows))
}

/// Returns the mappings of an active RAID's parts that the RAID itself does not use.
pub(super) fn unused_raid_parts(
    volume: &Volume,
    deadline: Duration,
) -> Result<Vec<Unfinished>, ObserveError> {
    Ok(unused_parts_of(&volume.mapper_name(), rows(deadline)?))
}

/// Returns the number of the mapping with that name.
pub(super) fn number_of(
    name: &str,
    deadline: Duration,
) -> Result<Option<DeviceNumber>, ObserveError> {
    Ok(rows(deadline)?.into_iter().find(|row| row.name == name).map(|row| row.number))
}

fn rows(deadline: Duration) -> Result<Vec<Row>, ObserveError> {
    let output = whole_list(|| list(deadline))?;
    let text = String::from_utf8_lossy(&output);
    text.lines()
        .filter(|line| line.trim() != NOTHING)
        .map(row)
        .collect::<Result<_, _>>()
        .map_err(|why| ObserveError::Malformed { what: "output of dmsetup info".to_owned(), why })
}

fn list(deadline: Duration) -> Result<Vec<u8>, CommandError> {
    let columns =
        ["dmsetup", "info", "--columns", "--noheadings", "--separator", "\t", "-o", COLUMNS];
    Cmd::new(columns).output(deadline)
}

/// Lists the devices again if one of them went away meanwhile: dmsetup first reads the names and then each device, and
/// fails as a whole if another LVM command removed one of them in between.
fn whole_list(
    mut list: impl FnMut() -> Result<Vec<u8>, CommandError>,
) -> Result<Vec<u8>, CommandError> {
    (1..ATTEMPTS).map(|_| list()).find(|listed| !is_device_gone(listed)).unwrap_or_else(list)
}

fn is_device_gone(listed: &Result<Vec<u8>, CommandError>) -> bool {
    matches!(listed, Err(CommandError::Failed { stderr, .. }) if stderr.contains("Device does not exist"))
}

fn row(line: &str) -> Result<Row, String> {
    let fields: Vec<_> = line.split('\t').map(str::trim).collect();
    let [name, major, minor, tables, suspended, open] = fields[..] else {
        return Err(format!("{line:?} does not have six columns"));
    };
    let number = DeviceNumber::parse(&format!("{major}:{minor}"))
        .ok_or_else(|| format!("{line:?} names no device"))?;
    Ok(Row {
        name: name.to_owned(),
        number,
        is_live: matches!(tables, "Live" | "Both"),
        is_suspended: suspended == "Suspended",
        is_open: open != "0",
    })
}

fn leftovers_of(volume: &str, rows: Vec<Row>) -> Activation {
    let (own, parts): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .filter(|row| mapped::belongs_to(&row.name, volume))
        .partition(|row| row.name == volume);
    match own.into_iter().next() {
        Some(own) if own.is_live && own.is_suspended => Activation::Suspended(own.number),
        // [`mapped::state`] found the volume inactive, but it has become active meanwhile; the next observation sees
        // that.
        Some(own) if own.is_live => Activation::Inactive,
        own => Activation::of_leftovers(own.into_iter().chain(parts).map(leftover).collect()),
    }
}

/// Returns the mappings of parts that are not open: a RAID has all parts open that it uses.
fn unused_parts_of(volume: &str, rows: Vec<Row>) -> Vec<Unfinished> {
    let is_part = |row: &Row| row.name != volume && mapped::belongs_to(&row.name, volume);
    rows.into_iter().filter(|row| is_part(row) && !row.is_open).map(leftover).collect()
}

fn leftover(row: Row) -> Unfinished {
    Unfinished { name: row.name, number: row.number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_rows(lines: &[&str]) -> Vec<Row> {
        lines.iter().map(|line| row(line).unwrap()).collect()
    }

    fn leftovers(lines: &[&str]) -> Activation {
        leftovers_of("vg-lv", parsed_rows(lines))
    }

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 253, minor }
    }

    /// Outputs of dmsetup 1.02.185 after `lvchange` was killed, each time before a different one of its system calls.
    #[test]
    fn leftover_mappings_are_listed_from_top_to_bottom() {
        assert_eq!(leftovers(&["other-lv\t253\t0\tLive\tActive\t0"]), Activation::Inactive);
        let part = |name: &str, minor| Unfinished { name: name.to_owned(), number: number(minor) };
        let rows = ["vg-lv_rmeta_0\t253\t0\tNone\tActive\t0", "vg-lv2\t253\t9\tLive\tActive\t0"];
        assert_eq!(leftovers(&rows), Activation::Unfinished(vec![part("vg-lv_rmeta_0", 0)]));
        let rows =
            ["vg-lv_rimage_0\t253\t1\tLive\tActive\t0", "vg-lv\t253\t4\tInactive\tActive\t0"];
        let down = vec![part("vg-lv", 4), part("vg-lv_rimage_0", 1)];
        assert_eq!(leftovers(&rows), Activation::Unfinished(down));
    }

    #[test]
    fn leftovers_of_reports_an_active_volume_as_inactive_and_a_suspended_volume_as_suspended() {
        let part = "vg-lv_rimage_0\t253\t1\tLive\tSuspended\t0";
        assert_eq!(leftovers(&["vg-lv\t253\t4\tLive\tActive\t0", part]), Activation::Inactive);
        let still = leftovers(&["vg-lv\t253\t4\tLive\tSuspended\t0", part]);
        assert_eq!(still, Activation::Suspended(number(4)));
    }

    /// Output of dmsetup after `lvconvert --repair` was killed.
    #[test]
    fn new_parts_that_the_raid_does_not_use_are_listed() {
        let rows = [
            "vg-lv\t253\t6\tLive\tActive\t1",
            "vg-lv_rimage_1\t253\t5\tLive\tActive\t1",
            "vg-lv_rimage_1-missing_0_0\t253\t4\tLive\tActive\t1",
            "vg-lv_rmeta_2\t253\t7\tNone\tActive\t0",
            "vg-lv2_rmeta_2\t253\t8\tNone\tActive\t0",
        ];
        let new = Unfinished { name: "vg-lv_rmeta_2".to_owned(), number: number(7) };
        assert_eq!(unused_parts_of("vg-lv", parsed_rows(&rows)), [new]);
    }

    fn failed(stderr: &str) -> Result<Vec<u8>, CommandError> {
        let (command, status) = ("dmsetup info".to_owned(), "exit status: 1".to_owned());
        Err(CommandError::Failed { command, status, stderr: stderr.to_owned() })
    }

    #[test]
    fn devices_are_listed_again_if_one_went_away_meanwhile() {
        let mut answers =
            vec![Ok(b"list".to_vec()), failed("Device does not exist.\nCommand failed.")];
        assert_eq!(whole_list(|| answers.pop().unwrap()).unwrap(), b"list");
        let mut attempts = 0;
        let refused = whole_list(|| {
            attempts += 1;
            failed("Permission denied")
        });
        assert!(refused.is_err() && attempts == 1, "{attempts} attempts");
        let never_whole = whole_list(|| {
            attempts += 1;
            failed("Device does not exist.")
        });
        assert!(never_whole.is_err() && attempts == 1 + ATTEMPTS, "{attempts} attempts");
    }

    #[test]
    fn malformed_rows_are_errors() {
        assert!(row("vg-lv\t253\t0\tLive").is_err());
        assert!(row("vg-lv:253:0:Live:Active").is_err(), "a malformed row is not an empty list");
        assert!(row("vg-lv\tx\t0\tLive\tActive\t0").is_err());
    }
}
