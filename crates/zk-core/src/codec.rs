//! Values of nodes as types: raw bytes, text, JSON, TOML, and any of them compressed.
//!
//! A [`Codec`] turns a value into the bytes of a node and back.
//! [`Get::decoded`](crate::Get::decoded) reads a node through one; what it encodes is given to
//! [`Session::create`](crate::Session::create) and the other writes, which refuse what is too large for a server
//! before it is sent ([`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge)).
//!
//! ```no_run
//! # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::codec::Codec as _;
//! use zk_core::codec::Text;
//!
//! session.create("/motto", Text.encode(&"all or none".to_owned())?).await?;
//! let (motto, stat) = session.get("/motto").decoded(Text).await?;
//! assert_eq!((motto.as_str(), stat.version), ("all or none", 0));
//! # Ok(())
//! # }
//! ```
//!
//! | codec | values | feature |
//! |---|---|---|
//! | [`Raw`] | `Vec<u8>` | |
//! | [`Text`] | `String`, as UTF-8 | |
//! | `Json` | any value that serde can write and read | `json` |
//! | `Toml` | any value that serde can write and read as a table | `toml` |
//! | `Gzip` | those of another codec, compressed | `gzip` |
//!
//! # Errors
//!
//! The error of a refused payload contains its format, the problem, its [`Position`] in the payload if known, and the
//! path of the node once an operation knows it.
//! It may quote the invalid part of the payload, as serde does for a value of an unexpected type; keep secrets out of
//! values whose errors you log.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use crate::path::NodePath;

#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "toml")]
mod toml;

#[cfg(feature = "gzip")]
pub use gzip::Gzip;
#[cfg(feature = "json")]
pub use json::Json;
#[cfg(feature = "toml")]
pub use toml::Toml;

/// Turns values into the data of nodes and back.
///
/// What [`encode`](Self::encode) answers, [`decode`](Self::decode) takes for the same value.
/// Neither does more than compute: no I/O, no waiting.
pub trait Codec<T>: Send + Sync {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// When the format cannot express the value.
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError>;

    /// Decodes the data of a node.
    ///
    /// # Errors
    ///
    /// When the data is not of the format, or not of the type.
    fn decode(&self, data: &[u8]) -> Result<T, DecodeError>;
}

/// Takes the data as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Raw;

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, EncodeError> {
        Ok(value.clone())
    }

    fn decode(&self, data: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Ok(data.to_vec())
    }
}

/// Takes the data for text in UTF-8. A node without data is an empty text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Text;

impl Codec<String> for Text {
    fn encode(&self, value: &String) -> Result<Vec<u8>, EncodeError> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, data: &[u8]) -> Result<String, DecodeError> {
        text("text", data).map(str::to_owned)
    }
}

/// A value cannot be expressed in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be written as {format}: {message}")]
pub struct EncodeError {
    format: &'static str,
    message: String,
}

impl EncodeError {
    /// Describes a value that `format` cannot express, for a [`Codec`] of one's own.
    pub fn new(format: &'static str, message: impl Into<String>) -> Self {
        Self {
            format,
            message: message.into(),
        }
    }

    /// Returns the name of the format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Returns what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The data of a node is not what its codec expects.
///
/// The message names the path, if it is known, the format, the position and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Repr>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Repr {
    format: &'static str,
    kind: DecodeErrorKind,
    message: String,
    position: Option<Position>,
    path: Option<NodePath>,
}

impl DecodeError {
    /// Describes data that is not of `format`, for a [`Codec`] of one's own.
    pub fn new(format: &'static str, kind: DecodeErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            format,
            kind,
            message: message.into(),
            position: None,
            path: None,
        }))
    }

    /// Adds where in the data it goes wrong.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Adds the path of the node that has the data.
    #[must_use]
    pub fn of_node(mut self, path: &NodePath) -> Self {
        self.0.path = Some(path.clone());
        self
    }

    /// Returns the name of the format: `JSON`, `TOML`, `text`, `gzip`, or that of a codec of one's own.
    pub fn format(&self) -> &'static str {
        self.0.format
    }

    /// Returns what is wrong, as a value to branch on.
    pub fn kind(&self) -> DecodeErrorKind {
        self.0.kind
    }

    /// Returns what is wrong, without format, position and path.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the position of the error in the data, if known.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Returns the path of the node, once an operation has added it.
    pub fn path(&self) -> Option<&NodePath> {
        self.0.path.as_ref()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repr = &*self.0;
        match &repr.path {
            Some(path) => write!(f, "the data of {path} ")?,
            None => write!(f, "the data ")?,
        }
        match repr.kind {
            DecodeErrorKind::Shape => write!(f, "is {}, but not of the type", repr.format)?,
            _ => write!(f, "is not valid {}", repr.format)?,
        }
        if let Some(position) = repr.position {
            write!(f, " at {position}")?;
        }
        write!(f, ": {}", repr.message)
    }
}

impl std::error::Error for DecodeError {}

/// What is wrong with the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// There is no data, and the format has no document of no bytes.
    Empty,
    /// A text is not UTF-8.
    NotUtf8,
    /// It does not follow the rules of the format.
    Syntax,
    /// It is of the format, and not of the type: a value of another type, a missing or an unknown field.
    Shape,
    /// What is compressed is damaged or cut short.
    Damaged,
    /// What is compressed is larger than the codec takes.
    TooLarge,
}

/// A place in the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The line, counted from one.
    pub line: usize,
    /// The column in characters, counted from one; in bytes where the line is not UTF-8.
    pub column: usize,
    /// The offset in bytes, counted from zero. At most the length of the data.
    pub offset: usize,
}

impl Position {
    /// Finds the line and the column of the byte at `offset`, or of the end if that is less.
    pub fn of_offset(data: &[u8], offset: usize) -> Self {
        let offset = offset.min(data.len());
        let before = &data[..offset];
        let start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let in_line = &before[start..];
        Self {
            line: before.split(|&byte| byte == b'\n').count(),
            column: 1 + str::from_utf8(in_line).map_or(in_line.len(), |text| text.chars().count()),
            offset,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Takes the data of a document for text.
fn text<'a>(format: &'static str, data: &'a [u8]) -> Result<&'a str, DecodeError> {
    str::from_utf8(data).map_err(|error| {
        let offset = error.valid_up_to();
        let message = format!(
            "byte {:#04x} at offset {offset} is not UTF-8; write the text in UTF-8",
            data[offset]
        );
        DecodeError::new(format, DecodeErrorKind::NotUtf8, message)
            .at(Position::of_offset(data, offset))
    })
}

/// Takes the data of a document that has at least a byte for text.
#[cfg(any(feature = "json", feature = "toml"))]
fn document<'a>(
    format: &'static str,
    data: &'a [u8],
    least: &'static str,
) -> Result<&'a str, DecodeError> {
    if data.is_empty() {
        let message = format!("the node has no data; the least document is {least}");
        return Err(DecodeError::new(format, DecodeErrorKind::Empty, message));
    }
    text(format, data)
}

#[cfg(test)]
mod tests;
