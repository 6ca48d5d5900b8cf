//! Answers: their headers and the form of a refusal.

use crate::body::Body;
use crate::form::encode;
use crate::status::Status;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use hyper::body::Bytes;

/// Adds warnings, which kubectl prints (RFC 7234 code 299, in apiserver's format).
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // Bytes, not a str: names of fields need not be ASCII, and a header may carry UTF-8.
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

pub(crate) fn refuse(status: &Status) -> Response<Body> {
    match status.is_plain() {
        true => text(404, status.message.clone()),
        false => json_response(status.code, encode(&status.to_json())),
    }
}

pub(super) fn json_response(code: u16, bytes: Bytes) -> Response<Body> {
    respond(code, Body::whole(bytes))
}

pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = respond(code, Body::whole(text.into()));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

pub(super) fn respond(code: u16, body: Body) -> Response<Body> {
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    let response = response.header(CACHE_CONTROL, "no-cache, private").body(body);
    response.expect("these headers and all codes of this server are valid")
}
