//! Finds mappings that remain when an LVM command is killed while it activates or deactivates a volume.
//!
//! A mapping without a table is only in device-mapper's own list: the kernel shows a block device from its first table
//! on (Linux drivers/md/dm.c, `dm_setup_md_queue`). LVM continues with the volume's own mapping, and resumes a
//! suspended mapping, but refuses a RAID while mappings of its parts exist without the RAID's.

use std::time::Duration;

use super::{cmd::Cmd, mapped};
use crate::{
    desired::Volume,
    host::{CommandError, ObserveError},
    observed::{Activation, DeviceNumber, Unfinished},
};

/// Columns for dmsetup(8), separated by tabs: libdm escapes tabs in names.
const COLUMNS: &str = "name,major,minor,tables_loaded,suspended,open";

/// The line that dmsetup prints instead of an empty list.
const NOTHING: &str = "No devices found";

/// A line of `dmsetup info --columns`.
struct Row {
    name: String,
    number: DeviceNumber,
    is_live: bool,
    is_suspended: bool,
    is_open: bool,
}

/// Returns the leftover mappings of `volume`, whose device cannot be used.
pub(super) fn activation(volume: &Volume, deadline: Duration) -> Result<Activation, ObserveError> {
    let wanted = volume.mapper_name();
    let rows = rows(deadline)?;
    Ok(leftovers_of(&wanted, rows))
}

/// Returns the mappings of an active RAID's parts that the RAID does not use.
pub(super) fn beside(volume: &Volume, deadline: Duration) -> Result<Vec<Unfinished>, ObserveError> {
    Ok(beside_of(&volume.mapper_name(), rows(deadline)?))
}

/// Returns the number of the mapping with that name.
pub(super) fn number_of(
    name: &str,
    deadline: Duration,
) -> Result<Option<DeviceNumber>, ObserveError> {
    Ok(rows(deadline)?.into_iter().find(|row| row.name == name).map(|row| row.number))
}

fn rows(deadline: Duration) -> Result<Vec<Row>, ObserveError> {
    let output = list(deadline)?;
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
        // The volume became active since the first check; the next observation sees it.
        Some(own) if own.is_live => Activation::Inactive,
        own => Activation::of_leftovers(own.into_iter().chain(parts).map(leftover).collect()),
    }
}

/// Returns the mappings of parts that are not open: the RAID has the parts open that it uses.
fn beside_of(volume: &str, rows: Vec<Row>) -> Vec<Unfinished> {
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

    /// Outputs of dmsetup 1.02.185 after `lvchange` was killed before each of its calls.
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
    fn an_active_volume_has_no_leftovers_and_a_suspended_one_is_resumed_by_lvm() {
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
        assert_eq!(beside_of("vg-lv", parsed_rows(&rows)), [new]);
    }

    #[test]
    fn malformed_rows_are_errors() {
        assert!(row("vg-lv\t253\t0\tLive").is_err());
        assert!(row("vg-lv:253:0:Live:Active").is_err(), "not as an empty list");
        assert!(row("vg-lv\tx\t0\tLive\tActive\t0").is_err());
    }
}
