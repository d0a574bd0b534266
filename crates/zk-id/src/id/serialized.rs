//! Ids in the formats of serde.

use std::fmt;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de;

use super::Id;
use super::ParseIdError;

/// As its decimal digits in a text where people can read the format, since what reads JSON as floating point numbers
/// loses the last digits of numbers above 2^53; as a number otherwise.
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

/// From a number or its decimal digits where people can read the format, otherwise from a number.
impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Either(str::parse, "an id, as a number or its digits"))
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

/// Reads a text of some kind, or a number.
struct Either(fn(&str) -> Result<Id, ParseIdError>, &'static str);

impl de::Visitor<'_> for Either {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        Ok(Id(number))
    }

    /// As TOML has them.
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

/// Lets `#[serde(with = "zk_id::as_number")]` write an id as a number.
pub mod as_number {
    use super::Deserialize as _;
    use super::Deserializer;
    use super::Id;
    use super::Serializer;

    /// Writes an id as a number.
    ///
    /// # Errors
    ///
    /// Those of the format.
    pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(id.as_u64())
    }

    /// Reads an id from a number.
    ///
    /// # Errors
    ///
    /// When there is no number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        u64::deserialize(deserializer).map(Id::new)
    }
}

macro_rules! as_text {
    ($module:ident, $write:ident, $read:ident, $what:literal) => {
        #[doc = concat!("Lets `#[serde(with = \"zk_id::", stringify!($module), "\")]` write an id as ", $what, ".")]
        pub mod $module {
            use super::Deserializer;
            use super::Either;
            use super::Id;
            use super::Serializer;

            #[doc = concat!("Writes an id as ", $what, ".")]
            ///
            /// # Errors
            ///
            /// Those of the format.
            pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&id.$write())
            }

            #[doc = concat!("Reads an id from ", $what, ".")]
            ///
            /// # Errors
            ///
            /// When there is no such text.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
                deserializer.deserialize_str(Either(Id::$read, concat!("an id in ", $what)))
            }
        }
    };
}

as_text!(as_base62, base62, from_base62, "the characters of base 62");
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
