//! Reads a PCI function's link and its errors (Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-pci-devices-aer).

use std::{io, path::Path};

use storage::health::{Link, LinkErrors, LinkRate};

use drives::nvme::attribute;

/// Reads an attribute. Tests pass a function that returns kernel errors which no file can cause.
type Read<'a> = &'a dyn Fn(&Path, &str) -> io::Result<Option<String>>;

/// Reads the link above a function. The registers of a function that cannot be reached read as all ones, which the
/// kernel shows as `Unknown`.
pub(super) fn link(function: &Path) -> io::Result<Link> {
    link_by(&attribute, function)
}

fn link_by(read: Read<'_>, function: &Path) -> io::Result<Link> {
    let speed = match read(function, "current_link_speed") {
        Err(error) if is_out_of_reach(&error) => return Ok(Link::Down),
        other => other?,
    };
    let Some(speed) = speed else {
        let is_present = function.join("vendor").exists();
        return Ok(if is_present { Link::Up { current: None, most: None } } else { Link::Down });
    };
    if speed.starts_with("Unknown") {
        return Ok(Link::Down);
    }
    let current = rate(read, function, "current")?;
    let (own, port) = (rate(read, function, "max")?, upstream(read, function)?);
    let most = match (own, port) {
        (Some(own), Some(port)) => Some(own.common(port)),
        (own, port) => own.or(port),
    };
    Ok(Link::Up { current, most })
}

/// Returns whether the kernel could not reach the function's registers, for example because the device is
/// disconnected but not removed yet (`current_link_speed_show`, drivers/pci/pci-sysfs.c). Any other error says
/// nothing about the link.
fn is_out_of_reach(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Reads the rate of the port above a function; `None` for a function on the root complex.
fn upstream(read: Read<'_>, function: &Path) -> io::Result<Option<LinkRate>> {
    let real = function.canonicalize()?;
    real.parent().map_or(Ok(None), |port| rate(read, port, "max"))
}

fn rate(read: Read<'_>, function: &Path, which: &str) -> io::Result<Option<LinkRate>> {
    let transfers = read(function, &format!("{which}_link_speed"))?;
    let lanes = read(function, &format!("{which}_link_width"))?;
    let rate =
        transfers.as_deref().and_then(transfers_of).zip(lanes.and_then(|lanes| lanes.parse().ok()));
    Ok(rate.filter(|(_, lanes)| *lanes > 0).map(|(transfers, lanes)| LinkRate { transfers, lanes }))
}

/// Parses a speed like `16.0 GT/s PCIe` (pci_speed_string, drivers/pci/probe.c) as megatransfers per second.
fn transfers_of(text: &str) -> Option<u32> {
    let (whole, tenth) = text.strip_suffix(" GT/s PCIe")?.split_once('.')?;
    let (whole, tenth) = (whole.parse::<u32>().ok()?, tenth.parse::<u32>().ok()?);
    whole.checked_mul(1000)?.checked_add(tenth.checked_mul(100)?)
}

/// Reads the error counters of a function; `None` where the kernel or the function has none.
pub(super) fn errors(function: &Path) -> io::Result<Option<LinkErrors>> {
    let total = |file: &str, label: &str| -> io::Result<Option<u64>> {
        let text = attribute(function, file)?.unwrap_or_default();
        Ok(text.lines().find_map(|line| line.strip_prefix(label)?.trim().parse().ok()))
    };
    let correctable = total("aer_dev_correctable", "TOTAL_ERR_COR")?;
    let nonfatal = total("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL")?;
    let fatal = total("aer_dev_fatal", "TOTAL_ERR_FATAL")?;
    Ok(match (correctable, nonfatal, fatal) {
        (Some(correctable), Some(nonfatal), Some(fatal)) => {
            Some(LinkErrors { correctable, nonfatal, fatal })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(at: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(at).unwrap();
        for (name, text) in files {
            fs::write(at.join(name), text).unwrap();
        }
    }

    fn rates(
        speed: &str,
        width: &str,
        most_speed: &str,
        most_width: &str,
    ) -> Vec<(&'static str, String)> {
        vec![
            ("current_link_speed", format!("{speed}\n")),
            ("current_link_width", format!("{width}\n")),
            ("max_link_speed", format!("{most_speed}\n")),
            ("max_link_width", format!("{most_width}\n")),
        ]
    }

    fn put_rates(at: &Path, rates: &[(&'static str, String)]) {
        let rates: Vec<_> = rates.iter().map(|(name, text)| (*name, text.as_str())).collect();
        put(at, &rates);
    }

    #[test]
    fn the_best_rate_of_a_link_is_the_best_that_both_ends_support() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("0000:00:04.0");
        let function = port.join("0000:03:00.0");
        put_rates(&port, &rates("8.0 GT/s PCIe", "2", "16.0 GT/s PCIe", "8"));
        put_rates(&function, &rates("8.0 GT/s PCIe", "2", "32.0 GT/s PCIe", "4"));
        let rate = |transfers, lanes| Some(LinkRate { transfers, lanes });
        let Link::Up { current, most } = link(&function).unwrap() else { panic!("it is up") };
        assert_eq!((current, most), (rate(8000, 2), rate(16_000, 4)));
        assert!(current.unwrap().is_less_than(most.unwrap()));
        assert_eq!(most.unwrap().to_string(), "16.0 GT/s x4");
        assert_eq!(transfers_of("2.5 GT/s PCIe"), Some(2500));
    }

    #[test]
    fn a_link_of_unknown_speed_is_down_and_a_link_without_a_speed_is_up() {
        let root = tempfile::tempdir().unwrap();
        let (lost, old) = (root.path().join("lost"), root.path().join("old"));
        put_rates(&lost, &rates("Unknown", "63", "32.0 GT/s PCIe", "4"));
        assert_eq!(link(&lost).unwrap(), Link::Down);
        put(&old, &[("vendor", "0x8086\n")]);
        assert_eq!(link(&old).unwrap(), Link::Up { current: None, most: None });
        assert_eq!(link(&root.path().join("none")).unwrap(), Link::Down);
    }

    #[test]
    fn an_unreachable_function_is_down_and_other_errors_are_returned() {
        let root = tempfile::tempdir().unwrap();
        put_rates(root.path(), &rates("8.0 GT/s PCIe", "2", "16.0 GT/s PCIe", "8"));
        let failing = |name: &'static str, errno| {
            let read = move |function: &Path, requested: &str| match requested == name {
                true => Err(io::Error::from_raw_os_error(errno)),
                false => attribute(function, requested),
            };
            link_by(&read, root.path())
        };
        assert_eq!(failing("current_link_speed", libc::EINVAL).unwrap(), Link::Down);
        for (name, errno) in [("current_link_speed", libc::EIO), ("max_link_speed", libc::EINVAL)] {
            assert_eq!(failing(name, errno).unwrap_err().raw_os_error(), Some(errno), "{name}");
        }
    }

    #[test]
    fn errors_returns_the_totals_of_the_counters() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(errors(root.path()).unwrap(), None);
        put(
            root.path(),
            &[
                ("aer_dev_correctable", "RxErr 2\nBadTLP 1\nTOTAL_ERR_COR 3\n"),
                ("aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n"),
                ("aer_dev_fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n"),
            ],
        );
        let counted = LinkErrors { correctable: 3, nonfatal: 0, fatal: 1 };
        assert_eq!(errors(root.path()).unwrap(), Some(counted));
    }
}
