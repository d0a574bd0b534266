//! Typed data of nodes: raw bytes, text, JSON, TOML, and each of them compressed.
//!
//! A [`Codec`] encodes a value as the data of a node, and decodes it.
//! [`Get::decoded`](crate::Get::decoded) reads a node with a codec.
//! Pass encoded data to [`Session::create`](crate::Session::create) and the other writes; they refuse data that is too
//! large for a server before they send it ([`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge)).
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
//! | `Json` | any type with serde support | `json` |
//! | `Toml` | any type with serde support that is a table | `toml` |
//! | `Gzip` | the values of another codec, compressed | `gzip` |
//!
//! # Errors
//!
//! A [`DecodeError`] contains the format, the problem, its [`Position`] in the data if known, and the path of the node
//! if an operation added it.
//! Who may write the node chooses its text. So the problem is at most 300 characters long, on one line, with control
//! characters escaped; and a value that serde quotes, because it has an unexpected type, is left out: it may be a
//! secret. Names of fields are not. [`DecodeError::message_with_value`] has the value.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use zk_wire::NodePath;

mod foreign_text;
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

/// Encodes values as the data of nodes, and decodes them.
///
/// [`decode`](Self::decode) must return the value that [`encode`](Self::encode) was given.
/// Neither may do I/O or block.
pub trait Codec<T>: Send + Sync {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// If the format cannot represent the value.
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError>;

    /// Decodes the data of a node.
    ///
    /// # Errors
    ///
    /// If the data is not valid in this format, or does not match the type.
    fn decode(&self, data: &[u8]) -> Result<T, DecodeError>;
}

/// Uses the data unchanged.
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

/// Encodes strings as UTF-8. Empty data is an empty string.
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

/// A format cannot represent a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be written as {format}: {message}")]
pub struct EncodeError {
    format: &'static str,
    message: String,
}

impl EncodeError {
    /// Creates an error for a value that `format` cannot represent, for custom [`Codec`]s.
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

    /// Returns the description of the problem.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The data of a node is not valid for its codec.
///
/// The message contains the format and the problem, and the path and the position if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Repr>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Repr {
    format: &'static str,
    kind: DecodeErrorKind,
    message: String,
    with_value: WithValue,
    position: Option<Position>,
    path: Option<NodePath>,
}

/// A message that may quote a value of the data.
#[derive(Clone, PartialEq, Eq)]
struct WithValue(String);

impl fmt::Debug for WithValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl DecodeError {
    /// Creates an error for data that is not valid `format`, for custom [`Codec`]s.
    ///
    /// The message may contain any part of the data: it is escaped and cut, and a value that serde quotes is left out of
    /// [`message`](Self::message). Leave out others that may be secrets.
    pub fn new(format: &'static str, kind: DecodeErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Repr {
            format,
            kind,
            message: foreign_text::shown(&foreign_text::without_value(&message)),
            with_value: WithValue(foreign_text::shown(&message)),
            position: None,
            path: None,
        }))
    }

    /// Adds the position of the problem in the data.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Adds the path of the node.
    #[must_use]
    pub fn of_node(mut self, path: &NodePath) -> Self {
        self.0.path = Some(path.clone());
        self
    }

    /// Returns the name of the format: `JSON`, `TOML`, `text`, `gzip`, or that of a custom codec.
    pub fn format(&self) -> &'static str {
        self.0.format
    }

    /// Returns the kind of the problem.
    pub fn kind(&self) -> DecodeErrorKind {
        self.0.kind
    }

    /// Returns the description of the problem, without format, position and path: one line of at most 300 characters.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the description with the value that it is about, if serde quotes one. No other output of the error
    /// contains that. Do not log it if the values of the node may be secrets.
    pub fn message_with_value(&self) -> &str {
        &self.0.with_value.0
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

/// The kind of a problem with the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The data is empty, which is not a document of the format.
    Empty,
    /// The text is not UTF-8.
    NotUtf8,
    /// The data is not valid in the format.
    Syntax,
    /// The data is valid in the format but does not match the type: a value of another type, a missing or an unknown
    /// field.
    Shape,
    /// The compressed data is damaged or truncated.
    Damaged,
    /// The decompressed data is larger than the codec's limit.
    TooLarge,
}

/// A position in the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The line, counted from one.
    pub line: usize,
    /// The column in characters, counted from one; in bytes if the line is not UTF-8.
    pub column: usize,
    /// The offset in bytes, counted from zero. At most the length of the data.
    pub offset: usize,
}

impl Position {
    /// Returns the position of the byte at `offset`, or of the end of the data if that comes first.
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

/// Decodes data as UTF-8.
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

/// Decodes data as UTF-8 and refuses empty data.
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
