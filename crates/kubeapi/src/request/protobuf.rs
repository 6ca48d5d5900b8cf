//! Decodes protobuf bodies. client-go sends them from version 1.32 on, for the kinds that are compiled into client-go
//! (Kubernetes pull request 125314). The tables list the fields of the messages in `generated.proto` of k8s.io/api
//! and k8s.io/apimachinery, for the kinds of this server. A request with a field that is not in the tables is
//! refused: no field is dropped.

use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use serde_json::{Map, Value};

/// Prefix of every encoded object (apimachinery `serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";

type Table = &'static [(u32, &'static str, Kind)];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Flag,
    Time,
    MicroTime,
    Message(Table),
    Texts,
    Messages(Table),
    TextMap,
    BytesMap,
}

/// Builds the table of a message's fields from a line `number name kind` for each field.
macro_rules! table {
    ($($number:literal $name:tt $kind:ident $(($of:ident))?),*) => {
        &[$(($number, stringify!($name), Kind::$kind $(($of))?)),*]
    };
}

const OWNER: Table = table![
    1 kind Text, 3 name Text, 4 uid Text, 5 apiVersion Text, 6 controller Flag, 7 blockOwnerDeletion Flag
];
const META: Table = table![
    1 name Text, 2 generateName Text, 3 namespace Text, 4 selfLink Text, 5 uid Text, 6 resourceVersion Text,
    7 generation Integer, 8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds Integer,
    11 labels TextMap, 12 annotations TextMap, 13 ownerReferences Messages(OWNER), 14 finalizers Texts
];
const NAMESPACE_SPEC: Table = table![1 finalizers Texts];
const NAMESPACE_STATUS: Table = table![1 phase Text];
const NAMESPACE: Table = table![1 metadata Message(META), 2 spec Message(NAMESPACE_SPEC), 3 status Message(NAMESPACE_STATUS)];
const CONFIG_MAP: Table =
    table![1 metadata Message(META), 2 data TextMap, 3 binaryData BytesMap, 4 immutable Flag];
const SECRET: Table = table![
    1 metadata Message(META), 2 data BytesMap, 3 type Text, 4 stringData TextMap, 5 immutable Flag
];
const LEASE_SPEC: Table = table![
    1 holderIdentity Text, 2 leaseDurationSeconds Integer, 3 acquireTime MicroTime, 4 renewTime MicroTime,
    5 leaseTransitions Integer, 6 strategy Text, 7 preferredHolder Text
];
const LEASE: Table = table![1 metadata Message(META), 2 spec Message(LEASE_SPEC)];
const REFERENCE: Table = table![
    1 kind Text, 2 namespace Text, 3 name Text, 4 uid Text, 5 apiVersion Text, 6 resourceVersion Text, 7 fieldPath Text
];
const SOURCE: Table = table![1 component Text, 2 host Text];
const SERIES: Table = table![1 count Integer, 2 lastObservedTime MicroTime];
const EVENT: Table = table![
    1 metadata Message(META), 2 involvedObject Message(REFERENCE), 3 reason Text, 4 message Text,
    5 source Message(SOURCE), 6 firstTimestamp Time, 7 lastTimestamp Time, 8 count Integer, 9 type Text,
    10 eventTime MicroTime, 11 series Message(SERIES), 12 action Text, 13 related Message(REFERENCE),
    14 reportingComponent Text, 15 reportingInstance Text
];
/// Fields of an Event in events.k8s.io/v1.
const NEWER_EVENT: Table = table![
    1 metadata Message(META), 2 eventTime MicroTime, 3 series Message(SERIES), 4 reportingController Text,
    5 reportingInstance Text, 6 action Text, 7 reason Text, 8 regarding Message(REFERENCE), 9 related Message(REFERENCE),
    10 note Text, 11 type Text, 12 deprecatedSource Message(SOURCE), 13 deprecatedFirstTimestamp Time,
    14 deprecatedLastTimestamp Time, 15 deprecatedCount Integer
];
const PRECONDITIONS: Table = table![1 uid Text, 2 resourceVersion Text];
const DELETE_OPTIONS: Table = table![
    1 gracePeriodSeconds Integer, 2 preconditions Message(PRECONDITIONS), 3 orphanDependents Flag,
    4 propagationPolicy Text, 5 dryRun Texts
];
const TYPE: Table = table![1 apiVersion Text, 2 kind Text];

/// Decodes an object to its JSON. Answers 415 for a kind without a table here, and 400 for malformed bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, Status> {
    let unknown = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| malformed("it does not start with the magic of Kubernetes"))?;
    let (mut kind, mut raw) = (Map::new(), None);
    let mut rest = unknown;
    while let Some((number, field)) = next(&mut rest)? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => kind = message(bytes, TYPE)?,
            (2, Field::Bytes(bytes)) => raw = Some(bytes),
            _ => {}
        }
    }
    let text = |name: &str| kind.get(name).and_then(Value::as_str).unwrap_or_default();
    let table = match (text("apiVersion"), text("kind")) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "Event") => EVENT,
        ("events.k8s.io/v1", "Event") => NEWER_EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        (version, kind) => {
            return Err(Status::unsupported_media_type(format!(
                "this server does not read {version} {kind} as protobuf - accepted media types include: application/json, application/yaml"
            )));
        }
    };
    let mut object = message(raw.ok_or_else(|| malformed("it holds no object"))?, table)?;
    object.extend(kind);
    Ok(Value::Object(object))
}

fn malformed(what: &str) -> Status {
    Status::bad_request(format!("the body is not valid protobuf: {what}"))
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Takes the next field from a message.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<(u32, Field<'a>)>, Status> {
    if rest.is_empty() {
        return Ok(None);
    }
    let malformed = |error: prost::DecodeError| malformed(&error.to_string());
    let (number, kind) = decode_key(rest).map_err(malformed)?;
    let value = match kind {
        WireType::Varint | WireType::LengthDelimited => decode_varint(rest).map_err(malformed)?,
        other => {
            return Err(self::malformed(&format!(
                "Kubernetes uses no fields of wire type {other:?}"
            )));
        }
    };
    if kind == WireType::Varint {
        return Ok(Some((number, Field::Number(value))));
    }
    let length = usize::try_from(value).unwrap_or(usize::MAX);
    let bytes = rest.get(..length).ok_or_else(|| self::malformed("it is cut off"))?;
    rest.advance(length);
    Ok(Some((number, Field::Bytes(bytes))))
}

fn message(mut rest: &[u8], table: Table) -> Result<Map<String, Value>, Status> {
    let mut object = Map::new();
    while let Some((number, field)) = next(&mut rest)? {
        let Some((_, name, kind)) = table.iter().find(|(known, _, _)| *known == number) else {
            return Err(Status::unsupported_media_type(format!(
                "this server does not know protobuf field {number}: send application/json"
            )));
        };
        member(&mut object, name, *kind, &field)?;
    }
    Ok(object)
}

/// Adds a field to an object. Go encodes unset strings and times as empty fields; JSON has no members for them.
fn member(
    object: &mut Map<String, Value>,
    name: &str,
    kind: Kind,
    field: &Field<'_>,
) -> Result<(), Status> {
    let value = match (kind, field) {
        (Kind::Text | Kind::Time | Kind::MicroTime, Field::Bytes([])) => return Ok(()),
        (Kind::Text, Field::Bytes(bytes)) => text(bytes)?.into(),
        (Kind::Integer, Field::Number(number)) => number.cast_signed().into(),
        (Kind::Flag, Field::Number(number)) => (*number != 0).into(),
        (Kind::Time, Field::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ")?.into(),
        (Kind::MicroTime, Field::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ")?.into(),
        (Kind::Message(table), Field::Bytes(bytes)) => message(bytes, table)?.into(),
        (Kind::Texts, Field::Bytes(bytes)) => return push(object, name, text(bytes)?.into()),
        (Kind::Messages(table), Field::Bytes(bytes)) => {
            return push(object, name, message(bytes, table)?.into());
        }
        (Kind::TextMap, Field::Bytes(bytes)) => {
            return entry(object, name, bytes, |value| text(value).map(str::to_owned));
        }
        (Kind::BytesMap, Field::Bytes(bytes)) => {
            return entry(object, name, bytes, |value| Ok(STANDARD.encode(value)));
        }
        _ => return Err(malformed(&format!("{name} has another type"))),
    };
    object.insert(name.to_owned(), value);
    Ok(())
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Status> {
    if let Value::Array(items) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
        items.push(value);
    }
    Ok(())
}

/// Adds an entry of a map: a message with the key as field 1 and the value as field 2.
fn entry(
    object: &mut Map<String, Value>,
    name: &str,
    mut rest: &[u8],
    read: impl Fn(&[u8]) -> Result<String, Status>,
) -> Result<(), Status> {
    let (mut key, mut value) = (&[][..], &[][..]);
    while let Some((number, field)) = next(&mut rest)? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => key = bytes,
            (2, Field::Bytes(bytes)) => value = bytes,
            _ => {
                return Err(malformed(&format!(
                    "an entry of {name} has other fields than a key and a value"
                )));
            }
        }
    }
    if let Value::Object(map) = object.entry(name).or_insert_with(|| Value::Object(Map::new())) {
        map.insert(text(key)?.to_owned(), read(value)?.into());
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, Status> {
    std::str::from_utf8(bytes).map_err(|_| malformed("a string is not UTF-8"))
}

/// Decodes seconds and nanoseconds since 1970.
fn time(mut rest: &[u8], digits: &str) -> Result<String, Status> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    while let Some((number, field)) = next(&mut rest)? {
        match (number, field) {
            (1, Field::Number(number)) => seconds = number.cast_signed(),
            (2, Field::Number(number)) => nanoseconds = i32::try_from(number).unwrap_or(-1),
            _ => {}
        }
    }
    let time = jiff::Timestamp::new(seconds, nanoseconds)
        .map_err(|_| malformed("a time is out of range"))?;
    Ok(time.strftime(digits).to_string())
}

#[cfg(test)]
mod tests;
