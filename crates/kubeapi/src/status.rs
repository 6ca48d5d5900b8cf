//! The errors of the API: every refusal is a `Status` object with the code, reason and details that kube-apiserver gives.

mod cause;

pub(crate) use cause::Cause;

use serde_json::{Value, json};
use std::fmt;

/// A failed request, as the client reads it (`metav1.Status`).
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    details: Option<Box<Value>>,
    /// What the client is to be warned of besides.
    pub(crate) warnings: Vec<String>,
}

const PAGE_NOT_FOUND: &str = "404 page not found\n";

/// What a request was about, for the `details` of a refusal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn details(&self) -> Value {
        let mut details = json!({});
        if !self.plural.is_empty() {
            details["kind"] = json!(self.plural);
        }
        if !self.name.is_empty() {
            details["name"] = json!(self.name);
        }
        if !self.group.is_empty() {
            details["group"] = json!(self.group);
        }
        details
    }
}

impl Status {
    /// A refusal of its own, with a code and reason of `metav1.StatusReason`.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, warnings: Vec::new() }
    }

    /// The same refusal, with warnings of what was noticed before it came to that.
    pub(crate) fn warning(mut self, warnings: &[String]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
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
        let message = format!("{} \"{}\" is forbidden: {why}", subject.qualified(), subject.name);
        Self::new(403, "Forbidden", message).about(subject)
    }

    pub(crate) fn namespace_terminating(subject: Subject<'_>, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Self::forbidden(subject, &why).with_cause(
            "NamespaceTerminating",
            &format!("namespace {namespace} is being terminated"),
        )
    }

    /// The path leads nowhere.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(json!({}))
    }

    /// No group, version or kind of a definition is there: the handler that answers then is not that of an API.
    pub(crate) fn page_not_found() -> Self {
        Self::new(404, "NotFound", PAGE_NOT_FOUND)
    }

    /// Whether the answer is plain text.
    pub(crate) fn is_plain(&self) -> bool {
        self.message == PAGE_NOT_FOUND
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        let message = format!("{} \"{}\" not found", subject.qualified(), subject.name);
        Self::new(404, "NotFound", message).about(subject)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    /// Reads the resourceVersion of a get, a watch or an object.
    ///
    /// # Errors
    /// 500 without a reason for a text that is no number: kube-apiserver parses it in its storage layer, whose errors
    /// have none. A list answers 400.
    pub(crate) fn read_revision(text: &str) -> Result<u64, Self> {
        text.parse().map_err(|_| Self::new(500, "", format!("{text:?} is no resourceVersion")))
    }

    /// The refusal of a new object with a resourceVersion. kube-apiserver's storage layer refuses it, without a reason.
    pub(crate) fn revision_of_new() -> Self {
        Self::new(500, "", "resourceVersion should not be set on objects to be created")
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        )
    }

    pub(crate) fn already_exists(subject: Subject<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", subject.qualified(), subject.name);
        Self::new(409, "AlreadyExists", message).about(subject)
    }

    /// Tells a client that asked for a generated name to try again.
    pub(crate) fn no_unique_name(mut self) -> Self {
        let why = "the server was not able to generate a unique name for the object";
        self.message = format!("{}, {why}", self.message);
        if let Some(details) = &mut self.details {
            details["retryAfterSeconds"] = json!(1);
        }
        self
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            subject.qualified(),
            subject.name
        );
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
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 with every field that is wrong. `kind` is the object's kind, not its plural, as in kube-apiserver.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let list: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let text = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = Subject { group, plural: kind, name }.qualified();
        let mut details = Subject { group, plural: kind, name }.details();
        details["causes"] = causes
            .iter()
            .map(|cause| json!({ "reason": cause.reason, "message": cause.message, "field": cause.field }))
            .collect();
        Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {text}"))
            .with_details(details)
    }

    /// The patch is well formed but does not fit the object.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message).with_details(json!({}))
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({"causes": [{"message": message}]}))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The client has seen a later state than this server has, which was restored from an older copy. Clients know the cause
    /// and list anew.
    pub(crate) fn revision_too_large(asked: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Too large resource version: {asked}, current: {current}"),
        )
        .with_cause("ResourceVersionTooLarge", "Too large resource version")
    }

    pub(crate) fn out_of_space(message: impl fmt::Display) -> Self {
        Self::new(507, "InsufficientStorage", format!("the change could not be stored: {message}"))
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The object that goes over the wire.
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
