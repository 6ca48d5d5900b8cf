use std::{fs, path::Path};

use anyhow::Context;
use serde_json::Value;

/// One request from the server's audit log (audit.k8s.io/v1).
#[derive(Debug, Clone)]
pub struct AuditEvent {
    /// Name of the user who sent the request.
    pub user: String,
    /// `get`, `watch`, `patch` and so on.
    pub verb: String,
    /// Plural name of the kind, with the subresource if there is one: `workflows/status`.
    pub resource: String,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object; empty for lists and watches.
    pub name: String,
    /// The request's path with its query.
    pub uri: String,
    /// HTTP status code of the response.
    pub code: u64,
    /// `ResponseStarted` if the request is a watch that is still open, else `ResponseComplete`.
    pub stage: String,
    /// Time at which the server received the request, in a form whose alphabetical order is the
    /// order of times: `2026-01-31T12:00:00.000000Z`.
    pub received: String,
    /// User-Agent header of the client.
    pub agent: String,
    /// Bytes of the request's body, as JSON without white space.
    pub request_bytes: usize,
    /// Bytes of the response's body, as JSON without white space; 0 for a watch.
    pub response_bytes: usize,
}

impl AuditEvent {
    fn read(event: &Value) -> Self {
        let text = |pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let bytes = |field: &str| event.get(field).map_or(0, |body| body.to_string().len());
        let resource = match text("/objectRef/subresource") {
            sub if sub.is_empty() => text("/objectRef/resource"),
            sub => format!("{}/{sub}", text("/objectRef/resource")),
        };
        Self {
            user: text("/user/username"),
            verb: text("/verb"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            uri: text("/requestURI"),
            code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
            stage: text("/stage"),
            received: text("/requestReceivedTimestamp"),
            agent: text("/userAgent"),
            request_bytes: bytes("requestObject"),
            response_bytes: bytes("responseObject"),
        }
    }
}

/// Reads all requests of an audit log. A last line that is still being written is left out.
///
/// # Errors
/// When the log cannot be read, or a complete line is not JSON.
pub fn read_audit(path: &Path) -> anyhow::Result<Vec<AuditEvent>> {
    let text = fs::read_to_string(path).context("read the audit log")?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parsed = whole.lines().map(|line| {
        let event: Value = serde_json::from_str(line).context("decode the audit log")?;
        Ok(AuditEvent::read(&event))
    });
    parsed.collect()
}
