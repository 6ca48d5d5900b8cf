//! Answers for requests that are about no object: health, backup, discovery, OpenAPI.

use super::ApiService;
use super::answer::{json_response, respond, text};
use crate::body::Body;
use crate::form::encode;
use crate::openapi;
use crate::registry::discovery;
use crate::routes::Route;
use crate::status::Status;
use crate::store::backup;
use http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

impl ApiService {
    pub(super) fn document(&self, route: &Route) -> Result<Response<Body>, Status> {
        let registry = Arc::clone(&self.store.shared.read().registry);
        let document = match route {
            Route::Objects(_) => None,
            Route::Health => return Ok(text(200, "ok")),
            Route::Backup => {
                return Ok(respond(200, Body::events(backup::write(&self.store.shared))));
            }
            Route::Version => Some(version()),
            Route::CoreVersions => Some(discovery::core_versions()),
            Route::Groups => Some(discovery::groups(&registry)),
            Route::Group(group) => discovery::group(&registry, group),
            Route::Resources { group, version } => discovery::resources(&registry, group, version),
            Route::OpenApiIndex => Some(openapi::index(&registry)),
            Route::OpenApiV3 { group, version } => openapi::document(&registry, group, version),
        };
        let document = document.ok_or_else(Status::page_not_found)?;
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
