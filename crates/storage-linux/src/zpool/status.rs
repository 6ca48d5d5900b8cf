//! Parses the output of zpool(8). Does no I/O.

use storage::observed::{FoundPool, Percent, PoolHealth};

/// Headings within a pool's configuration: the rows beneath a heading are devices, but the heading itself
/// is not a device.
const HEADINGS: [&str; 5] = ["logs", "cache", "spares", "special", "dedup"];

/// A device at the bottom of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) state: String,
    /// Whether ZFS will remove the device once its replacement has all of its data.
    pub(super) is_replaced: bool,
}

impl Leaf {
    pub(super) fn is_used(&self) -> bool {
        matches!(self.state.as_str(), "ONLINE" | "DEGRADED" | "AVAIL" | "INUSE")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) health: PoolHealth,
    pub(super) leaves: Vec<Leaf>,
    pub(super) resilvered: Option<Percent>,
}

pub(super) fn read_status(text: &str, pool: &str) -> Result<Status, String> {
    let state = text.lines().find_map(|line| line.trim_start().strip_prefix("state: "));
    let state = state.ok_or("it has no state")?;
    let rows = text
        .lines()
        .skip_while(|line| line.trim() != "config:")
        .skip_while(|line| !line.trim_start().starts_with("NAME "))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .collect::<Vec<_>>();
    let Some((first, below)) = rows.split_first() else { return Err("it has no config".into()) };
    if first.split_whitespace().next() != Some(pool) {
        return Err(format!("its config begins with {:?}", first.trim()));
    }
    let mut leaves = Vec::new();
    for (place, row) in below.iter().enumerate() {
        let has_below = below.get(place + 1).is_some_and(|next| depth(next) > depth(row));
        let mut words = row.split_whitespace();
        match (words.next(), words.next()) {
            (Some(name), None) if HEADINGS.contains(&name) => {}
            (Some(_), Some(_)) if has_below => {}
            (Some(name), Some(state)) => {
                let (name, state) = (name.to_owned(), state.to_owned());
                let above = parent(&below[..place], depth(row));
                let replacing = above.filter(|at| is_replacing(below[*at]));
                leaves.push((replacing, Leaf { name, state, is_replaced: false }));
            }
            _ => return Err(format!("its config has the line {:?}", row.trim())),
        }
    }
    let leaves = with_replaced(&leaves);
    Ok(Status {
        health: PoolHealth::parse(state.trim()),
        leaves,
        resilvered: read_resilvered(text),
    })
}

fn depth(row: &str) -> usize {
    row.len() - row.trim_start().len()
}

/// Returns the index of the parent of the next row, whose depth is `below`: the last row in `above`
/// with a smaller depth.
fn parent(above: &[&str], below: usize) -> Option<usize> {
    above.iter().rposition(|row| depth(row) < below)
}

/// Returns whether a row marks a replacement: until the replacement is complete, the rows beneath it are a lost device
/// and its replacement. The row of a hot spare (`spare-`) marks no replacement, because ZFS frees the spare again when
/// the lost device is replaced.
fn is_replacing(row: &str) -> bool {
    row.trim_start().starts_with("replacing-")
}

/// Marks the leaves that ZFS will remove. The number beside each leaf is the index of the row above it that marks a
/// replacement; `None` if no such row is above it.
fn with_replaced(leaves: &[(Option<usize>, Leaf)]) -> Vec<Leaf> {
    let is_replaced = |replacing: Option<usize>, leaf: &Leaf| {
        let mut siblings = leaves.iter().filter(|(other, _)| *other == replacing);
        replacing.is_some() && !leaf.is_used() && siblings.any(|(_, sibling)| sibling.is_used())
    };
    leaves
        .iter()
        .map(|(replacing, leaf)| Leaf {
            is_replaced: is_replaced(*replacing, leaf),
            ..leaf.clone()
        })
        .collect()
}

/// Reads the progress of a resilver; `None` when no resilver runs. While a replaced device is still in the pool
/// (`replacing`), the resilver is not complete, even if the scan has ended.
pub(super) fn read_resilvered(text: &str) -> Option<Percent> {
    let mut lines = text.lines().map(str::trim_start);
    let is_scanned = lines.any(|line| line.starts_with("scan: resilver in progress"));
    let is_replaced = || text.lines().any(|line| line.trim_start().starts_with("replacing-"));
    if !is_scanned {
        return is_replaced().then(Percent::default);
    }
    // `<bytes> resilvered, 12.34% done, 00:20:12 to go`
    let percent =
        lines.find_map(|line| line.split_once("% done")?.0.rsplit(' ').next()?.parse().ok());
    Some(percent.unwrap_or_default())
}

/// Parses names and states from the output of `zpool import`.
pub(super) fn read_found(text: &str) -> Result<Vec<FoundPool>, String> {
    let mut found: Vec<FoundPool> = Vec::new();
    let mut current = None;
    for line in text.lines() {
        match line.trim_start().split_once(": ") {
            Some(("pool", name)) => current = Some(name.trim().to_owned()),
            Some(("state", state)) => {
                let name = current.take().ok_or("a state comes before any pool")?;
                found.push(FoundPool { name, health: PoolHealth::parse(state.trim()) });
            }
            _ => {}
        }
    }
    current.map_or(Ok(found), |name| Err(format!("pool {name} has no state")))
}
