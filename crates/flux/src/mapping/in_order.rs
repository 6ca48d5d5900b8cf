//! A JSON object whose keys stay in the order of the text.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

/// Values by name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InOrder<T>(Vec<(String, T)>);

impl<T> InOrder<T> {
    /// Returns the names and values in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of a name; of a repeated name the last, as JSON parsers do.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl<T> FromIterator<(String, T)> for InOrder<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for InOrder<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrderVisitor(PhantomData))
    }
}

struct InOrderVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrderVisitor<T> {
    type Value = InOrder<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(entry) = map.next_entry()? {
            values.push(entry);
        }
        Ok(InOrder(values))
    }
}
