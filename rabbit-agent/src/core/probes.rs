//! Serves pages for the kubelet's probes and for Prometheus.

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::get,
};

use crate::core::status::AgentStatus;

/// The pages served at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Probes,
    Metrics,
}

impl Pages {
    /// Returns the routes, which read `status`. Each route also matches its path with a slash at the end, as in Go.
    pub fn router(self, status: AgentStatus) -> Router {
        match self {
            Self::Probes => {
                let ready = get(move || std::future::ready(readyz(&status)));
                Router::new()
                    .route("/healthz", get("ok"))
                    .route("/healthz/", get("ok"))
                    .route("/readyz", ready.clone())
                    .route("/readyz/", ready)
            }
            Self::Metrics => {
                let metrics = get(move || std::future::ready(metrics(&status)));
                Router::new().route("/metrics", metrics.clone()).route("/metrics/", metrics)
            }
        }
    }
}

fn readyz(status: &AgentStatus) -> (StatusCode, &'static str) {
    if status.is_ready() {
        return (StatusCode::OK, "ok");
    }
    let why = "the agent has not listed all objects of the API yet; its log says why";
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

fn metrics(status: &AgentStatus) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], status.metrics())
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn each_address_serves_its_pages_and_readiness_follows_the_status() {
        let status = AgentStatus::default();
        for (pages, path, expected) in [
            (Pages::Probes, "/healthz", 200),
            (Pages::Probes, "/healthz/", 200),
            (Pages::Probes, "/readyz", 503),
            (Pages::Probes, "/metrics", 404),
            (Pages::Probes, "/", 404),
            (Pages::Metrics, "/metrics", 200),
            (Pages::Metrics, "/healthz", 404),
        ] {
            assert_eq!(code(pages, path, &status).await, expected, "{path}");
        }
        status.set_ready();
        assert_eq!(code(Pages::Probes, "/readyz", &status).await, 200);
    }

    async fn code(pages: Pages, path: &str, status: &AgentStatus) -> u16 {
        let request = Request::get(path).body(Body::empty()).unwrap();
        pages.router(status.clone()).oneshot(request).await.unwrap().status().as_u16()
    }
}
