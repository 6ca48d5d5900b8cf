//! Deletes Events after an hour, as kube-apiserver does (`--event-ttl`). The deletion is part of a later write, so no
//! timer runs.

use crate::object::{Key, Object};
use crate::registry::Definition;
use crate::status::Status;
use crate::store::Batch;
use serde_json::Value;

/// Time that an Event is kept, in seconds.
const KEPT: i64 = 3600;
/// Number of revisions between two searches for old Events.
const EVERY: u64 = 64;

/// Deletes old Events when the revision is a multiple of [`EVERY`].
pub(crate) fn forget_old(
    batch: &mut Batch<'_>,
    definition: &Definition,
    newest: u64,
) -> Result<(), Status> {
    if !newest.is_multiple_of(EVERY) {
        return Ok(());
    }
    let now = jiff::Timestamp::now().as_second();
    let mut old: Vec<Key> = Vec::new();
    for key in batch.keys(&definition.id, None) {
        let Some(stored) = batch.get(&key) else { continue };
        if now - last_seen(&stored.decode()?) > KEPT {
            old.push(key);
        }
    }
    old.into_iter().try_for_each(|key| batch.remove(definition, key))
}

/// Returns the time at which an Event last occurred, in unix time.
fn last_seen(event: &Object) -> i64 {
    let pointers = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
    let body = Value::Object(event.body.clone());
    let times = pointers
        .iter()
        .filter_map(|pointer| body.pointer(pointer)?.as_str()?.parse::<jiff::Timestamp>().ok());
    let created = event.meta.creation_timestamp.iter().map(|time| time.0.as_second());
    times.map(jiff::Timestamp::as_second).chain(created).max().unwrap_or(i64::MAX)
}
