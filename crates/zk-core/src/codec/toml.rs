//! The TOML codec.
//!
//! Pure: no I/O and no clock.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, DecodeError, DecodeErrorKind, EncodeError, Position, document};

/// Encodes values as TOML with serde.
///
/// A value must be a table: a struct or a map.
///
/// # Nodes without data
///
/// In TOML, empty data is a document in which every field has its default.
/// This codec refuses it: a node without data was usually created as a parent or is not written yet, and must not reset
/// a configuration.
/// An empty document is encoded as a line break.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Toml;

impl<T: Serialize + DeserializeOwned> Codec<T> for Toml {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        let text = toml::to_string_pretty(value)
            .map_err(|error| EncodeError::new(FORMAT, error.to_string()))?;
        Ok(if text.is_empty() {
            vec![b'\n']
        } else {
            text.into_bytes()
        })
    }

    fn decode(&self, data: &[u8]) -> Result<T, DecodeError> {
        let text = document(FORMAT, data, "a line break")?;
        let wrong = |kind| {
            move |mut error: toml::de::Error| {
                let span = error.span();
                // Without the input, the message names the key and does not draw the line.
                error.set_input(None);
                let message = error.to_string().trim_end().replace('\n', " ");
                let error = DecodeError::new(FORMAT, kind, message);
                match span {
                    Some(span) => error.at(Position::of_offset(data, span.start)),
                    None => error,
                }
            }
        };
        let document =
            toml::de::Deserializer::parse(text).map_err(wrong(DecodeErrorKind::Syntax))?;
        T::deserialize(document).map_err(wrong(DecodeErrorKind::Shape))
    }
}

const FORMAT: &str = "TOML";
