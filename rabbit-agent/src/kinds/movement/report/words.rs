//! Formats numbers for status and messages.

use api::nnf_data_movement::DataMovementFailure;
use bytesize::ByteSize;
use k8s_openapi::jiff::Timestamp;
use movement::report::Progress;

use super::LISTED;

/// Formats bytes in powers of 1,024, such as `1.2 GiB`.
pub(super) fn bytes(number: u64) -> String {
    ByteSize(number).display().iec().to_string()
}

/// Returns the seconds between two moments; 0 when the clock was set back.
pub(super) fn seconds(at: Timestamp, since: Timestamp) -> f64 {
    at.duration_since(since).as_secs_f64().max(0.0)
}

/// Formats a duration in whole seconds, as Go does: `1m3s`.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = truncated(seconds);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Returns the bytes per second since the process started, without those that earlier processes copied; `None` in the
/// first second, or while nothing was copied.
pub(super) fn rate(progress: &Progress, seconds: f64) -> Option<u64> {
    let copied = progress.bytes.saturating_sub(progress.kept);
    (seconds >= 1.0 && copied > 0).then(|| truncated(as_f64(copied) / seconds))
}

/// Returns the percentage of copied bytes, or of copied files if all files are empty; `None` until `datamover` has
/// counted the source. At most 99: only success is 100.
pub(super) fn percent(progress: &Progress) -> Option<i64> {
    let total = progress.total?;
    let (done, all) = match total.bytes {
        0 => (progress.files, total.files),
        all => (progress.bytes, all),
    };
    let percent = u128::from(done) * 100 / u128::from(all.max(1));
    i64::try_from(percent).ok().map(|percent| percent.min(99))
}

/// Formats progress for a message, such as `63 %, 1.2 GiB of 1.9 GiB, 800.0 MiB/s, about 40s left`.
pub(super) fn progress(
    progress: &Progress,
    percent: Option<i64>,
    rate: Option<u64>,
    is_whole: bool,
) -> String {
    let mut parts: Vec<String> =
        percent.map(|percent| format!("{percent} %")).into_iter().collect();
    parts.push(match progress.total {
        Some(total) if !is_whole && total.bytes > 0 => {
            format!("{} of {}", bytes(progress.bytes), bytes(total.bytes))
        }
        Some(total) if !is_whole => format!("{} of {} files", progress.files, total.files),
        Some(_) => bytes(progress.bytes),
        None => format!("{} so far", bytes(progress.bytes)),
    });
    parts.extend(rate.map(|rate| format!("{}/s", bytes(rate))));
    parts.extend(time_left(progress, rate).filter(|_| !is_whole));
    if progress.failed > 0 {
        parts.push(format!("{} not copied", progress.failed));
    }
    parts.join(", ")
}

/// Formats the time until all bytes are copied at this rate; `None` if it is unknown or shorter than a second.
fn time_left(progress: &Progress, rate: Option<u64>) -> Option<String> {
    let bytes_left = progress.total?.bytes.saturating_sub(progress.bytes);
    let seconds = bytes_left.checked_div(rate?)?;
    (seconds > 0).then(|| format!("about {} left", duration(as_f64(seconds))))
}

/// Formats the number of files and directories that were not copied, and the first of them.
pub(super) fn failures(count: u64, first: &[DataMovementFailure]) -> String {
    let listed: Vec<_> = first.iter().take(LISTED).map(failure).collect();
    let more = count.saturating_sub(u64::try_from(listed.len()).unwrap_or(u64::MAX));
    let more =
        if more > 0 && !listed.is_empty() { format!("; and {more} more") } else { String::new() };
    let noun = if count == 1 { "file or directory was" } else { "files or directories were" };
    format!("{count} {noun} not copied: {}{more}", listed.join("; "))
}

fn failure(failure: &DataMovementFailure) -> String {
    let DataMovementFailure { path, action, error, .. } = failure;
    format!("{} ({action}): {error}", causes::quoted(path))
}

/// Formats a warning about files that changed while they were copied; empty if there are none.
pub(super) fn changed(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "1 file changed while it was copied".to_owned(),
        count => format!("{count} files changed while they were copied"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "people read three digits")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "fractions are dropped"
)]
fn truncated(number: f64) -> u64 {
    number as u64
}
