//! Parses the parts of a request other than its path: query options, accepted forms, the body.

mod protobuf;

use crate::body::RequestBody;
use crate::form::{Form, Include};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status};
use crate::value::BODY_LIMIT;
use crate::verbs::FieldValidation;
use crate::verbs::delete::{self, DeleteOptions, Policy};
use crate::verbs::list::{ListOptions, Selection};
use crate::verbs::watch::WatchOptions;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Longest watch that a client may request, in seconds.
const LONGEST_WATCH: u64 = 7 * 24 * 3600;

/// Query options of a request. If an option is repeated, only its first value is used, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Query(HashMap<String, String>);

/// Query options of every write.
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

    /// Returns the value of an option; `None` for an empty value too.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Parses a boolean option as Go does: every text except `0` and `false` means true.
    fn flag(&self, name: &str) -> Option<bool> {
        let value = self.0.get(name)?;
        Some(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Parses a number; `None` for a negative number too.
    fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let number = text.parse::<i64>();
        let number =
            number.map_err(|_| Status::bad_request(format!("{name}={text:?} is no number")))?;
        Ok(u64::try_from(number).ok())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.flag("watch") == Some(true)
    }

    /// Checks the syntax of the `resourceVersion` of a get, which is the oldest revision that the client accepts. The
    /// number itself has no effect, because this server always answers with the latest revision.
    pub(crate) fn revision(&self) -> Result<(), Status> {
        self.get("resourceVersion").map_or(Ok(()), |text| Status::read_revision(text).map(drop))
    }

    pub(crate) fn write(&self) -> Result<WriteOptions, Status> {
        let dry_run = self.dry_run()?;
        let field_validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let modes = ["Ignore", "Strict", "Warn"].map(Value::from);
                let cause = Cause::unsupported("fieldValidation", &json!(other), &modes);
                return Err(Status::invalid("meta.k8s.io", "UpdateOptions", "", &[cause]));
            }
        };
        Ok(WriteOptions { dry_run, field_validation })
    }

    fn dry_run(&self) -> Result<bool, Status> {
        match self.0.get("dryRun").map(String::as_str) {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let cause = Cause::unsupported("dryRun", &json!([other]), &[json!("All")]);
                Err(Status::invalid("meta.k8s.io", "UpdateOptions", "", &[cause]))
            }
        }
    }

    /// Returns the selectors of a list, or of a request that deletes a collection.
    pub(crate) fn selection(&self) -> Result<Selection, Status> {
        for number in ["limit", "timeoutSeconds"] {
            self.number(number)?;
        }
        Ok(Selection {
            labels: LabelSelector::parse(self.get("labelSelector").unwrap_or_default())?,
            fields: FieldSelector::parse(self.get("fieldSelector").unwrap_or_default())?,
        })
    }

    pub(crate) fn list(&self) -> Result<ListOptions, Status> {
        let limit = self.number("limit")?.filter(|limit| *limit > 0);
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
            bookmarks: self.flag("allowWatchBookmarks") == Some(true),
            send_initial: self.flag("sendInitialEvents"),
            timeout: timeout.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WATCH))),
        })
    }

    /// Returns the options of a delete: from the body if the request has one, as in kube-apiserver;
    /// otherwise from the query.
    pub(crate) fn delete(&self, body: &Value) -> Result<DeleteOptions, Status> {
        if !body.is_null() {
            return DeleteOptions::read(body);
        }
        self.number("gracePeriodSeconds")?;
        let policy = self.get("propagationPolicy").map(Policy::parse).transpose();
        let policy = policy.map_err(|cause| delete::invalid_options(&[cause]))?;
        Ok(DeleteOptions { policy, dry_run: self.dry_run()?, ..DeleteOptions::default() })
    }

    fn include(&self) -> Result<Include, Status> {
        match self.get("includeObject") {
            None | Some("Metadata") => Ok(Include::Metadata),
            Some("None") => Ok(Include::None),
            Some("Object") => Ok(Include::Object),
            Some(other) => Err(Status::bad_request(format!(
                "includeObject={other:?}: it must be Metadata, None or Object"
            ))),
        }
    }
}

/// Returns the first form in the Accept header that this server can produce; answers 406 when it can produce none.
pub(crate) fn accepted(headers: &HeaderMap, query: &Query) -> Result<Form, Status> {
    let Some(accept) = headers.get(ACCEPT) else { return Ok(Form::Object) };
    let include = query.include()?;
    let accept = accept.to_str().unwrap_or_default();
    accept.split(',').find_map(|clause| form(clause, include)).ok_or_else(Status::not_acceptable)
}

fn form(clause: &str, include: Include) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
        return None;
    }
    let parameters: HashMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
    let Some(kind) = parameters.get("as") else { return Some(Form::Object) };
    match (*kind, parameters.get("v"), parameters.get("g").unwrap_or(&"meta.k8s.io")) {
        ("Table", Some(&"v1"), &"meta.k8s.io") => Some(Form::Table { include }),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", Some(&"v1"), &"meta.k8s.io") => {
            Some(Form::Metadata)
        }
        _ => None,
    }
}

/// Returns the media type of the body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// Reads the whole body. Answers 413 when the body exceeds the limit, 400 when the connection ends within the body.
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

/// Decodes a body. If a JSON key is repeated, its last value is used.
pub(crate) fn decode(media_type: &str, bytes: &[u8]) -> Result<Value, Status> {
    let malformed = |kind: &str, error: &dyn std::fmt::Display| {
        Status::bad_request(format!("the body is not valid {kind}: {error}"))
    };
    match media_type {
        _ if matches!(media_type, "" | "*/*" | "application/json" | "text/json")
            || media_type.ends_with("+json") =>
        {
            serde_json::from_slice(bytes).map_err(|error| malformed("JSON", &error))
        }
        "application/yaml" | "application/x-yaml" | "text/yaml" => {
            // As in YAML 1.2, `on` and `n` are strings and not booleans.
            let options = serde_saphyr::options! { strict_booleans: true };
            let text = std::str::from_utf8(bytes).map_err(|error| malformed("UTF-8", &error))?;
            serde_saphyr::from_str_with_options(text, options)
                .map_err(|error| malformed("YAML", &error))
        }
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
        )),
    }
}
