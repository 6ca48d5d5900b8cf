//! The tower Service: one HTTP request in, one answer out.

mod answer;
mod document;
mod write;

use crate::body::{Body, RequestBody};
use crate::form::Form;
use crate::registry::{Resource, builtin};
use crate::request::{self, Query};
use crate::routes::{self, Route};
use crate::status::Status;
use crate::store::Store;
use crate::verbs::patch::Patch;
use crate::verbs::{Subresource, Target, list, watch};
use crate::{Api, Identity, Rights};
pub(crate) use answer::refuse;
use answer::{json_response, respond, warn};
use http::{HeaderMap, Method, Request, Response, request::Parts};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch::Receiver;
use write::Change;

/// The API, for one [`Identity`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiService {
    store: Arc<Store>,
    identity: Identity,
    stop: Option<Receiver<bool>>,
    rights: Option<Rights>,
}

impl ApiService {
    pub(crate) fn new(api: &Api, identity: Identity) -> Self {
        Self { store: Arc::clone(&api.store), identity, stop: None, rights: None }
    }

    /// Limits the requests for objects to these rights. The backup has all objects, so it is refused.
    pub(crate) fn with_rights(mut self, rights: Rights) -> Self {
        self.rights = Some(rights);
        self
    }

    fn check_rights(&self, parts: &Parts, route: &Route) -> Result<(), Status> {
        let Some(rights) = &self.rights else { return Ok(()) };
        let is_watch = Query::parse(parts.uri.query()).is_watch();
        match route {
            Route::Objects(target) => {
                rights.check(&self.identity.user, (&parts.method, is_watch), target)
            }
            Route::Backup => Err(Status::new(403, "Forbidden", "only administrators make backups")),
            _ => Ok(()),
        }
    }

    /// Makes the watches of this service end when `stop` becomes true.
    pub(crate) fn with_stop(mut self, stop: Receiver<bool>) -> Self {
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

/// The parts of a request for objects, except its body.
struct Call {
    headers: HeaderMap,
    query: Query,
    target: Target,
    resource: Resource,
    /// How the answer shows objects: whole, as rows of a table, or only their metadata.
    form: Form,
}

impl ApiService {
    async fn answer(self, request: Request<impl RequestBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let route = routes::parse(&path);
        let refused = route.as_ref().and_then(|route| self.check_rights(&parts, route).err());
        let response = match route {
            _ if let Some(status) = refused => Err(status),
            None if path.starts_with("/api/") => Err(Status::no_such_path()),
            None => Err(Status::page_not_found()),
            Some(Route::Objects(target)) => self.objects(parts, target, body).await,
            Some(route) if method == Method::GET => self.document(&route),
            Some(_) => Err(Status::method_not_allowed()),
        };
        let response = response.unwrap_or_else(|status| refuse(&status));
        let (user, code) = (&self.identity.user, response.status().as_u16());
        log::debug!(user:% = user, method:% = method, path:% = path, code; "API request");
        response
    }

    async fn objects(
        &self,
        parts: Parts,
        target: Target,
        body: impl RequestBody,
    ) -> Result<Response<Body>, Status> {
        let resource = target.resolve(&self.store.shared.read().registry)?;
        let deprecation = resource.version().deprecation.clone();
        let answer = self.resource(parts, target, resource, body).await;
        let mut answer = answer.unwrap_or_else(|status| refuse(&status));
        warn(&mut answer, deprecation.as_slice());
        Ok(answer)
    }

    async fn resource(
        &self,
        parts: Parts,
        target: Target,
        resource: Resource,
        body: impl RequestBody,
    ) -> Result<Response<Body>, Status> {
        let (method, headers, query) =
            (&parts.method, &parts.headers, Query::parse(parts.uri.query()));
        let form = request::accepted(headers, &query)?;
        // For a namespaced kind, a path without a namespace stands for the objects of all namespaces. Such a path can
        // be listed, but every write needs a namespace.
        let definition = &resource.definition;
        let everywhere = definition.namespaced && target.namespace.is_none();
        let clearable = !everywhere && &*definition.id != builtin::NAMESPACES;
        let change = match (method, target.name.is_some(), target.subresource) {
            (&Method::GET, _, None) if query.is_watch() => {
                return self.watch(&query, target, form);
            }
            (&Method::GET, true, None | Some(Subresource::Status)) if !everywhere => {
                query.revision()?;
                let (resource, stored) = target.get(&self.store.shared.read())?;
                return Ok(json_response(200, form.encode_object(&resource, &stored, true)?));
            }
            (&Method::GET, false, None) => {
                let page = list::list(&self.store.shared.read(), &target, &query.list()?)?;
                return Ok(json_response(200, form.page(&page)?));
            }
            (&Method::PUT | &Method::PATCH, false, None) if definition.custom => {
                return Err(Status::bad_request("name must be provided"));
            }
            (&Method::POST, false, None) if !everywhere => Change::Create,
            (&Method::PUT, true, _) if !everywhere => Change::Update,
            (&Method::PATCH, true, _) if !everywhere => {
                Patch::check_type(request::media_type(headers), &resource)?;
                Change::Patch
            }
            (&Method::DELETE, true, None) if !everywhere => Change::Delete,
            (&Method::DELETE, false, None) if clearable => Change::DeleteCollection,
            _ => return Err(Status::method_not_allowed()),
        };
        let call = Call { headers: parts.headers, query, target, resource, form };
        self.write(change, call, body).await
    }

    fn watch(
        &self,
        query: &Query,
        mut target: Target,
        form: Form,
    ) -> Result<Response<Body>, Status> {
        let mut options = query.watch()?;
        if let Some(name) = target.name.take() {
            options.selection.fields.require_name(name);
        }
        let events = watch::watch(&self.store.shared, &target, options, form, self.stop.clone())?;
        Ok(respond(200, Body::events(events)))
    }
}
