//! Sums up the progress of a directive's copies for the Workflow's message. Each change of the text writes the Workflow's
//! status, so the figures are coarse.

use std::collections::BTreeSet;

use api::NnfDataMovement;

use crate::progress::some_of;

/// Bytes of one movement, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    copied: u64,
    total: u64,
    /// Seconds until the last movement ends, if its rate is known.
    seconds_left: Option<u64>,
}

/// Returns the progress of copies as a text, such as `copies on rabbit-1: 63 %, 1.2 of 1.9 TiB, 0 of 2 ended, about 40 s
/// left`. `failed` is the number of failed movements among those that have ended.
pub(super) fn progress_text(
    running: &[&NnfDataMovement],
    ended: &[&NnfDataMovement],
    failed: usize,
) -> String {
    let all = running.len() + ended.len();
    let figures = sum(running.iter().chain(ended).copied());
    let percent = figures.and_then(percent_of_bytes).unwrap_or_else(|| mean(running, ended.len()));
    let mut parts = vec![format!("{percent} %")];
    parts.extend(figures.filter(|figures| figures.total > 0).map(|f| bytes(f.total, percent)));
    parts.push(format!("{} of {all} ended", ended.len()));
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    let left = figures.and_then(|figures| figures.seconds_left).filter(|seconds| *seconds > 0);
    parts.extend(left.map(|seconds| format!("about {} left", duration(seconds))));
    let rabbits = running.iter().filter_map(|movement| movement.metadata.namespace.as_deref());
    let names: BTreeSet<&str> = rabbits.collect();
    format!("copies on {}: {}", some_of(names), parts.join(", "))
}

/// Sums up the bytes of all movements; `None` until all of them have counted their source, and on systems whose CRDs
/// lack the fields.
fn sum<'a>(all: impl Iterator<Item = &'a NnfDataMovement>) -> Option<Figures> {
    all.map(figures).try_fold(Figures::default(), |sum, figures| {
        let figures = figures?;
        Some(Figures {
            copied: sum.copied.saturating_add(figures.copied),
            total: sum.total.saturating_add(figures.total),
            seconds_left: sum.seconds_left.max(figures.seconds_left),
        })
    })
}

fn figures(movement: &NnfDataMovement) -> Option<Figures> {
    let status = &movement.status.as_ref()?.command_status;
    let number = |field: Option<i64>| u64::try_from(field?).ok();
    let (copied, total) = (number(status.bytes)?, number(status.total_bytes)?);
    let rate = number(status.bytes_per_second).filter(|_| !movement.is_finished());
    let seconds_left = rate.and_then(|rate| total.saturating_sub(copied).checked_div(rate));
    Some(Figures { copied, total, seconds_left })
}

/// Returns the percentage of copied bytes, at most 99; `None` if all files are empty.
fn percent_of_bytes(figures: Figures) -> Option<u64> {
    let percent = u128::from(figures.copied) * 100
        / u128::from(Some(figures.total).filter(|total| *total > 0)?);
    u64::try_from(percent.min(99)).ok()
}

/// Returns the mean of the movements' own percentages.
fn mean(running: &[&NnfDataMovement], ended: usize) -> u64 {
    let percents = running.iter().map(|movement| movement.progress().unwrap_or(0).clamp(0, 100));
    let sum: u64 = percents.map(i64::unsigned_abs).sum();
    let count = |number: usize| u64::try_from(number).unwrap_or(0);
    (sum + 100 * count(ended)) / count(running.len() + ended).max(1)
}

/// Formats copied and all bytes in one unit. The copied bytes follow from the percentage, so that the text changes no
/// more often than the percentage.
fn bytes(total: u64, percent: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let power = usize::try_from(total.max(1).ilog2() / 10).unwrap_or(0).min(UNITS.len() - 1);
    // Tenths of the unit.
    let tenths = |bytes: u128| bytes * 10 / (1 << (10 * power));
    let (copied, all) =
        (tenths(u128::from(total) * u128::from(percent) / 100), tenths(total.into()));
    format!("{}.{} of {}.{} {}", copied / 10, copied % 10, all / 10, all % 10, UNITS[power])
}

/// Formats a duration with one digit, rounded up, so that it changes rarely.
fn duration(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3600 => (seconds.div_ceil(60), "min"),
        _ => (seconds.div_ceil(3600), "h"),
    };
    let step = if number > 10 { 10 } else { 1 };
    format!("{} {unit}", number.div_ceil(step) * step)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn movement(rabbit: &str, state: &str, figures: &Value) -> NnfDataMovement {
        from_value(json!({
            "metadata": {"name": "w-1-0", "namespace": rabbit},
            "spec": {"userId": 1, "groupId": 1},
            "status": {"state": state, "commandStatus": figures},
        }))
        .unwrap()
    }

    #[test]
    fn the_text_sums_up_bytes_and_names_the_longest_time_left() {
        const TIB: u64 = 1 << 40;
        let of = |rabbit, copied: u64, rate: u64| {
            let figures =
                json!({"bytes": copied, "totalBytes": TIB, "bytesPerSecond": rate, "progress": 1});
            movement(rabbit, "Running", &figures)
        };
        let (slow, fast) = (of("r1", TIB / 4, TIB / 100), of("r2", TIB / 2, TIB / 4));
        let ended = movement(
            "r3",
            "Finished",
            &json!({"bytes": TIB, "totalBytes": TIB, "bytesPerSecond": 1}),
        );
        assert_eq!(
            progress_text(&[&slow, &fast], &[&ended], 1),
            "copies on r1, r2: 58 %, 1.7 of 3.0 TiB, 1 of 3 ended, 1 failed, about 2 min left"
        );
    }

    #[test]
    fn the_text_has_the_mean_percentage_while_a_source_is_not_counted_or_is_empty() {
        let uncounted = movement("r1", "Running", &json!({"bytes": 5}));
        let half = movement("r2", "Running", &json!({"progress": 50}));
        assert_eq!(
            progress_text(&[&uncounted, &half], &[], 0),
            "copies on r1, r2: 25 %, 0 of 2 ended"
        );
        let empty =
            movement("r1", "Running", &json!({"bytes": 0, "totalBytes": 0, "progress": 40}));
        assert_eq!(progress_text(&[&empty], &[], 0), "copies on r1: 40 %, 0 of 1 ended");
    }

    #[test]
    fn figures_are_rounded_to_few_digits() {
        assert_eq!(bytes(1023, 50), "511.0 of 1023.0 B");
        assert_eq!(bytes(1536 << 20, 99), "1.4 of 1.5 GiB");
        let durations = [
            (1, "1 s"),
            (11, "20 s"),
            (60, "1 min"),
            (61, "2 min"),
            (700, "20 min"),
            (7201, "3 h"),
        ];
        for (seconds, text) in durations {
            assert_eq!(duration(seconds), text);
        }
    }
}
