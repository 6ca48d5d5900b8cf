//! The tower Service: one HTTP request in, one answer out.

use crate::body::Body;
use crate::form::{Form, encode};
use crate::object::Stored;
use crate::openapi;
use crate::registry::{builtin, crd, discovery};
use crate::request::{self, Document, Query, WriteOptions};
use crate::routes::{self, Route};
use crate::status::Status;
use crate::store::{Job, Outcome, Store};
use crate::verbs::patch::Patch;
use crate::verbs::{
    Resource, Subresource, Target, admit, create, delete, get, list, patch, update, watch,
};
use crate::{Api, Identity};
use http::header::{ALLOW, CONTENT_TYPE, Entry, HeaderValue, WARNING};
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{oneshot, watch::Receiver};

/// The API as one client sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiService {
    store: Arc<Store>,
    identity: Identity,
    stop: Option<Receiver<bool>>,
}

impl ApiService {
    pub(crate) fn new(api: &Api, identity: Identity) -> Self {
        Self { store: Arc::clone(&api.store), identity, stop: None }
    }

    /// Ends the watches of this service when `stop` becomes true.
    pub(crate) fn stopped_by(mut self, stop: Receiver<bool>) -> Self {
        self.stop = Some(stop);
        self
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

/// A request without its body.
struct Call {
    method: Method,
    headers: HeaderMap,
    query: Query,
}

/// What a request is about, and how its answer is to look.
struct Addressed {
    target: Target,
    resource: Resource,
    form: Form,
}

impl ApiService {
    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let user = self.identity.user.clone();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let call = Call {
            method: parts.method,
            query: Query::parse(parts.uri.query()),
            headers: parts.headers,
        };
        let response = match routes::parse(&path) {
            None if path.starts_with("/api/") => Err(Status::no_such_path()),
            None => Err(Status::page_not_found()),
            Some(Route::Objects(target)) => self.objects(call, target, body).await,
            Some(route) => self.document(&call, &route),
        };
        let response = response.unwrap_or_else(|status| refuse(&status));
        let code = response.status().as_u16();
        log::debug!(user:% = user, method:% = method, path:% = path, code; "API request");
        response
    }

    fn document(&self, call: &Call, route: &Route) -> Result<Response<Body>, Status> {
        if call.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let registry = Arc::clone(&self.store.shared.read().registry);
        let found = |document: Option<Value>| document.ok_or_else(Status::page_not_found);
        let document = match route {
            Route::Objects(_) => return Err(Status::no_such_path()),
            Route::Health => return Ok(plain("ok")),
            Route::OpenApiV2 => return openapi::v2::answer(&registry, &call.headers),
            Route::Version => version(),
            Route::CoreVersions => discovery::core_versions(),
            Route::Groups => discovery::groups(&registry),
            Route::Group(group) => found(discovery::group(&registry, group))?,
            Route::Resources { group, version } if group.is_empty() => {
                let document = discovery::resources(&registry, group, version);
                document.ok_or_else(Status::no_such_path)?
            }
            Route::Resources { group, version } => {
                found(discovery::resources(&registry, group, version))?
            }
            Route::OpenApiIndex => openapi::v3::index(&registry),
            Route::OpenApiV3 { group, version } => {
                match openapi::v3::document(&registry, group, version) {
                    Some(document) => document,
                    // The handler of these says nothing.
                    None => return Ok(respond(404, Body::whole(Bytes::new()))),
                }
            }
        };
        Ok(json_response(200, encode(&document)))
    }

    async fn objects<B>(
        &self,
        call: Call,
        target: Target,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let registry = Arc::clone(&self.store.shared.read().registry);
        let whole = Target { subresource: None, ..target.clone() };
        let deprecation = whole.resolve(&registry)?.version().deprecation.clone();
        let answer = match target.resolve(&registry) {
            Ok(resource) => self.resource(call, target, resource, body).await,
            Err(status) => Err(status),
        };
        let mut answer = answer.unwrap_or_else(|status| refuse(&status));
        if let Some(warning) = deprecation {
            warn(&mut answer, &[warning], true);
        }
        Ok(answer)
    }

    async fn resource<B>(
        &self,
        call: Call,
        mut target: Target,
        resource: Resource,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let custom = resource.definition.custom;
        let everywhere = resource.definition.namespaced && target.namespace.is_none();
        if custom && everywhere && call.method != Method::GET {
            return Err(Status::page_not_found());
        }
        if custom && call.method == Method::POST {
            // A name in the path says nothing when an object is made.
            target.name = None;
        }
        if call.method == Method::PATCH {
            Patch::check_type(request::media_type(&call.headers), &resource)?;
        }
        let unnamed = target.name.is_none() && matches!(call.method, Method::PUT | Method::PATCH);
        if unnamed && resource.definition.custom {
            return Err(Status::bad_request("name must be provided"));
        }
        let is_namespace = &*resource.definition.id == builtin::NAMESPACES;
        if unnamed || call.method == Method::POST && target.name.is_some() {
            return Err(not_allowed(&call.method, !unnamed, &resource));
        }
        if call.method == Method::DELETE && target.name.is_none() && is_namespace {
            return Err(Status::method_not_allowed());
        }
        let of_part = matches!(call.method, Method::GET | Method::PUT | Method::PATCH);
        if target.subresource.is_some() && !of_part {
            return Err(not_allowed(&call.method, true, &resource));
        }
        let form = request::accepted(&call.headers, &call.query)?;
        let namespaced = resource.definition.namespaced;
        if namespaced && target.namespace.is_none() && target.name.is_some() {
            return Err(Status::no_such_path());
        }
        let one = target.name.is_some();
        let in_place = !namespaced || target.namespace.is_some();
        let addressed = || Addressed { target: target.clone(), resource: resource.clone(), form };
        match (&call.method, one, target.subresource) {
            (&Method::GET, _, None) if call.query.is_watch() => {
                self.watch(&call, target.clone(), form)
            }
            (&Method::GET, true, None | Some(Subresource::Status)) => {
                call.query.revision()?;
                let answer = self.get(&target, form)?;
                match form {
                    Form::Metadata { list: true } => {
                        Err(Status::no_reason("content is not a list"))
                    }
                    _ => Ok(answer),
                }
            }
            (&Method::GET, false, None) if form == (Form::Metadata { list: false }) => {
                Err(no_list(&resource))
            }
            (&Method::GET, false, None) => {
                let page = list::list(&self.store.shared.read(), &target, &call.query.list()?)?;
                Ok(json_response(200, form.page(&page)?))
            }
            (&Method::POST, false, None) if in_place => {
                self.write(Change::Create, call, addressed(), body).await
            }
            (&Method::PUT, true, _) => self.write(Change::Update, call, addressed(), body).await,
            (&Method::PATCH, true, None | Some(Subresource::Status)) => {
                self.write(Change::Patch, call, addressed(), body).await
            }
            (&Method::DELETE, true, None) => {
                self.write(Change::Delete, call, addressed(), body).await
            }
            (&Method::DELETE, false, None) if in_place => {
                self.write(Change::DeleteCollection, call, addressed(), body).await
            }
            _ => Err(not_allowed(&call.method, one, &resource)),
        }
    }

    fn get(&self, target: &Target, form: Form) -> Result<Response<Body>, Status> {
        let (resource, stored) = get::get(&self.store.shared.read(), target)?;
        Ok(json_response(200, form.one(&resource, &stored, true)?))
    }

    fn watch(&self, call: &Call, mut target: Target, form: Form) -> Result<Response<Body>, Status> {
        let mut options = call.query.watch()?;
        if let Some(name) = target.name.take() {
            options.selection.fields.require_name(name);
        }
        let events = watch::watch(&self.store.shared, &target, options, form, self.stop.clone())?;
        Ok(respond(200, Body::events(events)))
    }

    async fn write<B>(
        &self,
        change: Change,
        call: Call,
        addressed: Addressed,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // A delete may have its options in the body, which then count alone.
        let options = match change {
            Change::Delete | Change::DeleteCollection => WriteOptions::default(),
            Change::Create | Change::Update | Change::Patch => {
                call.query.write(change.options())?
            }
        };
        let (strictness, mut dry_run) = (options.field_validation, options.dry_run);
        let Addressed { target, resource, form } = addressed;
        let bytes = request::read(&call.headers, body).await?;
        let media_type = request::media_type(&call.headers);
        let decoded = match change {
            // Its options are in the query when there is no body.
            Change::Delete | Change::DeleteCollection if bytes.is_empty() => {
                Ok(Document::default())
            }
            _ => request::decode(media_type, &bytes),
        };
        let Document { value, duplicates } = match change {
            // Whether there is an object to patch matters more than what the patch says.
            Change::Patch if decoded.is_err() && self.get(&target, form).is_err() => {
                return self.get(&target, form);
            }
            Change::Create | Change::Update => decoded.map_err(|status| match status.code {
                400 => admit::unrecognized(&resource, &undecoded(&status)),
                _ => status,
            })?,
            Change::Patch => decoded.map_err(|status| match status.code {
                400 => Status::bad_request(format!("error decoding patch: {}", status.message)),
                _ => status,
            })?,
            Change::Delete | Change::DeleteCollection => decoded.map_err(|status| {
                if status.code == 400 { Status::bad_request(undecoded(&status)) } else { status }
            })?,
        };
        let duplicates = duplicates.into_iter().map(|field| format!("duplicate field \"{field}\""));
        let warned_of = strictness.judge(&resource, duplicates.collect())?;
        let sent = value.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let sent = sent.and_then(|text| text.parse().ok()).filter(|revision| *revision > 0);
        let job_target = target.clone();
        let apply: crate::store::Apply = match change {
            Change::Create => {
                Box::new(move |batch| create::create(batch, &job_target, value, strictness))
            }
            Change::Update => {
                Box::new(move |batch| update::update(batch, &job_target, value, strictness))
            }
            Change::Patch => {
                let change = Patch::read(media_type, value);
                Box::new(move |batch| patch::patch(batch, &job_target, &change, strictness))
            }
            Change::Delete => {
                let options = call.query.delete(&value)?;
                dry_run |= options.dry_run;
                Box::new(move |batch| delete::one(batch, &job_target, &options))
            }
            Change::DeleteCollection => {
                let selection = call.query.selection()?;
                let options = call.query.delete(&value)?;
                dry_run |= options.dry_run;
                Box::new(move |batch| delete::collection(batch, &job_target, &selection, &options))
            }
        };
        let (reply, answer) = oneshot::channel();
        // A client that has gone away does not need to hear; its write stands.
        let reply = Box::new(move |result| drop(reply.send(result)));
        self.store.submit(Job { apply, dry_run, reply })?;
        let outcome = answer.await.map_err(|_| {
            Status::unavailable("the API server stopped before the write was stored")
        })?;
        let outcome = outcome.map_err(|status| status.warning(&warned_of))?;
        // The write may have changed the kind itself, or been the last one of a kind that is going.
        let now = target.resolve(&self.store.shared.read().registry);
        let resource = now.unwrap_or(resource);
        // The dry run of a new object shows what the client sent.
        let before = self.revision(&target, &resource).or(sent).filter(|_| dry_run);
        finish(&resource, outcome, form, dry_run.then_some(before), warned_of)
    }

    fn revision(&self, target: &Target, resource: &Resource) -> Option<u64> {
        let key = target.key(&resource.definition, target.name.as_deref()?);
        Some(self.store.shared.read().objects.get(&key)?.revision)
    }
}

/// A body that is no document has no type.
fn undecoded(status: &Status) -> String {
    format!("couldn't get version/kind; json parse error: {}", status.message)
}

/// The metadata of a list is not that of an object.
fn no_list(resource: &Resource) -> Status {
    let list = match resource.definition.custom {
        true => "unstructured.UnstructuredList".to_owned(),
        false => format!("v1.{}", resource.definition.list_kind),
    };
    Status::new(
        406,
        "NotAcceptable",
        format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{list})"
        ),
    )
}

/// The refusal of a method; custom resources name the verb that it would be.
fn not_allowed(method: &Method, one: bool, resource: &Resource) -> Status {
    let verb = match (method, one) {
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return Status::method_not_allowed(),
    };
    if resource.definition.custom && !one && matches!(verb, "update" | "patch") {
        Status::bad_request("name must be provided")
    } else if resource.definition.custom {
        Status::unsupported_verb(verb, resource.definition.subject(""))
    } else {
        Status::method_not_allowed()
    }
}

/// The verbs that change something.
#[derive(Debug, Clone, Copy)]
enum Change {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Change {
    /// What the API calls the options of the verb.
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
            Self::Delete | Self::DeleteCollection => "DeleteOptions",
        }
    }
}

/// Answers a write. `dry_run` is the revision of the object, if any, that a dry run has left as it was.
fn finish(
    resource: &Resource,
    outcome: Outcome,
    form: Form,
    dry_run: Option<Option<u64>>,
    mut warnings: Vec<String>,
) -> Result<Response<Body>, Status> {
    match outcome {
        Outcome::Stored { code, stored, warnings: more } => {
            warnings.extend(more);
            let bytes = match dry_run {
                Some(before) => form.one(resource, &draft(resource, &stored, before)?, true)?,
                None => form.one(resource, &stored, true)?,
            };
            let mut response = json_response(code, bytes);
            warn(&mut response, &warnings, false);
            Ok(response)
        }
        Outcome::Done(status) => Ok(json_response(200, encode(&status))),
        Outcome::Deleted(items) => {
            let revision = items.iter().map(|stored| stored.revision).max().unwrap_or_default();
            let page = list::Page {
                resource: resource.clone(),
                revision,
                items,
                token: None,
                remaining: None,
            };
            Ok(json_response(200, form.page(&page)?))
        }
    }
}

/// What would have been stored. Its revision never was, so the object shows the one that it has.
fn draft(resource: &Resource, stored: &Stored, before: Option<u64>) -> Result<Stored, Status> {
    let mut object = stored.decode()?;
    object.meta.resource_version = before.map(|revision| revision.to_string());
    if &*resource.definition.id == builtin::CRDS && before.is_none() {
        crd::unserved(&mut object);
    }
    Ok(Stored::new(&resource.definition, &object, stored.revision))
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+warren.", env!("CARGO_PKG_VERSION")), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Adds the warnings that kubectl prints (RFC 7234 code 299, as apiserver writes them), the first ones in front.
fn warn(response: &mut Response<Body>, warnings: &[String], first: bool) {
    let headers = response.headers_mut();
    let before: Vec<HeaderValue> = match headers.entry(WARNING) {
        Entry::Occupied(there) if first => there.remove_entry_mult().1.collect(),
        _ => Vec::new(),
    };
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // Bytes, not a str: names of fields need not be ASCII, and a header may carry UTF-8.
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(WARNING, value);
        }
    }
    for value in before {
        headers.append(WARNING, value);
    }
}

/// The answer that carries a refusal.
pub(crate) fn refuse(status: &Status) -> Response<Body> {
    if status.is_plain() {
        let mut response = plain(status.message.clone());
        *response.status_mut() = http::StatusCode::NOT_FOUND;
        return response;
    }
    let mut response = json_response(status.code, encode(&status.to_json()));
    warn(&mut response, &status.warnings, false);
    if status.code == 405 {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
    }
    response
}

fn json_response(code: u16, bytes: Bytes) -> Response<Body> {
    respond(code, Body::whole(bytes))
}

fn respond(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
        .headers_mut()
        .insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn plain(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = respond(200, Body::whole(text.into()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
