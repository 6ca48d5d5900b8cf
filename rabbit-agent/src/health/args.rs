//! Command line options for health checks.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use fence::chassis::SLOTS;
use storage_linux::health::Port;

/// Options for health checks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Health")]
pub struct HealthArgs {
    /// Time between checks of the drives' SMART logs, whose changes drives do not announce, e.g. 30m; 0 for never
    #[arg(long, env = "WARREN_DRIVE_CHECK", value_name = "TIME", default_value = "1h", value_parser = every)]
    pub drive_check: Duration,
    /// Time between checks of the links at a rabbit's PCIe switches, whose changes the switches do not announce, e.g.
    /// 5s; 0 for never. Without effect where there is no switch
    #[arg(long, env = "WARREN_LINK_CHECK", value_name = "TIME", default_value = "5s", value_parser = every)]
    pub link_check: Duration,
    /// A compute's index and its PCI slot or function, where no PCIe switch reports the link, e.g.
    /// 3=/sys/bus/pci/slots/7 or 3=0000:41:00.0; repeat for several. A bridge stands for the devices behind it. While
    /// no device is there, the compute is Offline
    #[arg(long = "compute-link", env = "WARREN_COMPUTE_LINKS", value_name = "INDEX=PORT", value_delimiter = ',', value_parser = compute_link)]
    pub compute_links: Vec<(u8, Port)>,
    /// Number of drive slots in the chassis; empty ones are shown as NotPresent
    #[arg(long, env = "WARREN_DRIVE_SLOTS", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub drive_slots: u16,
}

/// Sources and periods of the health checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthConfig {
    /// Time between two checks if no event comes; `None` for no such checks.
    pub every: Option<Duration>,
    /// Time between two checks of the links at PCIe switches; `None` for no such checks.
    pub links_every: Option<Duration>,
    /// PCI ports of computes, by slot.
    pub ports: BTreeMap<u8, Port>,
    /// Number of slots for drives; 0 when unknown.
    pub drive_slots: u16,
}

impl HealthArgs {
    /// Checks the options. If a compute has two ports, fails with the compute's index.
    pub fn check(self) -> Result<HealthConfig, u8> {
        let mut ports = BTreeMap::new();
        for (slot, port) in self.compute_links {
            if ports.insert(slot, port).is_some() {
                return Err(slot);
            }
        }
        let unless_never = |every: Duration| Some(every).filter(|every| !every.is_zero());
        Ok(HealthConfig {
            every: unless_never(self.drive_check),
            links_every: unless_never(self.link_check),
            ports,
            drive_slots: self.drive_slots,
        })
    }
}

/// Parses a duration as Go's time.ParseDuration does: `1h30m`, `1.5h`, `90s`, `0`. The longest duration is a week.
fn every(text: &str) -> Result<Duration, &'static str> {
    const USE: &str =
        "use a time like 1h, 1h30m or 90s of at least a second and at most a week, or 0 for never";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or(USE)?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(USE),
        };
        seconds += number.parse::<f64>().map_err(|_| USE)? * unit;
        rest = after;
    }
    let is_sane = seconds == 0.0 || (1.0..=7.0 * 86_400.0).contains(&seconds);
    if !is_sane || text.is_empty() {
        return Err(USE);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| USE)
}

fn compute_link(text: &str) -> Result<(u8, Port), String> {
    const USE: &str = "use INDEX=PORT with an index from 0 to 15, e.g. 3=/sys/bus/pci/slots/7";
    let (index, port) = text.split_once('=').ok_or(USE)?;
    let index = index.parse().ok().filter(|index| *index < SLOTS).ok_or(USE)?;
    Ok((index, port.parse().map_err(|error: storage_linux::health::PortError| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_by_go() {
        for (text, seconds) in [
            ("1h", Some(3600)),
            ("1h30m", Some(5400)),
            ("1.5h", Some(5400)),
            ("60s", Some(60)),
            ("2000ms", Some(2)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("60", None),
            ("1x", None),
            ("h", None),
            ("-1h", None),
            ("10ms", None),
            ("1000h", None),
        ] {
            assert_eq!(every(text).ok(), seconds.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn a_compute_with_two_links_is_rejected() {
        let args = |links: &[&str]| HealthArgs {
            drive_check: Duration::ZERO,
            link_check: Duration::from_secs(5),
            compute_links: links.iter().map(|link| compute_link(link).unwrap()).collect(),
            drive_slots: 18,
        };
        let config = args(&["3=/sys/bus/pci/slots/7", "0=0000:41:00.0"]).check().unwrap();
        assert_eq!(config.ports.keys().copied().collect::<Vec<_>>(), [0, 3]);
        assert_eq!((config.every, config.drive_slots), (None, 18));
        assert_eq!(args(&["3=0000:41:00.0", "3=0000:42:00.0"]).check(), Err(3));
        for (text, expected) in
            [("16=0000:41:00.0", "from 0 to 15"), ("x", "INDEX=PORT"), ("3=eth0", "\"eth0\"")]
        {
            let error = compute_link(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
