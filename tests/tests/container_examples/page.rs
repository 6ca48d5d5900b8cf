//! Parses the page: the line before a fenced block says what the block is.

use anyhow::Context;

const PAGE: &str = include_str!("../../../docs/use/containers.md");
const FENCE: &str = "```";

/// A fenced block of an example.
#[derive(Debug)]
pub(crate) enum Block<'a> {
    /// Path and text of a file.
    File(&'a str, &'a str),
    /// Commands of an administrator.
    Commands(&'a str),
    /// Name of a compute, and the commands of the job on that compute.
    Job(&'a str, &'a str),
    /// Output of the commands before.
    Output(&'a str),
}

/// Returns the blocks below a heading.
pub(crate) fn example(title: &str) -> anyhow::Result<Vec<Block<'static>>> {
    let (_, rest) = PAGE.split_once(&format!("\n{title}\n")).with_context(|| title.to_owned())?;
    let text = rest.split("\n## ").next().and_then(|text| text.split("\n### ").next());
    let mut parts = text.context("a section")?.split(FENCE);
    let mut blocks = Vec::new();
    while let (Some(before), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').context("a block has lines")?;
        let line = before.trim_end().lines().next_back().unwrap_or_default();
        let name = line.split('`').nth(1).filter(|_| line.ends_with("`:"));
        blocks.push(match (name, language) {
            (Some(name), "sh") if line.starts_with("The job on ") => Block::Job(name, text),
            (Some(path), _) => Block::File(path, text),
            (None, "sh") => Block::Commands(text),
            (None, "text") => Block::Output(text),
            (None, other) => anyhow::bail!("a block of {other} that has no name: {text}"),
        });
    }
    Ok(blocks)
}
