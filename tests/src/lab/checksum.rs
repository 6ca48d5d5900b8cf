//! Scripts that write random data and compare them by checksum.

/// Script that writes random data to `file`, through to the medium, and prints their checksum.
#[must_use]
pub fn write(file: &str, mebibytes: u32) -> String {
    format!(
        "dd if=/dev/urandom of={file} bs=1M count={mebibytes} conv=fsync status=none\n{}",
        read(file)
    )
}

/// Script that prints the checksum of `file`.
#[must_use]
pub fn read(file: &str) -> String {
    // The page cache is dropped first: the checksum must be that of the medium.
    format!("echo 1 > /proc/sys/vm/drop_caches\nsha256sum < {file} | cut -d' ' -f1\n")
}
