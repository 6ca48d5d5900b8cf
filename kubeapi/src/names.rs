//! What Kubernetes lets names, labels and annotations look like (apimachinery `validation`), with its own words for what is wrong.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Checks an RFC 1123 label: a namespace's name.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if is_dns_label(name) { Ok(()) } else { Err(LABEL.to_owned()) }
}

/// Checks an RFC 1123 subdomain: the name of almost every object.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 bytes".to_owned());
    }
    if name.split('.').all(is_dns_label) { Ok(()) } else { Err(SUBDOMAIN.to_owned()) }
}

/// Checks a label key, annotation key or finalizer: `[prefix/]name`.
pub(crate) fn qualified_name(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("prefix part must be non-empty".to_owned());
        }
        dns_subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
    }
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 bytes".to_owned());
    }
    if is_word(name) { Ok(()) } else { Err(QUALIFIED.to_owned()) }
}

/// Checks the value of a label.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if value.is_empty() || is_word(value) { Ok(()) } else { Err(LABEL_VALUE.to_owned()) }
}

/// Checks a key of a ConfigMap's or Secret's data: it may become the name of a file.
pub(crate) fn data_key(key: &str) -> Result<(), String> {
    if key.len() > 253 {
        return Err("must be no more than 253 bytes".to_owned());
    }
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(inner) {
        return Err(DATA_KEY.to_owned());
    }
    match key {
        "." => Err("must not be '.'".to_owned()),
        ".." => Err("must not be '..'".to_owned()),
        _ if key.starts_with("..") => Err("must not start with '..'".to_owned()),
        _ => Ok(()),
    }
}

fn is_dns_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty()
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_word(word: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    edge(word.bytes().next()) && edge(word.bytes().last()) && word.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_kubernetes_takes_them() {
        for good in ["a", "rabbit-1", "x9000c3s0b0n0", "1.2"] {
            assert_eq!(dns_subdomain(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", ".a", &"a".repeat(254)] {
            assert!(dns_subdomain(bad).is_err(), "{bad}");
        }
        assert!(dns_label("a.b").is_err());
        assert!(dns_label(&"a".repeat(64)).is_err());
    }

    #[test]
    fn label_keys_and_values() {
        for good in ["a", "nnf.cray.hpe.com/job_id", "A.b_c"] {
            assert_eq!(qualified_name(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "UPPER.com/a", &"a".repeat(64)] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
        assert_eq!(label_value(""), Ok(()));
        assert!(label_value("a b").is_err());
        for good in ["a", "A_b-c.d", ".hidden", "a..b"] {
            assert_eq!(data_key(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "..a", "a b", "a/b", &"a".repeat(254)] {
            assert!(data_key(bad).is_err(), "{bad}");
        }
        assert!(label_value(&"a".repeat(64)).is_err());
    }
}
