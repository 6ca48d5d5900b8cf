//! Expands references to variables in a profile's texts, in the form that Kubernetes uses: `$(NAME)`.

use std::collections::BTreeMap;

/// Replaces each reference to a known variable by the variable's value. Other references stay; `$$` stands for `$`.
#[must_use]
pub(crate) fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        done.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            done.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        {
            match known.get(name) {
                Some(value) => done.push_str(value),
                None => done.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            done.push('$');
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_known_variables_are_replaced_and_other_text_is_kept() {
        let known = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())].into();
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(A)"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(A", "$(A"),
            ("$A ${A} $", "$A ${A} $"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }
}
