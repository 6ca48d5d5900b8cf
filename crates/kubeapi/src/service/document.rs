//! Requests without an object: health, backup, discovery, OpenAPI.

use super::answer::{json_response, plain, respond};
use super::{ApiService, Call};
use crate::body::Body;
use crate::form::encode;
use crate::openapi;
use crate::registry::discovery;
use crate::routes::Route;
use crate::status::Status;
use crate::store::backup;
use http::{Method, Response};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;

impl ApiService {
    pub(super) fn document(&self, call: &Call, route: &Route) -> Result<Response<Body>, Status> {
        if call.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let registry = Arc::clone(&self.store.shared.read().registry);
        let found = |document: Option<Value>| document.ok_or_else(Status::page_not_found);
        let document = match route {
            Route::Objects(_) => return Err(Status::no_such_path()),
            Route::Health => return Ok(plain("ok")),
            Route::Backup => {
                return Ok(respond(200, Body::events(backup::write(&self.store.shared))));
            }
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
            Route::OpenApiIndex => openapi::index(&registry),
            Route::OpenApiV3 { group, version } => {
                match openapi::document(&registry, group, version) {
                    Some(document) => document,
                    // kube-apiserver answers an unknown document without a body.
                    None => return Ok(respond(404, Body::whole(Bytes::new()))),
                }
            }
        };
        Ok(json_response(200, encode(&document)))
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+warren.", env!("CARGO_PKG_VERSION")), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
