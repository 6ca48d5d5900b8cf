//! A nested object that may be absent. Like a struct in Go it then has its default value, but it is written back as it
//! was read: absent or present.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A nested object that may be absent; the value of an absent object is `T::default()`.
///
/// The object is written if it was present in the source (even as `{}`), or if it differs from `T::default()`. Two
/// nested objects with the same value are equal, even if only one of them was present.
#[derive(Clone, Debug, Default)]
pub struct Nested<T> {
    present: bool,
    value: T,
}

impl<T: Default + PartialEq> Nested<T> {
    /// Returns whether the object was absent in the source and has not been filled in since.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        !self.present && self.value == T::default()
    }

    /// Returns the object; `None` if it equals its default. A present object may equal its default, because Go writes
    /// an empty struct as `{}` in spite of `omitempty`.
    #[must_use]
    pub fn non_default(&self) -> Option<&T> {
        (self.value != T::default()).then_some(&self.value)
    }
}

impl<T> From<T> for Nested<T> {
    fn from(value: T) -> Self {
        Self { present: true, value }
    }
}

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Nested<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: PartialEq> PartialEq for Nested<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Serialize> Serialize for Nested<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nested<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

impl<T: JsonSchema> JsonSchema for Nested<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize, Deserialize)]
    struct Outer {
        #[serde(default, skip_serializing_if = "Nested::is_absent")]
        inner: Nested<Vec<u8>>,
    }

    #[test]
    fn an_object_is_written_back_as_it_was_read() {
        for source in [json!({}), json!({ "inner": [] }), json!({ "inner": [1] })] {
            let outer: Outer = serde_json::from_value(source.clone()).unwrap();
            assert_eq!(serde_json::to_value(&outer).unwrap(), source);
        }
    }

    #[test]
    fn an_empty_object_has_no_value_whether_or_not_it_is_present() {
        for (source, expected) in
            [(json!({}), None), (json!({ "inner": [] }), None), (json!({ "inner": [1] }), Some(1))]
        {
            let outer: Outer = serde_json::from_value(source).unwrap();
            let first = outer.inner.non_default().and_then(|values| values.first().copied());
            assert_eq!(first, expected);
        }
    }

    #[test]
    fn an_absent_object_is_written_once_it_is_filled_in() {
        let mut outer: Outer = serde_json::from_value(json!({})).unwrap();
        outer.inner.push(7);
        assert_eq!(serde_json::to_value(&outer).unwrap(), json!({ "inner": [7] }));
    }
}
