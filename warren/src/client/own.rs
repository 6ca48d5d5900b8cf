//! The Kubernetes API as a user without rights sees it: read-only, with this user's own objects. The coordinator's service
//! `Workloads` returns the objects; this client answers requests from them, so that all verbs that read work as with the API.
//! The only write that it passes on is a request for the logs of NodeContainers.

mod paths;

use api::names::annotation;
use http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use proto::v1::ObjectsRequest;
use proto::v1::workloads_client::WorkloadsClient;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::service_fn;

use paths::{Target, target};

/// Largest accepted object in bytes: etcd stores at most 1.5 MiB by default.
const LARGEST_OBJECT: usize = 16 << 20;

/// Returns a client that reads through `channel`.
pub(super) fn client(channel: Channel) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let channel = channel.clone();
        let (head, body) = request.into_parts();
        async move {
            let asks_for_logs = head.method == Method::PATCH && is_log_request(body).await;
            answer(channel, &head.method, &head.uri, asks_for_logs).await
        }
    });
    Client::new(service, "default")
}

async fn answer(
    channel: Channel,
    method: &Method,
    uri: &Uri,
    asks_for_logs: bool,
) -> Result<Response<Body>, http::Error> {
    let watches = uri.query().is_some_and(|query| query.contains("watch="));
    if *method != Method::GET && !asks_for_logs || watches {
        return refuse(
            StatusCode::FORBIDDEN,
            "the socket for users shows your own objects as they are now; changes and watches need the API",
        );
    }
    let Some(target) = target(uri) else {
        return refuse(StatusCode::NOT_FOUND, "the socket for users does not show this kind");
    };
    let (kind, namespace, name, labels) = match target {
        Target::Discovery(answer) => return respond(StatusCode::OK, &answer),
        Target::Objects { kind, namespace, name, labels } => (kind, namespace, name, labels),
    };
    let request = ObjectsRequest {
        kind: kind.kind.clone(),
        labels,
        user_id: None,
        namespace: namespace.unwrap_or_default(),
        name: name.clone().unwrap_or_default(),
        with_new_logs: asks_for_logs,
    };
    let objects = match read(channel, request).await {
        Ok(objects) => objects,
        Err(status) => return refuse(http_status(status.code()), status.message()),
    };
    let Some(name) = name else {
        return respond(
            StatusCode::OK,
            &json!({"apiVersion": kind.api_version, "kind": format!("{}List", kind.kind), "metadata": {}, "items": objects}),
        );
    };
    match objects.first() {
        Some(object) => respond(StatusCode::OK, object),
        None => refuse(
            StatusCode::NOT_FOUND,
            &format!("you have no {} {name:?}; objects of other users are not shown", kind.kind),
        ),
    }
}

/// Returns whether a patch only requests the logs of NodeContainers, as `warren logs` does.
async fn is_log_request(body: Body) -> bool {
    let Ok(bytes) = body.collect_bytes().await else { return false };
    let patch: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let time = patch["metadata"]["annotations"][annotation::LOGS_ASKED].clone();
    patch == json!({"metadata": {"annotations": {annotation::LOGS_ASKED: time}}})
}

/// Reads own objects.
async fn read(channel: Channel, request: ObjectsRequest) -> Result<Vec<Value>, Status> {
    let mut client = WorkloadsClient::new(channel).max_decoding_message_size(LARGEST_OBJECT);
    let mut stream = client.objects(request).await?.into_inner();
    let mut objects = Vec::new();
    while let Some(object) = stream.message().await? {
        let object = serde_json::from_str(&object.json);
        objects.push(object.map_err(|error| Status::internal(format!("decode: {error}")))?);
    }
    Ok(objects)
}

fn http_status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unimplemented => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Answers with an error, as the API writes it.
fn refuse(code: StatusCode, message: &str) -> Result<Response<Body>, http::Error> {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16()});
    respond(code, &status)
}

fn respond(code: StatusCode, content: &Value) -> Result<Response<Body>, http::Error> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(content.to_string().into_bytes()))
}
