//! Reads the kernel's log (Documentation/ABI/testing/dev-kmsg). When a file system refuses a mount, it logs a reason
//! that the errno does not show.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use block_devices::mount_table::number;

/// Maximum bytes of a record (`PRINTK_MESSAGE_MAX`); each read returns one record.
const RECORD: usize = 8192;
/// Maximum lines of the kernel's log in an error message: the kernel may log dozens of lines about one damaged file
/// system.
const LINES: usize = 3;
/// Maximum records read: the kernel may log faster than this module reads.
const RECORDS: usize = 4096;

/// The kernel's log since [`KernelLog::from_now`] was called; empty where the log cannot be read.
#[derive(Debug)]
pub(super) struct KernelLog(Option<File>);

impl KernelLog {
    pub(super) fn from_now() -> Self {
        let open = || -> io::Result<File> {
            let mut log =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
            log.seek(SeekFrom::End(0))?;
            Ok(log)
        };
        Self(open().ok())
    }

    /// Returns the first lines about `source` since [`KernelLog::from_now`] was called. Most lines name a device as the
    /// kernel does, `dm-3`, and not by its path.
    pub(super) fn lines_about(mut self, source: &str) -> Vec<String> {
        let device = device_name(source);
        let is_wanted = |line: &String| is_about(line, source, device.as_deref());
        let records = std::iter::from_fn(|| self.record()).take(RECORDS);
        records.filter(is_wanted).take(LINES).collect()
    }

    fn record(&mut self) -> Option<String> {
        let mut bytes = [0; RECORD];
        loop {
            match self.0.as_mut()?.read(&mut bytes) {
                Ok(length) => return Some(text(&String::from_utf8_lossy(&bytes[..length]))),
                // The oldest records were overwritten meanwhile.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// Returns the message of a record: the text from the `;` that ends the record's numbers to the end of the line.
fn text(record: &str) -> String {
    let (_, message) = record.split_once(';').unwrap_or_default();
    message.lines().next().unwrap_or_default().to_owned()
}

/// Returns whether a line names the device as file systems do, `XFS (dm-3): …`, or contains the text of `source`.
fn is_about(line: &str, source: &str, device: Option<&str>) -> bool {
    line.contains(source) || device.is_some_and(|device| line.contains(&format!("({device}): ")))
}

/// Returns the kernel's name of a block device.
fn device_name(source: &str) -> Option<String> {
    let device = fs::metadata(source).ok()?.rdev();
    let link = Path::new("/sys/dev/block").join(number(device).to_string());
    Some(fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_about_recognises_lines_by_the_device_or_the_source_that_they_name() {
        let record = "3,1187,1378355952,-;XFS (loop1): Filesystem has duplicate UUID 6e033c73 - can't mount\n SUBSYSTEM=block\n";
        let line = text(record);
        assert_eq!(line, "XFS (loop1): Filesystem has duplicate UUID 6e033c73 - can't mount");
        assert!(is_about(&line, "/dev/loop1", Some("loop1")));
        assert!(!is_about(&line, "/dev/loop11", Some("loop11")));
        assert!(!is_about(&line, "10.0.0.1@tcp:/aaaaaaaa", None));
        let lustre = "LustreError: 1431:0:(tgt_mount.c:2446:server_fill_super()) Unable to start osd on pool-a-ost-1/ost: -114";
        assert!(is_about(lustre, "pool-a-ost-1/ost", None));
    }

    #[test]
    fn device_name_returns_none_for_a_source_that_is_no_block_device() {
        assert_eq!(device_name("/dev/null"), None);
        assert_eq!(device_name("10.0.0.1@tcp:/aaaaaaaa"), None);
    }
}
