//! Reads objects from files. All files are parsed before the first object is used.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use kube::Resource;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

mod unique;
use unique::Unique;

/// Largest request of the API in bytes.
const LIMIT: u64 = 3 << 20;

/// One object and its place in a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The object's place, such as `mounts.yaml, document 2`.
    pub place: String,
    /// The object, with parsed `apiVersion`, `kind` and metadata.
    pub object: DynamicObject,
    /// The object as in the file.
    pub value: Value,
}

impl Document {
    /// Returns whether the object is of this kind, in this version.
    pub(crate) fn is_kind<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.object.types.as_ref().is_some_and(|types| {
            types.kind == K::kind(&()) && types.api_version == K::api_version(&())
        })
    }
}

/// The reason why a file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ManifestError {
    #[error("read {place}: {source}")]
    Read { place: String, source: std::io::Error },
    #[error("{place} has more than 3 MiB, the API's limit of one request: split it")]
    TooLarge { place: String },
    #[error("{place} is not UTF-8 from byte {byte} on: save it as UTF-8")]
    NotUtf8 { place: String, byte: usize },
    #[error("{place} cannot be read as {format}: {message}")]
    Syntax { place: String, format: &'static str, message: String },
    #[error("{place}: {message}")]
    NotAnObject { place: String, message: String },
    #[error("{place} holds no file named *.yaml, *.yml or *.json")]
    EmptyDirectory { place: String },
    #[error("{place} holds no object")]
    Empty { place: String },
}

/// Reads all objects of files, directories, and `-` for standard input, in order.
///
/// # Errors
/// Names the file and the document that cannot be used.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for file in files {
        if file == Path::new("-") {
            let text = read_text("standard input", std::io::stdin().lock())?;
            documents.extend(parse("standard input", &text, false)?);
            continue;
        }
        for file in expand(file)? {
            documents.extend(read_file(&file)?);
        }
    }
    Ok(documents)
}

/// Returns the manifests of a directory, sorted by name; for a file, the file.
fn expand(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let place = path.display().to_string();
    let failed = |source| ManifestError::Read { place: place.clone(), source };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ManifestError::EmptyDirectory { place });
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Vec<Document>, ManifestError> {
    let place = path.display().to_string();
    let file = fs::File::open(path)
        .map_err(|source| ManifestError::Read { place: place.clone(), source })?;
    let text = read_text(&place, file)?;
    parse(&place, &text, path.extension().is_some_and(|extension| extension == "json"))
}

fn read_text(place: &str, reader: impl Read) -> Result<String, ManifestError> {
    let mut bytes = Vec::new();
    reader
        .take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| ManifestError::Read { place: place.to_owned(), source })?;
    if bytes.len() as u64 > LIMIT {
        return Err(ManifestError::TooLarge { place: place.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| ManifestError::NotUtf8 {
        place: place.to_owned(),
        byte: error.utf8_error().valid_up_to(),
    })
}

fn parse(place: &str, text: &str, json: bool) -> Result<Vec<Document>, ManifestError> {
    let syntax = |format, message: String| ManifestError::Syntax {
        place: place.to_owned(),
        format,
        message,
    };
    let values: Vec<Value> = if json {
        let values = serde_json::Deserializer::from_str(text).into_iter::<Unique>();
        let values: Result<_, _> = values.map(|value| value.map(|Unique(value)| value)).collect();
        values.map_err(|error: serde_json::Error| syntax("JSON", error.to_string()))?
    } else {
        serde_saphyr::from_multiple(text).map_err(|error| syntax("YAML", error.to_string()))?
    };
    let mut documents = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        if value.is_null() {
            continue;
        }
        let place = format!("{place}, document {}", index + 1);
        for (place, value) in items(place, value) {
            documents.push(document(place, value)?);
        }
    }
    if documents.is_empty() {
        return Err(ManifestError::Empty { place: place.to_owned() });
    }
    Ok(documents)
}

/// Replaces a `List` by its items.
fn items(place: String, mut value: Value) -> Vec<(String, Value)> {
    let is_list =
        value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| (format!("{place}, item {}", index + 1), item))
            .collect(),
        _ => vec![(place, value)],
    }
}

fn document(place: String, value: Value) -> Result<Document, ManifestError> {
    let wrong = |message: &str| ManifestError::NotAnObject {
        place: place.clone(),
        message: message.to_owned(),
    };
    let text =
        |pointer| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !value.is_object() {
        return Err(wrong("not an object; expected apiVersion, kind, metadata"));
    }
    for (pointer, field) in
        [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
    {
        if text(pointer).is_none() {
            return Err(wrong(&format!("{field} is missing or not a string")));
        }
    }
    let object =
        DynamicObject::deserialize(&value).map_err(|error| wrong(&format!("metadata: {error}")))?;
    Ok(Document { place, object, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::ResourceExt;

    const TWO: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata: {n: '1'}\n";

    fn names(documents: &[Document]) -> Vec<String> {
        documents.iter().map(|document| document.object.name_any()).collect()
    }

    #[test]
    fn several_documents_keep_order_and_place() {
        let documents = parse("f.yaml", TWO, false).unwrap();
        assert_eq!(names(&documents), ["a", "b"]);
        assert_eq!(documents[1].place, "f.yaml, document 2");
        assert_eq!(documents[1].object.data["data"]["n"], "1");
    }

    #[test]
    fn a_list_is_replaced_by_its_items() {
        let list = r#"{"apiVersion":"v1","kind":"List","items":[
            {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}},
            {"apiVersion":"v1","kind":"ConfigMap","metadata":{}}]}"#;
        let text = parse("f.json", list, true).unwrap_err().to_string();
        assert_eq!(text, "f.json, document 1, item 2: metadata.name is missing or not a string");
    }

    #[test]
    fn a_parse_error_names_the_file_and_the_fault() {
        for (text, json, part) in [
            ("{", true, "cannot be read as JSON"),
            ("a: [", false, "cannot be read as YAML"),
            ("a: 1\nb: {c: 1, c: 2}", false, "duplicate mapping key: c"),
            (r#"{"a": 1, "b": [{"c": 1, "c": 1}]}"#, true, r#"key "c" occurs twice"#),
            ("- 1", false, "document 1: not an object"),
            ("", false, "holds no object"),
            ("kind: A\nmetadata: {name: x}", false, "apiVersion is missing"),
            ("apiVersion: v1\nkind: A\nmetadata: {name: x, labels: [1]}", false, "metadata: "),
        ] {
            let error = parse("f", text, json).unwrap_err().to_string();
            assert!(error.starts_with('f') && error.contains(part), "{error}");
        }
    }

    #[test]
    fn json_values_are_kept_exactly() {
        let text = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}, "all":
            [null, true, 1, -1, 18446744073709551615, 1.5, 1e300, "t\u00fc", [], {}, {"a": {"a": 1}}]}"#;
        let documents = parse("f.json", text, true).unwrap();
        assert_eq!(documents[0].value, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn oversized_and_non_utf8_input_is_refused() {
        let large = vec![b'#'; usize::try_from(LIMIT).unwrap() + 1];
        assert!(read_text("f", large.as_slice()).unwrap_err().to_string().contains("3 MiB"));
        assert!(read_text("f", &large[1..]).is_ok());
        let error = read_text("f", &b"a: \xff"[..]).unwrap_err().to_string();
        assert!(error.contains("byte 3"), "{error}");
    }

    #[test]
    fn the_manifests_of_a_directory_are_read_in_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(&[directory.path().to_owned()]).unwrap_err();
        assert!(matches!(error, ManifestError::EmptyDirectory { .. }));
        for (file, name) in [("2.yaml", "second"), ("1.json", "first"), ("notes.txt", "x")] {
            let object = format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{name}\"}}}}"
            );
            fs::write(directory.path().join(file), object).unwrap();
        }
        assert_eq!(names(&read(&[directory.path().to_owned()]).unwrap()), ["first", "second"]);
    }
}
