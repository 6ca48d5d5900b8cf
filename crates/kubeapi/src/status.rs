//! Errors of the API: every refusal is a `Status` object with the same code, reason and details as kube-apiserver's.

mod cause;

pub(crate) use cause::Cause;

use serde_json::{Value, json};
use std::fmt;

/// A refused request, as the client reads it (`metav1.Status`).
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    details: Option<Box<Value>>,
}

const PAGE_NOT_FOUND: &str = "404 page not found\n";

/// The object that a request was about, for the `details` of a refusal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    fn details(&self) -> Value {
        json!({"kind": self.plural, "name": self.name, "group": self.group})
    }
}

/// Prints the subject as `plural.group "name"`.
impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} \"{}\"", self.plural, self.group, self.name)
    }
}

impl Status {
    /// Builds a refusal with a code, a reason of `metav1.StatusReason` and a message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, subject: Subject<'_>) -> Self {
        self.details = Some(Box::new(subject.details()));
        self
    }

    fn with_cause(mut self, reason: &str, message: &str) -> Self {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        details["causes"] = json!([{ "reason": reason, "message": message }]);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(subject: Subject<'_>, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}")).about(subject)
    }

    pub(crate) fn namespace_terminating(subject: Subject<'_>, namespace: &str) -> Self {
        let why = format!("namespace {namespace} takes nothing new because it is being terminated");
        Self::forbidden(subject, &why).with_cause("NamespaceTerminating", &why)
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// Answers an unknown group, version or resource with a plain-text 404, as kube-apiserver's mux does.
    pub(crate) fn page_not_found() -> Self {
        Self::new(404, "NotFound", PAGE_NOT_FOUND)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.message == PAGE_NOT_FOUND
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        Self::new(404, "NotFound", format!("{subject} not found")).about(subject)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let why = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", why)
    }

    /// Parses the resourceVersion of a get, a watch or an object. A text that is no number gets the code 500 without a
    /// reason, as from kube-apiserver, whose storage layer parses the number and gives no reasons. Lists do not use
    /// this function: they answer 400.
    pub(crate) fn read_revision(text: &str) -> Result<u64, Self> {
        text.parse().map_err(|_| Self::new(500, "", format!("{text:?} is no resourceVersion")))
    }

    /// Builds the refusal of a new object that has a resourceVersion. The refusal has no reason, because
    /// kube-apiserver's storage layer, which makes this check, gives no reasons.
    pub(crate) fn new_object_has_revision() -> Self {
        Self::new(500, "", "resourceVersion should not be set on objects to be created")
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::new(406, "NotAcceptable", "this server answers application/json only")
    }

    pub(crate) fn already_exists(subject: Subject<'_>) -> Self {
        Self::new(409, "AlreadyExists", format!("{subject} already exists")).about(subject)
    }

    /// Adds the advice to try again, which kube-apiserver gives to a client that requested a generated name.
    pub(crate) fn no_unique_name(mut self) -> Self {
        let why = "the server was not able to generate a unique name for the object";
        self.message = format!("{}, {why}", self.message);
        if let Some(details) = &mut self.details {
            details["retryAfterSeconds"] = json!(1);
        }
        self
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {subject}: {why}");
        Self::new(409, "Conflict", message).about(subject)
    }

    pub(crate) fn stale(subject: Subject<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, why)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let why = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", why)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Answers 422 with all faulty fields. `kind` is the object's kind, not its plural, as in kube-apiserver.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let list: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let subject = Subject { group, plural: kind, name };
        let mut details = subject.details();
        let causes = causes.iter().map(
            |cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}),
        );
        details["causes"] = causes.collect();
        Self::new(422, "Invalid", format!("{subject} is invalid: {}", list.join(", ")))
            .with_details(details)
    }

    /// Answers 422 for a patch that is well formed but does not fit the object.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// Answers 504 to a client that knows a later revision than this server, for example because the server was
    /// restored from an older backup. Clients recognise the cause in this Status and list again.
    pub(crate) fn revision_too_large(requested: u64, current: u64) -> Self {
        let why = format!("Too large resource version: {requested}, current: {current}");
        Self::new(504, "Timeout", why.as_str()).with_cause("ResourceVersionTooLarge", &why)
    }

    pub(crate) fn out_of_space(message: impl fmt::Display) -> Self {
        Self::new(507, "InsufficientStorage", format!("the change could not be stored: {message}"))
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        status
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
