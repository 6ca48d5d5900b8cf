//! The tower Service: one HTTP request in, one answer out.

mod answer;
mod document;
mod refusals;
mod write;

use crate::body::{Body, RequestBody};
use crate::form::Form;
use crate::registry::Resource;
use crate::request::{self, Query};
use crate::routes::{self, Route};
use crate::status::Status;
use crate::store::Store;
use crate::verbs::{Subresource, Target, get, list, watch};
use crate::{Api, Identity};
pub(crate) use answer::refuse;
use answer::{json_response, respond, warn};
use http::{HeaderMap, Method, Request, Response};
use refusals::Asked;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch::Receiver;
use write::Change;

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

impl<B: RequestBody + 'static> tower::Service<Request<B>> for ApiService {
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
    async fn answer(self, request: Request<impl RequestBody>) -> Response<Body> {
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

    async fn objects(
        &self,
        call: Call,
        target: Target,
        body: impl RequestBody,
    ) -> Result<Response<Body>, Status> {
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

    async fn resource(
        &self,
        call: Call,
        target: Target,
        resource: Resource,
        body: impl RequestBody,
    ) -> Result<Response<Body>, Status> {
        let asked = Asked { call: &call, target: &target, resource: &resource };
        if let Some(refusal) = refusals::first(&asked) {
            return Err(refusal);
        }
        let form = request::accepted(&call.headers, &call.query)?;
        let one = target.name.is_some();
        let addressed = || Addressed { target: target.clone(), resource: resource.clone(), form };
        match (&call.method, one, target.subresource) {
            (&Method::GET, _, None) if call.query.is_watch() => {
                self.watch(&call, target.clone(), form)
            }
            (&Method::GET, true, None | Some(Subresource::Status)) => {
                call.query.revision()?;
                self.get(&target, form)
            }
            (&Method::GET, false, None) => {
                let page = list::list(&self.store.shared.read(), &target, &call.query.list()?)?;
                Ok(json_response(200, form.page(&page)?))
            }
            (&Method::POST, false, None) => {
                self.write(Change::Create, call, addressed(), body).await
            }
            (&Method::PUT, true, _) => self.write(Change::Update, call, addressed(), body).await,
            (&Method::PATCH, true, None | Some(Subresource::Status)) => {
                self.write(Change::Patch, call, addressed(), body).await
            }
            (&Method::DELETE, true, None) => {
                self.write(Change::Delete, call, addressed(), body).await
            }
            (&Method::DELETE, false, None) => {
                self.write(Change::DeleteCollection, call, addressed(), body).await
            }
            _ => Err(Status::method_not_allowed()),
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
}
