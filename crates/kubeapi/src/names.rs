//! The patterns of names, labels and annotations that Kubernetes accepts (apimachinery `validation`).

use regex::Regex;
use std::sync::LazyLock;

struct Form {
    pattern: LazyLock<Regex>,
    most: usize,
    wanted: &'static str,
}

/// Builds a `Form` from a pattern that must match the whole text, the maximum number of bytes, and the words of the
/// refusal.
macro_rules! form {
    ($pattern:literal, $most:expr, $wanted:literal) => {
        Form {
            pattern: LazyLock::new(|| {
                Regex::new(concat!(r"\A(?:", $pattern, r")\z"))
                    .expect("the patterns in this file are well formed")
            }),
            most: $most,
            wanted: $wanted,
        }
    };
}

static LABEL: Form = form!(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    63,
    "at most 63 lower case letters, digits and '-', with a letter or digit at both ends"
);
static SUBDOMAIN: Form = form!(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    253,
    "a lowercase RFC 1123 subdomain of at most 253 characters: lower case letters, digits and '-', in parts between dots, with a letter or digit at both ends of each part"
);
static KEY: Form = form!(
    "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
    63,
    "[prefix/]name: the prefix a lowercase RFC 1123 subdomain, the name at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
);
static LABEL_VALUE: Form = form!(
    "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?",
    63,
    "empty, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
);
static DATA_KEY: Form = form!(
    r"[-_a-zA-Z0-9][-._a-zA-Z0-9]*|\.[-_a-zA-Z0-9][-._a-zA-Z0-9]*",
    253,
    "at most 253 letters, digits, '-', '_' and '.', and must not be '.' nor start with '..'"
);
/// Segment of a URL path. Refuses control characters, which kube-apiserver accepts: no program uses them in a name on
/// purpose, and every program that lists the objects would have to escape them.
static SEGMENT: Form =
    form!(r"[^/%\p{Cc}]*", usize::MAX, "a part of a path: without '/', '%' and control characters");

impl Form {
    fn fits(&self, text: &str) -> bool {
        text.len() <= self.most && self.pattern.is_match(text)
    }

    fn fault(&self, text: &str) -> Option<&'static str> {
        (!self.fits(text)).then_some(self.wanted)
    }
}

/// Returns the fault of a name that is no RFC 1123 label. Names of namespaces must be such labels.
pub(crate) fn dns_label(name: &str) -> Option<&'static str> {
    LABEL.fault(name)
}

/// Returns the fault of a name that is no RFC 1123 subdomain. Names of almost all objects must be such subdomains.
pub(crate) fn dns_subdomain(name: &str) -> Option<&'static str> {
    SUBDOMAIN.fault(name)
}

/// Returns the fault of a name that cannot be a segment of a URL path.
pub(crate) fn path_segment(name: &str) -> Option<&'static str> {
    if matches!(name, "." | "..") { Some("must not be '.' or '..'") } else { SEGMENT.fault(name) }
}

/// Returns the fault of a label key, annotation key or finalizer: `[prefix/]name`.
pub(crate) fn qualified_name(key: &str) -> Option<&'static str> {
    match key.split_once('/') {
        Some((prefix, name)) if SUBDOMAIN.fits(prefix) => KEY.fault(name),
        Some(_) => Some(KEY.wanted),
        None => KEY.fault(key),
    }
}

/// Returns the fault of a label's value.
pub(crate) fn label_value(value: &str) -> Option<&'static str> {
    LABEL_VALUE.fault(value)
}

/// Returns the fault of a key of a ConfigMap's or Secret's data, which may become a file name.
pub(crate) fn data_key(key: &str) -> Option<&'static str> {
    DATA_KEY.fault(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_an_rfc_1123_subdomain_or_label() {
        for good in ["a", "rabbit-1", "x9000c3s0b0n0", "1.2"] {
            assert!(dns_subdomain(good).is_none(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", ".a", &"a".repeat(254)] {
            assert!(dns_subdomain(bad).is_some(), "{bad}");
        }
        assert!(dns_label("a.b").is_some());
        assert!(dns_label(&"a".repeat(64)).is_some());
    }

    #[test]
    fn invalid_label_keys_label_values_and_data_keys_are_refused() {
        for good in ["a", "nnf.cray.hpe.com/job_id", "A.b_c"] {
            assert!(qualified_name(good).is_none(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "UPPER.com/a", &"a".repeat(64)] {
            assert!(qualified_name(bad).is_some(), "{bad}");
        }
        assert!(label_value("").is_none());
        assert!(label_value("a b").is_some());
        for good in ["a", "A_b-c.d", ".hidden", "a..b"] {
            assert!(data_key(good).is_none(), "{good}");
        }
        for bad in ["", ".", "..", "..a", "a b", "a/b", &"a".repeat(254)] {
            assert!(data_key(bad).is_some(), "{bad}");
        }
        assert!(label_value(&"a".repeat(64)).is_some());
    }
}
