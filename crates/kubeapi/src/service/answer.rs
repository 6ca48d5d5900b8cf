//! Answers: their headers, and how a refusal looks.

use crate::body::Body;
use crate::form::encode;
use crate::status::Status;
use http::Response;
use http::header::{ALLOW, CONTENT_TYPE, Entry, HeaderValue, WARNING};
use hyper::body::Bytes;

/// Adds the warnings that kubectl prints (RFC 7234 code 299, as apiserver writes them), the first ones in front.
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String], first: bool) {
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

pub(super) fn json_response(code: u16, bytes: Bytes) -> Response<Body> {
    respond(code, Body::whole(bytes))
}

pub(super) fn respond(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
        .headers_mut()
        .insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(super) fn plain(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = respond(200, Body::whole(text.into()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
