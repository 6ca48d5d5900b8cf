//! Requests that change objects. This module decodes them, the store's single writer applies them, and the client gets
//! its answer when the change is on disk.

use super::answer::{json_response, warn};
use super::{ApiService, Call};
use crate::body::{Body, RequestBody};
use crate::form::{Form, Page, encode};
use crate::object::Stored;
use crate::registry::{Resource, builtin, crd};
use crate::request;
use crate::status::Status;
use crate::store::{Apply, Job, Outcome};
use crate::verbs::patch::Patch;
use crate::verbs::{Target, create, delete, patch, update};
use http::Response;
use serde_json::Value;
use tokio::sync::oneshot;

/// Verbs that change objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl ApiService {
    pub(super) async fn write(
        &self,
        change: Change,
        call: Call,
        body: impl RequestBody,
    ) -> Result<Response<Body>, Status> {
        let Call { headers, query, target, resource, form } = call;
        let bytes = request::read(&headers, body).await?;
        let media_type = request::media_type(&headers);
        let deletes = matches!(change, Change::Delete | Change::DeleteCollection);
        // A DELETE without a body has its options in the query.
        let value = match bytes.as_slice() {
            [] if deletes => Value::Null,
            bytes => request::decode(media_type, bytes)?,
        };
        let options = if deletes { request::WriteOptions::default() } else { query.write()? };
        let (strictness, mut dry_run) = (options.field_validation, options.dry_run);
        let at = target.clone();
        let apply: Apply = match change {
            Change::Create => Box::new(move |batch| create::create(batch, &at, value, strictness)),
            Change::Update => Box::new(move |batch| update::update(batch, &at, value, strictness)),
            Change::Patch => {
                let change = Patch::read(media_type, value)?;
                Box::new(move |batch| patch::patch(batch, &at, &change, strictness))
            }
            Change::Delete => {
                let options = query.delete(&value)?;
                dry_run = options.dry_run;
                Box::new(move |batch| delete::delete_one(batch, &at, &options))
            }
            Change::DeleteCollection => {
                let (selection, options) = (query.selection()?, query.delete(&value)?);
                dry_run = options.dry_run;
                Box::new(move |batch| delete::delete_collection(batch, &at, &selection, &options))
            }
        };
        let outcome = self.stored(apply, dry_run).await?;
        // Looks up the kind again: the write may have changed the kind's definition, or removed the kind.
        let now = target.resolve(&self.store.shared.read().registry);
        let resource = now.unwrap_or(resource);
        let before = self.revision(&target, &resource).filter(|_| dry_run);
        finish(&resource, outcome, form, dry_run.then_some(before))
    }

    async fn stored(&self, apply: Apply, dry_run: bool) -> Result<Outcome, Status> {
        let user = self.identity.user.clone();
        let apply: Apply = Box::new(move |batch| {
            batch.act_for(user);
            apply(batch)
        });
        let (reply, answer) = oneshot::channel();
        // `send` fails when the client has disconnected; the write is stored anyway.
        let reply = Box::new(move |result| drop(reply.send(result)));
        self.store.submit(Job { apply, dry_run, reply })?;
        let stopped = |_| Status::unavailable("the API server stopped before the write was stored");
        answer.await.map_err(stopped)?
    }

    fn revision(&self, target: &Target, resource: &Resource) -> Option<u64> {
        let key = target.key(&resource.definition, target.name.as_deref()?);
        Some(self.store.shared.read().objects.get(&key)?.revision)
    }
}

/// Answers a write. `dry_run` is `None` for a real write; for a dry run it contains the object's stored revision,
/// if the object exists.
fn finish(
    resource: &Resource,
    outcome: Outcome,
    form: Form,
    dry_run: Option<Option<u64>>,
) -> Result<Response<Body>, Status> {
    match outcome {
        Outcome::Stored { code, stored, warnings } => {
            let bytes = match dry_run {
                Some(before) => {
                    form.encode_object(resource, &draft(resource, &stored, before)?, true)?
                }
                None => form.encode_object(resource, &stored, true)?,
            };
            let mut response = json_response(code, bytes);
            warn(&mut response, &warnings);
            Ok(response)
        }
        Outcome::Done(status) => Ok(json_response(200, encode(&status))),
        Outcome::Deleted(items) => {
            let revision = items.iter().map(|stored| stored.revision).max().unwrap_or_default();
            let page =
                Page { resource: resource.clone(), revision, items, token: None, remaining: None };
            Ok(json_response(200, form.page(&page)?))
        }
    }
}

/// Returns the object that a dry run would have stored. The new revision was never stored, so the object keeps the
/// revision that it had before.
fn draft(resource: &Resource, stored: &Stored, before: Option<u64>) -> Result<Stored, Status> {
    let mut object = stored.decode()?;
    object.meta.resource_version = before.map(|revision| revision.to_string());
    if &*resource.definition.id == builtin::CRDS && before.is_none() {
        crd::mark_unserved(&mut object);
    }
    Ok(resource.definition.stored(&object, stored.revision))
}
