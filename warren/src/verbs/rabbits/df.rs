//! Shows the bytes of each rabbit.

use cli::{Exit, Output};
use kube::{Client, ResourceExt};
use serde::Serialize;

use super::{iec, nodes, storages};
use crate::{args::workflow::Hosts, failure::Failure};

const HEADER: [&str; 5] = ["RABBIT", "SIZE", "ALLOCATED", "FREE", "USE"];

/// The bytes of one rabbit. Absent where the rabbit's agent has reported none yet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    rabbit: String,
    /// Bytes that namespaces occupy.
    allocated: Option<i64>,
    /// Bytes that a new allocation could get. Bytes of failed drives are neither free nor allocated.
    free: Option<i64>,
}

pub(super) async fn run(
    client: &Client,
    rabbits: &[Hosts],
    output: Output,
) -> Result<Exit, Failure> {
    let nodes = nodes(client, output).await?;
    let line = |rabbit: String| {
        let status = nodes.get(&rabbit).and_then(|node| node.status.as_ref());
        let allocated = status.map(|status| status.capacity_allocated);
        Line { rabbit, allocated, free: status.map(|status| status.capacity) }
    };
    let storages = storages(client, rabbits, output).await?;
    let lines: Vec<_> = storages.iter().map(|storage| line(storage.name_any())).collect();
    if output.is_json() {
        output.json(&lines)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = lines.iter().chain([&sum(&lines)]).map(row).collect();
    output.table(&HEADER.map(str::to_owned), &rows)?;
    Ok(Exit::Done)
}

fn sum(lines: &[Line]) -> Line {
    Line {
        rabbit: "all".to_owned(),
        allocated: Some(lines.iter().filter_map(|line| line.allocated).sum()),
        free: Some(lines.iter().filter_map(|line| line.free).sum()),
    }
}

fn row(line: &Line) -> Vec<String> {
    let Some((allocated, free)) = line.allocated.zip(line.free) else {
        return vec![line.rabbit.clone(), "unknown".to_owned()];
    };
    let size = allocated.saturating_add(free);
    let percent = if size == 0 { 0 } else { i128::from(allocated) * 100 / i128::from(size) };
    vec![line.rabbit.clone(), iec(size), iec(allocated), iec(free), format!("{percent} %")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_counts_only_what_is_known() {
        let line = |allocated, free| Line { rabbit: "r".to_owned(), allocated, free };
        let lines = [line(Some(1 << 40), Some(3 << 40)), line(None, None)];
        assert_eq!(row(&lines[1]), ["r", "unknown"]);
        assert_eq!(row(&sum(&lines)), ["all", "4.0 TiB", "1.0 TiB", "3.0 TiB", "25 %"]);
        assert_eq!(row(&sum(&[])), ["all", "0 B", "0 B", "0 B", "0 %"]);
    }
}
