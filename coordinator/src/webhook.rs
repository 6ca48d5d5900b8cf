//! Admission webhooks of a cluster: the API server calls [`crate::admission`] over HTTPS before it stores a change.
//!
//! `POST /complete` serves a MutatingWebhookConfiguration, `POST /admit` a ValidatingWebhookConfiguration. Both take an
//! AdmissionReview of `admission.k8s.io/v1` and return one.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::admission::{Change, Workflows, admit, complete};
use crate::config::Webhook;

/// Largest AdmissionReview in bytes: the object before and after the change, each of 1.5 MiB at most (etcd's request
/// limit), and the user.
const LARGEST_REVIEW: usize = 4 << 20;

/// The reason why the webhook cannot be served.
#[derive(Debug, Error)]
pub enum WebhookError {
    #[error("--webhook-listen {address}: listen: choose another address or port")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("read {path}", path = path.display())]
    Pem {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("set up TLS for the webhook with the files of --certificate and --key")]
    Tls(#[from] rustls::Error),
}

/// The webhook's listener: bound, not served yet.
pub(crate) struct Listener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener {
    /// Reads the certificate, and binds the socket.
    pub(crate) async fn bind(webhook: &Webhook) -> Result<Self, WebhookError> {
        let acceptor = acceptor(webhook)?;
        let address = webhook.listen;
        let tcp = TcpListener::bind(address).await;
        let tcp = tcp.map_err(|source| WebhookError::Listen { address, source })?;
        Ok(Self { tcp, acceptor })
    }

    /// Answers reviews for ever.
    pub(crate) async fn serve(self, workflows: Workflows) -> Infallible {
        let router = Router::new()
            .route("/complete", post(complete_review))
            .route("/admit", post(admit_review))
            .layer(DefaultBodyLimit::max(LARGEST_REVIEW))
            .with_state(workflows);
        daemon::pages::serve_tls(self.tcp, self.acceptor, router).await
    }
}

fn acceptor(webhook: &Webhook) -> Result<TlsAcceptor, WebhookError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        |source| WebhookError::Pem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&webhook.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed(&webhook.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&webhook.key).map_err(failed(&webhook.key))?;
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the uid of the pod that a user's token is bound to.
fn pod_uid(user: &UserInfo) -> Option<&str> {
    let extra = user.extra.as_ref()?.get("authentication.kubernetes.io/pod-uid")?;
    extra.first().map(String::as_str)
}

type Review = Json<AdmissionReview<DynamicObject>>;
type Request = AdmissionRequest<DynamicObject>;

async fn complete_review(State(workflows): State<Workflows>, Json(review): Review) -> Review {
    answer(review, |request| complete_response(request, &workflows))
}

async fn admit_review(State(workflows): State<Workflows>, Json(review): Review) -> Review {
    answer(review, |request| admit_response(request, &workflows))
}

fn answer(
    review: AdmissionReview<DynamicObject>,
    judge: impl FnOnce(&Request) -> AdmissionResponse,
) -> Review {
    let request: Result<Request, _> = review.try_into();
    let answer = request.as_ref().map_or_else(AdmissionResponse::invalid, judge);
    Json(answer.into_review())
}

/// Returns the object before a creation or update (`None` for a creation) and after it; `None` for any other operation.
fn objects(request: &Request) -> Option<(Option<Value>, Value)> {
    let value = |object: &Option<DynamicObject>| {
        object.as_ref().and_then(|object| serde_json::to_value(object).ok())
    };
    match request.operation {
        Operation::Create | Operation::Update => {
            Some((value(&request.old_object), value(&request.object)?))
        }
        Operation::Delete | Operation::Connect => None,
    }
}

fn change<'a>(request: &'a Request, (old, new): &'a (Option<Value>, Value)) -> Change<'a> {
    Change {
        group: &request.resource.group,
        resource: &request.resource.resource,
        subresource: request.sub_resource.as_deref(),
        caller: pod_uid(&request.user_info),
        old: old.as_ref(),
        new,
    }
}

fn complete_response(request: &Request, workflows: &Workflows) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(objects) = objects(request) else { return response };
    let new = &objects.1;
    match complete(change(request, &objects), workflows, Timestamp::now()) {
        Some(completed) => response
            .with_patch(json_patch::diff(new, &completed))
            .unwrap_or_else(AdmissionResponse::invalid),
        None => response,
    }
}

fn admit_response(request: &Request, workflows: &Workflows) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(objects) = objects(request) else { return response };
    match admit(change(request, &objects), workflows) {
        Ok(()) => response,
        Err(why) => {
            let mut denied = response.deny(why.text());
            // Sets the same code and reason as a refusal of the embedded API has: the API server's default code
            // would be 400.
            let (code, reason) = why.code();
            (denied.result.code, denied.result.reason) = (code, reason.to_owned());
            denied
        }
    }
}
