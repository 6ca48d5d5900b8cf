use std::fmt::Write as _;

/// Script that writes `bytes` random bytes to `file`, through to the medium, and prints their checksum.
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
    let mut script = String::new();
    // Not from memory: what the medium has is what counts.
    let _ = writeln!(script, "echo 1 > /proc/sys/vm/drop_caches");
    let _ = writeln!(script, "sha256sum < {file} | cut -d' ' -f1");
    script
}
