//! What Kubernetes lets names, labels and annotations look like (apimachinery `validation`), with its own words for what is wrong.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED_PARTS: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// What is wrong with an RFC 1123 label: a namespace's name.
pub(crate) fn dns_label(name: &str) -> Vec<String> {
    let mut faults = too_long(name, 63, "characters");
    if !is_dns_label(name) {
        let dotted = name.split('.').all(is_dns_label);
        faults.push(if dotted { "must not contain dots" } else { LABEL }.to_owned());
    }
    faults
}

/// What is wrong with an RFC 1123 subdomain: the name of almost every object.
pub(crate) fn dns_subdomain(name: &str) -> Vec<String> {
    let mut faults = too_long(name, 253, "characters");
    if !name.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// What is wrong with a part of a path. kube-apiserver also takes control characters, which no program gives a name on
/// purpose, and which whoever lists the objects would have to disarm.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let odd = ["/", "%"].into_iter().filter(|odd| name.contains(odd));
    let mut faults: Vec<String> = odd.map(|odd| format!("may not contain '{odd}'")).collect();
    if name.chars().any(char::is_control) {
        faults.push("may not contain control characters".to_owned());
    }
    faults
}

/// What is wrong with a label key, annotation key or finalizer: `[prefix/]name`.
pub(crate) fn qualified_name(key: &str) -> Vec<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let (prefix, name) = match parts.as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => return vec![QUALIFIED_PARTS.to_owned()],
    };
    let mut faults = Vec::new();
    match prefix {
        None => {}
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            faults.extend(dns_subdomain(prefix).iter().map(|why| format!("prefix part {why}")));
        }
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    }
    faults.extend(too_long(name, 63, "bytes").iter().map(|why| format!("name part {why}")));
    if !is_word(name) {
        faults.push(QUALIFIED.to_owned());
    }
    faults
}

/// What is wrong with the value of a label.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 63, "bytes");
    if !value.is_empty() && !is_word(value) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

/// What is wrong with a key of a ConfigMap's or Secret's data: it may become the name of a file.
pub(crate) fn data_key(key: &str) -> Vec<String> {
    let mut faults = too_long(key, 253, "characters");
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(inner) {
        faults.push(DATA_KEY.to_owned());
    }
    match key {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Both units mean bytes; which one is said depends on the rule.
fn too_long(text: &str, most: usize, unit: &str) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} {unit}")] } else { Vec::new() }
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
            assert!(dns_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", ".a", &"a".repeat(254)] {
            assert!(!dns_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(!dns_label("a.b").is_empty());
        assert!(!dns_label(&"a".repeat(64)).is_empty());
    }

    #[test]
    fn label_keys_and_values() {
        for good in ["a", "nnf.cray.hpe.com/job_id", "A.b_c"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "UPPER.com/a", &"a".repeat(64)] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty());
        assert!(!label_value("a b").is_empty());
        for good in ["a", "A_b-c.d", ".hidden", "a..b"] {
            assert!(data_key(good).is_empty(), "{good}");
        }
        for bad in ["", ".", "..", "..a", "a b", "a/b", &"a".repeat(254)] {
            assert!(!data_key(bad).is_empty(), "{bad}");
        }
        assert!(!label_value(&"a".repeat(64)).is_empty());
    }
}
