//! Tests of new objects that replace unreadable ones.

use super::{Shelf, key, open, put, value};
use crate::status::Status;
use crate::store::file::StoreFile;
use crate::store::load::key_text;
use crate::store::rows::{OBJECTS, transact};
use crate::store::{Batch, Job, Outcome, Store};
use redb::{Builder, WriteTransaction};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

/// Returns the directory of a store in which the row of the object "a" cannot be read.
fn shelf_with_an_unreadable_row() -> Shelf {
    let shelf = Shelf::new();
    let store = open(&shelf);
    put(&store, "a", "1").unwrap();
    store.close();
    drop(store);
    let database = shelf.open(&Builder::new()).unwrap();
    let spoil = |change: &WriteTransaction| {
        change.open_table(OBJECTS)?.insert(key_text(&key("a")).as_str(), &b"{\"half"[..])?;
        Ok(())
    };
    transact(&database, spoil).unwrap();
    shelf
}

fn remove(store: &Store, name: &str) -> Result<Outcome, Status> {
    let (reply, answer) = mpsc::channel();
    let key = key(name);
    let apply = Box::new(move |batch: &mut Batch<'_>| {
        let definition = Arc::clone(batch.registry().get("configmaps").unwrap());
        batch.remove(&definition, key)?;
        Ok(Outcome::Done(serde_json::Value::Null))
    });
    let reply = Box::new(move |result| drop(reply.send(result)));
    store.submit(Job { apply, dry_run: false, reply }).unwrap();
    answer.recv().unwrap()
}

fn unread(store: &Store) -> Vec<String> {
    store.shared.read().unread.iter().map(key_text).collect()
}

#[test]
fn a_new_object_replaces_the_unreadable_one() {
    let shelf = shelf_with_an_unreadable_row();
    let store = open(&shelf);
    assert_eq!(unread(&store), [key_text(&key("a"))]);
    put(&store, "b", "1").unwrap();
    assert_eq!(unread(&store), [key_text(&key("a"))], "another object changes nothing");
    put(&store, "a", "2").unwrap();
    assert_eq!(unread(&store), [""; 0]);
}

#[test]
fn an_unreadable_row_that_a_new_object_replaced_is_not_copied_into_a_new_file() {
    let shelf = shelf_with_an_unreadable_row();
    let store = open(&shelf);
    put(&store, "a", "2").unwrap();
    remove(&store, "a").unwrap();
    let disk = shelf.file();
    disk.full.store(true, Ordering::SeqCst);
    put(&store, "b", "1").unwrap_err();
    disk.full.store(false, Ordering::SeqCst);
    put(&store, "b", "2").unwrap();
    store.close();
    let store = open(&shelf);
    assert_eq!((unread(&store), value(&store, "a")), (Vec::new(), None));
    assert_eq!(value(&store, "b").as_deref(), Some("2"));
}
