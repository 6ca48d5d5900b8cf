//! Keys that come twice in a JSON document. The last of them counts, as in Go; a client that asks for strictness is refused
//! (sigs.k8s.io/json `UnmarshalStrict`).

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// More of them help nobody.
const ENOUGH: usize = 100;

/// The paths of the keys that come twice in a document that parses.
pub(super) fn find(json: &str) -> Vec<String> {
    let mut found = Vec::new();
    let node = Node { path: &mut String::new(), found: &mut found };
    let read = node.deserialize(&mut serde_json::Deserializer::from_str(json));
    debug_assert!(read.is_ok(), "the caller has parsed it");
    found
}

struct Node<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0_usize.. {
            self.path.push_str(&format!("[{index}]"));
            let item = items.next_element_seed(Node { path: self.path, found: self.found })?;
            self.path.truncate(length);
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut seen = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if !seen.insert(key) && self.found.len() < ENOUGH {
                self.found.push(self.path.clone());
            }
            members.next_value_seed(Node { path: self.path, found: self.found })?;
            self.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn keys_that_come_twice_are_found_where_they_are() {
        assert!(find(r#"{"a": 1, "b": [{"a": null}, {"a": -1.5}], "c": {"a": "x"}}"#).is_empty());
        let twice = r#"{"a": {"b": 1, "b": 2}, "c": [0, {"d": true, "d": []}], "a": 3}"#;
        assert_eq!(find(twice), ["a.b", "c[1].d", "a"]);
    }
}
