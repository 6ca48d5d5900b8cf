//! Scripts that write random data and compare them by checksum.

/// Returns a script that writes random data to `file`, waits until they are on the medium, and prints their checksum.
#[must_use]
pub fn write(file: &str, mebibytes: u32) -> String {
    format!(
        "dd if=/dev/urandom of={file} bs=1M count={mebibytes} conv=fsync status=none\n{}",
        read(file)
    )
}

/// Returns a script that prints the checksum of `file`.
#[must_use]
pub fn read(file: &str) -> String {
    // Drops the page cache first, so that the checksum is that of the data on the medium.
    format!("echo 1 > /proc/sys/vm/drop_caches\nsha256sum < {file} | cut -d' ' -f1\n")
}
