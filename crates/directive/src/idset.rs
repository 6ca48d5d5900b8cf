//! Id sets as Flux writes them (RFC 22): `0-3,5`, with or without brackets around the whole.

use std::collections::BTreeSet;

use thiserror::Error;

/// Largest number of ids in a set.
const MOST: u32 = 1 << 20;

/// Error: the text is not an id set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not an id set; write increasing numbers and ranges without leading zeros, as in 0-3,5"
)]
pub struct IdsetError(pub String);

/// Returns the ids of a set.
///
/// # Errors
/// When the text is not an id set, its numbers do not increase, or it has more than 1048576 ids.
pub fn parse(text: &str) -> Result<BTreeSet<u32>, IdsetError> {
    let wrong = || IdsetError(text.to_owned());
    let inner = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
    let (mut ids, mut next) = (BTreeSet::new(), Some(0));
    for range in inner.split(',').filter(|range| !range.is_empty()) {
        let (low, high) = bounds(range).ok_or_else(wrong)?;
        let is_next = next.is_some_and(|next| next <= low);
        if !is_next || high - low >= MOST {
            return Err(wrong());
        }
        ids.extend(low..=high);
        if ids.len() > MOST as usize {
            return Err(wrong());
        }
        next = high.checked_add(1);
    }
    Ok(ids)
}

/// Returns the first and the last id of a number or of a range. A range has at least two ids.
fn bounds(range: &str) -> Option<(u32, u32)> {
    match range.split_once('-') {
        None => number(range).map(|id| (id, id)),
        Some((low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            (low < high).then_some((low, high))
        }
    }
}

fn number(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain && !is_padded)
}

/// Returns ids as an id set without brackets.
#[must_use]
pub fn format(ids: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some((_, high)) if high.checked_add(1) == Some(id) => *high = id,
            _ => ranges.push((id, id)),
        }
    }
    let text = |(low, high): &(u32, u32)| {
        if low == high { low.to_string() } else { format!("{low}-{high}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
