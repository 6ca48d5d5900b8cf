//! Plans the symbolic links of an index tree, one per compute.

use std::collections::BTreeMap;

use super::Rejection;
use crate::{
    Step,
    desired::{IndexLink, IndexTree},
    observed::{Observed, PathState, TreeEntry, TreeState},
};

pub(super) fn show(tree: &IndexTree, observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let root = || tree.root.clone();
    let state = observed.tree.clone().unwrap_or_default();
    let links = by_name(tree)?;
    let mut steps = match state.path {
        PathState::Absent => vec![Step::CreateDirectory { path: root() }],
        PathState::Directory { .. } => Vec::new(),
        path => return Err(Rejection::through(&tree.root, &path)),
    };
    for (name, link) in &links {
        match state.entries.get(*name) {
            Some(TreeEntry::Link(text)) if text == link.target() => {}
            Some(TreeEntry::Other) => {
                return Err(Rejection::NotALink { root: root(), name: (*name).to_owned() });
            }
            Some(TreeEntry::Link(_)) | None => {
                steps.push(Step::Link { root: root(), link: (*link).clone() });
            }
        }
    }
    steps.extend(
        ours(&state_entries(observed))
            .filter(|name| !links.contains_key(name.as_str()))
            .map(|name| Step::Unlink { root: root(), name }),
    );
    Ok(steps)
}

pub(super) fn hide(tree: &IndexTree, observed: &Observed) -> Vec<Step> {
    let Some(TreeState { path: PathState::Directory { .. }, entries }) = &observed.tree else {
        return Vec::new();
    };
    let links: Vec<_> = ours(entries).collect();
    let empty = links.len() == entries.len();
    let mut steps: Vec<_> =
        links.into_iter().map(|name| Step::Unlink { root: tree.root.clone(), name }).collect();
    if empty {
        steps.push(Step::RemoveDirectory { path: tree.root.clone() });
    }
    steps
}

fn by_name(tree: &IndexTree) -> Result<BTreeMap<&str, &IndexLink>, Rejection> {
    let mut links = BTreeMap::new();
    for link in &tree.links {
        let name = link.compute().as_str();
        if links.insert(name, link).is_some() {
            return Err(Rejection::DuplicateLink {
                root: tree.root.clone(),
                name: name.to_owned(),
            });
        }
    }
    Ok(links)
}

fn state_entries(observed: &Observed) -> BTreeMap<String, TreeEntry> {
    observed.tree.as_ref().map(|tree| tree.entries.clone()).unwrap_or_default()
}

/// Returns the names of the links that Warren made. A link counts as Warren's if it leads to a name in the same
/// directory; users cannot add such links, because only root can write in a tree's root.
fn ours(entries: &BTreeMap<String, TreeEntry>) -> impl Iterator<Item = String> {
    entries
        .iter()
        .filter(|(_, entry)| matches!(entry, TreeEntry::Link(text) if !text.contains('/') && text != ".."))
        .map(|(name, _)| name.clone())
        .collect::<Vec<_>>()
        .into_iter()
}
