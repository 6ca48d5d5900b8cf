//! HTTP pages for a kubelet's probes and for Prometheus, off unless `--http-listen` is given.
//!
//! | page | content |
//! |---|---|
//! | `/healthz` | the process answers |
//! | `/readyz` | 200 once every object was read and while the watch on ClientMounts works; else 503, and nodes wait |
//! | `/metrics` | nodes by role and state, and the engine's workflows, in the text format of OpenMetrics |

mod metrics;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::hub::Hub;
use workflow::EngineHandle;

/// The address of `--http-listen` cannot be bound.
#[derive(Debug, Error)]
#[error("--http-listen {address}: listen: choose another address or port")]
pub struct HttpError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Listens for probes and Prometheus.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    TcpListener::bind(address).await.map_err(|source| HttpError { address, source })
}

/// Serves the pages for ever.
pub(crate) async fn serve(
    listener: TcpListener,
    hub: Arc<Hub>,
    engine: EngineHandle,
) -> Infallible {
    daemon::pages::serve(listener, pages(Sources { hub, engine })).await
}

/// The sources of the pages' content.
#[derive(Clone, Debug)]
struct Sources {
    hub: Arc<Hub>,
    engine: EngineHandle,
}

fn pages(sources: Sources) -> Router {
    Router::new()
        .route("/healthz", get("ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(sources)
}

async fn readyz(State(Sources { hub, .. }): State<Sources>) -> (StatusCode, String) {
    if *hub.exchange().ready().borrow() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let failing = hub.nodes().gaps;
    let why = match &*failing {
        [] => "not every object was read from the API yet".to_owned(),
        gaps => gaps.join("\n"),
    };
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

async fn metrics(State(sources): State<Sources>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let engine = sources.engine.metrics().await;
    ([(CONTENT_TYPE, OPEN_METRICS)], metrics::text(&sources.hub.nodes(), &engine))
}
