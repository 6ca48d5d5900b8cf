//! HTTP pages for a kubelet's probes and for Prometheus, off unless `--http-listen` is given.
//!
//! | page | content |
//! |---|---|
//! | `/healthz` | the process answers |
//! | `/readyz` | 200 once every object was read and while ClientMounts are watched, else 503: until then nodes wait |
//! | `/metrics` | how many nodes are connected and well, and how the engine's workflows are, in the text format of OpenMetrics |

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
use workflow::metrics::MetricsReader;

/// Why the pages cannot be served.
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
    engine: MetricsReader,
) -> Infallible {
    daemon::pages::serve(listener, pages(Known { hub, engine })).await
}

/// What the pages show.
#[derive(Clone, Debug)]
struct Known {
    hub: Arc<Hub>,
    engine: MetricsReader,
}

fn pages(known: Known) -> Router {
    Router::new()
        .route("/healthz", get("ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(known)
}

async fn readyz(State(Known { hub, .. }): State<Known>) -> (StatusCode, String) {
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

async fn metrics(State(known): State<Known>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let engine = known.engine.text().await;
    ([(CONTENT_TYPE, OPEN_METRICS)], metrics::text(&known.hub.nodes(), &engine))
}
