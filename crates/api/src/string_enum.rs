//! Enumerations that are strings in JSON and stay open: the schema lists the known values, decoding keeps any other.
//!
//! A typed watch decodes whole lists, so one object written by a newer controller must not make the rest unreadable.

macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value that this version does not know, kept unchanged.
            Other(String),
        }

        impl $name {
            /// Values that the schema admits.
            pub const VALUES: &'static [&'static str] = &[$($text),+];

            /// Returns the value's JSON text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// Returns the empty value, for a status without this field: an older CRD may not have it.
            #[must_use]
            pub fn absent() -> Self {
                Self::Other(String::new())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::VALUES })
            }
        }
    };
}

pub(crate) use string_enum;

#[cfg(test)]
mod tests {
    use crate::client_mount::FileSystemKind;

    #[test]
    fn unknown_value_is_kept() {
        let kind: FileSystemKind = serde_json::from_str("\"ext4\"").unwrap();
        assert_eq!(kind, FileSystemKind::Other("ext4".to_owned()));
        assert_eq!(serde_json::to_string(&kind).unwrap(), "\"ext4\"");
    }

    #[test]
    fn known_values_read_as_variants() {
        for text in FileSystemKind::VALUES {
            let kind = FileSystemKind::from(*text);
            assert!(!matches!(kind, FileSystemKind::Other(_)), "{text}");
            assert_eq!(kind.as_str(), *text);
        }
    }
}
