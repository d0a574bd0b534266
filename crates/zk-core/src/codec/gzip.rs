//! The codec that compresses the data of another codec.
//!
//! Pure: no I/O and no clock.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{Codec, DecodeError, DecodeErrorKind, EncodeError};

/// Compresses the data of another codec.
///
/// The format is gzip, as in Curator's compression and command-line tools.
/// Uncompressed data is refused, because a mixture of both could not be distinguished from damaged data.
///
/// # Defaults
///
/// - decompressed data is at most 16 MiB, see [`with_limit`](Self::with_limit)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gzip<C> {
    inner: C,
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(16 << 20)
    }
}

impl<C> Gzip<C> {
    /// Creates a codec that compresses the data of `inner`.
    pub fn new(inner: C) -> Self {
        Self {
            inner,
            limit: Limit::default(),
        }
    }

    /// Limits the size of decompressed data in bytes. The default is 16 MiB.
    ///
    /// A megabyte of gzip can contain a gigabyte of zeros. Decoding stops at the limit and uses no more memory than
    /// that. Encoding refuses larger data as well.
    #[must_use]
    pub const fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = Limit(bytes);
        self
    }
}

impl<T, C: Codec<T>> Codec<T> for Gzip<C> {
    fn encode(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        let plain = self.inner.encode(value)?;
        if plain.len() > self.limit.0 {
            let (size, limit) = (plain.len(), self.limit.0);
            return Err(EncodeError::new(
                FORMAT,
                format!("it has {size} bytes, more than the limit of {limit}"),
            ));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder
            .write_all(&plain)
            .and_then(|()| encoder.finish())
            .map_err(|error| EncodeError::new(FORMAT, error.to_string()))
    }

    fn decode(&self, data: &[u8]) -> Result<T, DecodeError> {
        let wrong = |kind, message: String| DecodeError::new(FORMAT, kind, message);
        if data.is_empty() {
            let message = "the node has no data".to_owned();
            return Err(wrong(DecodeErrorKind::Empty, message));
        }
        if !data.starts_with(&MAGIC) {
            let message = "it does not begin with the bytes 1f 8b; it is not compressed".to_owned();
            return Err(wrong(DecodeErrorKind::Syntax, message));
        }
        let limit = self.limit.0;
        let mut plain = Vec::new();
        // One more byte shows whether the data exceeds the limit.
        let most = u64::try_from(limit).map_or(u64::MAX, |limit| limit.saturating_add(1));
        MultiGzDecoder::new(data)
            .take(most)
            .read_to_end(&mut plain)
            .map_err(|error| wrong(DecodeErrorKind::Damaged, error.to_string()))?;
        if plain.len() > limit {
            let message = format!("it decompresses to more than the limit of {limit} bytes");
            return Err(wrong(DecodeErrorKind::TooLarge, message));
        }
        self.inner.decode(&plain)
    }
}

const FORMAT: &str = "gzip";
const MAGIC: [u8; 2] = [0x1f, 0x8b];
