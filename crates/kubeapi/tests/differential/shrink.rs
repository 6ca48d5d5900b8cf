//! Shrinks a run that showed a difference to the few operations that are needed to show it.

use crate::operation::Operation;
use crate::run::Pair;
use crate::servers::{Plane, Server};
use crate::signature;

/// Largest number of runs that shrinking may take.
const TRIES: usize = 150;

/// Leaves out operations as long as the others still show the difference with the signature `wanted`, and returns the
/// operations that remain. `done` ends with the operation that showed the difference.
pub(crate) async fn shrink(plane: &Plane, done: &[Operation], wanted: &str) -> Vec<Operation> {
    let mut tries = 0;
    let last = done.last().map(Operation::collection).unwrap_or_default().to_owned();
    let plural = last.rsplit('/').next().unwrap_or_default();
    // Operations on kinds other than the kind of the last operation seldom matter.
    let concerns = |operation: &&Operation| {
        operation.collection().ends_with(&format!("/{plural}"))
            || operation.collection() == "/api/v1/namespaces"
            || operation.body.contains(&format!("\"{plural}.<run>.example\""))
    };
    let mut kept: Vec<Operation> = done.iter().filter(concerns).cloned().collect();
    if !shows(plane, &kept, wanted, &mut tries).await {
        kept = done.to_vec();
    }
    let mut size = kept.len() / 2;
    while size > 0 && tries < TRIES {
        let mut at = 0;
        while at < kept.len() && tries < TRIES {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + size).min(kept.len()));
            if shows(plane, &fewer, wanted, &mut tries).await {
                kept = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    kept
}

/// Returns whether these operations show the difference with the signature `wanted`. They run on a new embedded server
/// and in new namespaces of the real server.
async fn shows(plane: &Plane, operations: &[Operation], wanted: &str, tries: &mut usize) -> bool {
    *tries += 1;
    let word = format!("s{:07x}", plane.next_word());
    let ours = Server::embedded(api::crd_values());
    let mut pair = Pair::new(ours, Server::Real(plane.client.clone()), &word);
    for operation in operations {
        let answers = pair.send(operation).await;
        let found = |difference| signature(operation, difference) == wanted;
        if answers.differences.iter().any(found) {
            return true;
        }
    }
    false
}
