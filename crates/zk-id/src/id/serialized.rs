//! Serializes ids with serde.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Id, ParseIdError};

/// Serializes as a string of decimal digits in human-readable formats, and as a number in others.
///
/// Clients that read JSON numbers as floating point lose the last digits of numbers above 2^53.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

/// Deserializes from a number, or from a string of decimal digits in human-readable formats.
impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer
                .deserialize_any(TextOrNumber(str::parse, "an id, as a number or its digits"))
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

/// Deserializes a number, or a text with the given parser.
struct TextOrNumber(fn(&str) -> Result<Id, ParseIdError>, &'static str);

impl de::Visitor<'_> for TextOrNumber {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        Ok(Id(number))
    }

    /// The integers of TOML are signed.
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        let unsigned = u64::try_from(number);
        unsigned
            .map(Id)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// Serializes an id as a number, with `#[serde(with = "zk_id::as_number")]`.
pub mod as_number {
    use super::{Deserialize as _, Deserializer, Id, Serializer};

    /// Serializes an id as a number.
    ///
    /// # Errors
    ///
    /// Those of the format.
    pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(id.as_u64())
    }

    /// Deserializes an id from a number.
    ///
    /// # Errors
    ///
    /// If the value is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        u64::deserialize(deserializer).map(Id::new)
    }
}

macro_rules! as_text {
    ($module:ident, $write:ident, $read:ident, $what:literal) => {
        #[doc = concat!("Serializes an id in ", $what, ", with `#[serde(with = \"zk_id::", stringify!($module), "\")]`.")]
        pub mod $module {
            use super::{Deserializer, TextOrNumber, Id, Serializer};

            #[doc = concat!("Serializes an id in ", $what, ".")]
            ///
            /// # Errors
            ///
            /// Those of the format.
            pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&id.$write())
            }

            #[doc = concat!("Deserializes an id from ", $what, ".")]
            ///
            /// # Errors
            ///
            /// If the value is not a text in this format.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
                deserializer.deserialize_str(TextOrNumber(Id::$read, concat!("an id in ", $what)))
            }
        }
    };
}

as_text!(as_base62, base62, from_base62, "base 62");
as_text!(
    as_crockford,
    crockford,
    from_crockford,
    "Crockford's base 32"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        plain: Id,
        #[serde(with = "as_number")]
        number: Id,
        #[serde(with = "as_base62")]
        short: Id,
        #[serde(with = "as_crockford")]
        spoken: Id,
    }

    #[test]
    fn ids_are_read_back_as_they_are_written() {
        let id = Id::new(1_541_815_603_606_036_480);
        let all = All {
            plain: id,
            number: id,
            short: id,
            spoken: id,
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            text,
            r#"{"plain":"1541815603606036480","number":1541815603606036480,"short":"1ptWyK4WgZU","spoken":"1ASD13XH1F800"}"#
        );
        assert_eq!(serde_json::from_str::<All>(&text).unwrap(), all);
        assert_eq!(serde_json::from_str::<Id>("7").unwrap(), Id::new(7));
        let wrong = serde_json::from_str::<Id>("\"x\"").unwrap_err();
        assert!(
            wrong.to_string().contains("is not a digit of base 10"),
            "{wrong}"
        );
        assert!(serde_json::from_str::<Id>("-7").is_err());
    }

    #[derive(Debug, Deserialize)]
    struct Order {
        id: Id,
    }

    #[test]
    fn ids_are_read_from_signed_numbers_unless_they_are_negative() {
        for text in ["id = 7", "id = \"7\""] {
            assert_eq!(toml::from_str::<Order>(text).unwrap().id, Id::new(7));
        }
        let wrong = toml::from_str::<Order>("id = -7").unwrap_err();
        assert!(
            wrong
                .to_string()
                .contains("integer `-7`, expected an id, as a number or its digits"),
            "{wrong}"
        );
    }
}
