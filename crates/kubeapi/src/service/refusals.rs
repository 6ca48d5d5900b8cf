//! Refusals that need only the method, path and headers of a request.

use super::Call;
use crate::registry::{Resource, builtin};
use crate::request;
use crate::status::Status;
use crate::verbs::Target;
use crate::verbs::patch::Patch;
use http::Method;

/// A request without its body.
pub(super) struct Asked<'a> {
    pub(super) call: &'a Call,
    pub(super) target: &'a Target,
    pub(super) resource: &'a Resource,
}

/// What is wrong with a request, in the order in which kube-apiserver looks.
const REFUSALS: [fn(&Asked<'_>) -> Option<Status>; 7] = [
    |asked| {
        let nowhere = asked.is_custom() && asked.is_everywhere() && !asked.is(&[Method::GET]);
        nowhere.then(Status::page_not_found)
    },
    |asked| {
        let media_type = request::media_type(&asked.call.headers);
        let patch = asked.is(&[Method::PATCH]).then_some(media_type)?;
        Patch::check_type(patch, asked.resource).err()
    },
    |asked| {
        let unnamed = !asked.has_name() && asked.is(&[Method::PUT, Method::PATCH]);
        (unnamed && asked.is_custom()).then(|| Status::bad_request("name must be provided"))
    },
    |asked| {
        let unnamed = !asked.has_name() && asked.is(&[Method::PUT, Method::PATCH]);
        let named = asked.has_name() && asked.is(&[Method::POST]);
        (unnamed || named).then(Status::method_not_allowed)
    },
    |asked| {
        let all = !asked.has_name() && asked.is(&[Method::DELETE]);
        let namespaces = &*asked.resource.definition.id == builtin::NAMESPACES;
        (all && (namespaces || asked.is_everywhere())).then(Status::method_not_allowed)
    },
    |asked| {
        let new = asked.is_everywhere() && asked.is(&[Method::POST]);
        let part = asked.target.subresource.is_some();
        let whole = part && !asked.is(&[Method::GET, Method::PUT, Method::PATCH]);
        (new || whole).then(Status::method_not_allowed)
    },
    |asked| (asked.is_everywhere() && asked.has_name()).then(Status::no_such_path),
];

/// The first of what is wrong.
pub(super) fn first(asked: &Asked<'_>) -> Option<Status> {
    REFUSALS.iter().find_map(|refusal| refusal(asked))
}

impl Asked<'_> {
    fn is(&self, methods: &[Method]) -> bool {
        methods.contains(&self.call.method)
    }

    fn is_custom(&self) -> bool {
        self.resource.definition.custom
    }

    fn has_name(&self) -> bool {
        self.target.name.is_some()
    }

    /// Whether a kind that lies in namespaces is asked for without one.
    fn is_everywhere(&self) -> bool {
        self.resource.definition.namespaced && self.target.namespace.is_none()
    }
}
