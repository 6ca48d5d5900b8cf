//! What a client says around its request: query options, accepted forms, the body.

mod protobuf;

use crate::body::RequestBody;
use crate::form::{Form, Include};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Cause;
use crate::status::Status;
use crate::value::BODY_LIMIT;
use crate::verbs::FieldValidation;
use crate::verbs::delete::{self, DeleteOptions, Policy};
use crate::verbs::list::{self, ListOptions, Selection};
use crate::verbs::watch::WatchOptions;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Longest time that a watch may ask for.
const LONGEST_WATCH: u64 = 7 * 24 * 3600;

/// The query of a request; of an option that comes twice the first counts, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Query(HashMap<String, String>);

/// What writes have in common.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let mut first = HashMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            first.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(first)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// As Go reads flags: everything but two words is true.
    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number below zero counts as none.
    fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number: i64 = text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?;
        Ok(u64::try_from(number).ok())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.flag("watch") == Some(true)
    }

    /// Checks the `resourceVersion` of a get. This server always answers with the latest revision, which satisfies any.
    ///
    /// # Errors
    /// 500 for a text that is no revision, as kube-apiserver answers.
    pub(crate) fn revision(&self) -> Result<(), Status> {
        self.text("resourceVersion").map_or(Ok(()), |text| Status::read_revision(&text).map(drop))
    }

    /// The options that all writes have; `kind` is what the API calls them together.
    ///
    /// # Errors
    /// 422 for a `dryRun` or `fieldValidation` that does not exist.
    pub(crate) fn write(&self, kind: &str) -> Result<WriteOptions, Status> {
        let mut causes = Vec::new();
        if kind == "PatchOptions" && self.get("force").is_some_and(|force| !force.is_empty()) {
            let why = "may not be specified for non-apply patch";
            causes.push(Cause::forbidden("force", why));
        }
        let dry_run = self.get("dryRun");
        if let Some(other) = dry_run.filter(|value| *value != "All") {
            causes.push(Cause::unsupported("dryRun", &json!([other]), &[json!("All")]));
        }
        let field_validation = match self.get("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            // A delete knows no such option.
            Some(_) if kind == "DeleteOptions" => FieldValidation::Warn,
            Some(other) => {
                let modes = ["", "Ignore", "Strict", "Warn"].map(Value::from);
                causes.push(Cause::unsupported("fieldValidation", &json!(other), &modes));
                FieldValidation::Warn
            }
        };
        if causes.is_empty() {
            Ok(WriteOptions { dry_run: dry_run.is_some(), field_validation })
        } else {
            Err(Status::invalid("meta.k8s.io", kind, "", &causes))
        }
    }

    /// What a list or the deletion of a collection is about.
    pub(crate) fn selection(&self) -> Result<Selection, Status> {
        for number in ["timeoutSeconds", "limit"] {
            self.number(number)?;
        }
        Ok(Selection {
            labels: LabelSelector::parse(self.get("labelSelector").unwrap_or_default())?,
            fields: FieldSelector::parse(self.get("fieldSelector").unwrap_or_default())?,
        })
    }

    pub(crate) fn list(&self) -> Result<ListOptions, Status> {
        if self.flag("sendInitialEvents").is_some() {
            let why = "sendInitialEvents is forbidden for list";
            return Err(list::invalid_options(&[Cause::forbidden("sendInitialEvents", why)]));
        }
        // Numbers are read before selectors are.
        let limit = self.number("limit")?;
        Ok(ListOptions {
            selection: self.selection()?,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            token: self.text("continue"),
            revision: self.text("resourceVersion"),
            revision_match: self.text("resourceVersionMatch"),
        })
    }

    pub(crate) fn watch(&self) -> Result<WatchOptions, Status> {
        let timeout = self.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        Ok(WatchOptions {
            selection: self.selection()?,
            revision: self.text("resourceVersion"),
            revision_match: self.text("resourceVersionMatch"),
            token: self.text("continue"),
            bookmarks: self.flag("allowWatchBookmarks") == Some(true),
            send_initial: self.flag("sendInitialEvents"),
            timeout: timeout.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WATCH))),
        })
    }

    /// The options of a delete: the body's alone when there is one, as kube-apiserver reads them, else the query's.
    pub(crate) fn delete(&self, body: &Value) -> Result<DeleteOptions, Status> {
        if !body.is_null() {
            return DeleteOptions::read(body);
        }
        let mut options = DeleteOptions::default();
        self.number("gracePeriodSeconds")?;
        if let Some(policy) = self.get("propagationPolicy") {
            let policy = Policy::parse(policy).map_err(|cause| delete::refused(&[cause]))?;
            options.policy = Some(policy);
        } else if let Some(orphan) = self.flag("orphanDependents") {
            options.policy = Some(if orphan { Policy::Orphan } else { Policy::Background });
        }
        options.dry_run = self.write("DeleteOptions")?.dry_run;
        Ok(options)
    }

    fn include(&self) -> Result<Include, Status> {
        match self.get("includeObject") {
            None | Some("" | "Metadata") => Ok(Include::Metadata),
            Some("None") => Ok(Include::None),
            Some("Object") => Ok(Include::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The form of the Accept header that this server has and the client likes best: by quality, then by order.
///
/// # Errors
/// 406 when it has none of them.
pub(crate) fn accepted(headers: &HeaderMap, query: &Query) -> Result<Form, Status> {
    let Some(accept) = headers.get(ACCEPT) else { return Ok(Form::Object) };
    let accept = accept.to_str().map_err(|_| Status::not_acceptable())?;
    let include = query.include()?;
    let mut clauses: Vec<(f32, &str)> =
        accept.split(',').map(|clause| (quality(clause), clause)).collect();
    clauses.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    clauses
        .into_iter()
        .find_map(|(_, clause)| form(clause, include))
        .ok_or_else(Status::not_acceptable)
}

/// The `q` of a clause (RFC 9110 section 12.4.2).
fn quality(clause: &str) -> f32 {
    let parameters = clause.split(';').skip(1).filter_map(|part| part.split_once('='));
    let value = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    value.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(1.0)
}

fn form(clause: &str, include: Include) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
        return None;
    }
    let (mut kind, mut version, mut group) = (None, None, "meta.k8s.io");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "as" => kind = Some(value.trim()),
            "v" => version = Some(value.trim()),
            "g" => group = value.trim(),
            _ => {}
        }
    }
    if kind.is_some() && group != "meta.k8s.io" {
        return None;
    }
    match (kind, version) {
        (None, _) => Some(Form::Object),
        (Some("Table"), Some("v1")) => Some(Form::Table { include }),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("v1")) => {
            Some(Form::Metadata)
        }
        _ => None,
    }
}

/// The media type of the body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// Reads the whole body.
///
/// # Errors
/// 413 over the limit, 400 when the client breaks off.
pub(crate) async fn read(headers: &HeaderMap, body: impl RequestBody) -> Result<Vec<u8>, Status> {
    let announced = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > BODY_LIMIT) {
        return Err(Status::too_large(BODY_LIMIT));
    }
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_LIMIT)),
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// Decodes a body. Of a key that comes twice in JSON the last one counts.
///
/// # Errors
/// 400 that says where it is no UTF-8, JSON or YAML; 415 for another media type.
pub(crate) fn decode(media_type: &str, bytes: &[u8]) -> Result<Value, Status> {
    let text = || {
        std::str::from_utf8(bytes).map_err(|error| {
            Status::bad_request(format!(
                "the body is not valid UTF-8: wrong byte at offset {}",
                error.valid_up_to()
            ))
        })
    };
    match media_type {
        "" | "*/*" | "application/json" | "text/json" => parse_json(text()?),
        _ if media_type.ends_with("+json") => parse_json(text()?),
        "application/yaml" | "application/x-yaml" | "text/yaml" => {
            // As YAML 1.2 has it: `on` and `n` are words, not booleans.
            let options = serde_saphyr::options! { strict_booleans: true };
            serde_saphyr::from_str_with_options(text()?, options).map_err(|error| {
                Status::bad_request(format!("the body is not valid YAML: {error}"))
            })
        }
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes),
        _ if media_type.starts_with("application/apply-patch") => Ok(Value::Null),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
        )),
    }
}

fn parse_json(text: &str) -> Result<Value, Status> {
    serde_json::from_str(text)
        .map_err(|error| Status::bad_request(format!("the body is not valid JSON: {error}")))
}
