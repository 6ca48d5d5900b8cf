//! Which nodes have access to a block storage.

use api::NnfNodeBlockStorage;

/// Returns true if the block storage is being deleted: its rabbit's agent then withdraws the access even of
/// nodes that `access` lists.
pub fn is_deleted(block: &NnfNodeBlockStorage) -> bool {
    block.metadata.deletion_timestamp.is_some()
}

/// Returns true if no node but the rabbit has access to any allocation of the block storage.
pub fn is_alone(block: &NnfNodeBlockStorage, rabbit: &str) -> bool {
    nodes_with_access(block).all(|node| node == rabbit)
}

/// Returns true if a node has access to any allocation of the block storage.
pub fn has_access(block: &NnfNodeBlockStorage, node: &str) -> bool {
    nodes_with_access(block).any(|other| other == node)
}

/// Returns the nodes that have access to any allocation of the block storage.
pub fn nodes_with_access(block: &NnfNodeBlockStorage) -> impl Iterator<Item = &String> {
    let status = block.status.iter().flat_map(|status| &status.allocations);
    status.flat_map(|allocation| allocation.accesses.keys())
}
