//! The JSON codec.
//!
//! Pure: no I/O and no clock.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::{Codec, DecodeError, DecodeErrorKind, EncodeError, Position, document};

/// Encodes values as JSON with serde, on one line.
///
/// Empty data is not valid JSON; the shortest documents are `{}` and `null`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        serde_json::to_vec(value).map_err(|error| EncodeError::new(FORMAT, error.to_string()))
    }

    fn decode(&self, data: &[u8]) -> Result<T, DecodeError> {
        let text = document(FORMAT, data, "{}")?;
        serde_json::from_str(text).map_err(|error| {
            let kind = match error.classify() {
                Category::Data => DecodeErrorKind::Shape,
                Category::Syntax | Category::Eof | Category::Io => DecodeErrorKind::Syntax,
            };
            DecodeError::new(FORMAT, kind, message_of(&error)).at(position_of(data, &error))
        })
    }
}

/// Returns the parser's message without the position that it appends.
fn message_of(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(message) => message.to_owned(),
        None => message,
    }
}

/// Converts the parser's position, whose column is the number of bytes that it has read of the line.
fn position_of(data: &[u8], error: &serde_json::Error) -> Position {
    let line: usize = data
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let is_cut_short = error.classify() == Category::Eof;
    let column = if is_cut_short {
        error.column()
    } else {
        error.column().saturating_sub(1)
    };
    Position::of_offset(data, line + column)
}

const FORMAT: &str = "JSON";
