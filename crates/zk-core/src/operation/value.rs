//! Reading a node as a value.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use zk_wire::Stat;

use super::read::Get;
use crate::codec::{Codec, DecodeError};
use crate::error::{Error, ErrorClass};

/// Reads the data of a node as a value; created by [`Get::decoded`].
///
/// Returns the value and the stat of the same read.
///
/// # Errors
///
/// [`ReadError::Operation`] as [`Get`] has them.
/// [`ReadError::Decode`] if the data is not valid for the codec. It contains the path, the format and the position.
#[must_use = "nothing is read until it is awaited"]
pub struct GetDecoded<T, C> {
    get: Get,
    codec: C,
    value: PhantomData<fn() -> T>,
}

impl Get {
    /// Reads the data as a value.
    pub fn decoded<T, C: Codec<T>>(self, codec: C) -> GetDecoded<T, C> {
        GetDecoded {
            get: self,
            codec,
            value: PhantomData,
        }
    }
}

impl<T, C> GetDecoded<T, C> {
    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.get = self.get.timeout(timeout);
        self
    }
}

impl<T, C> fmt::Debug for GetDecoded<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetDecoded")
            .field("get", &self.get)
            .finish_non_exhaustive()
    }
}

impl<T, C> IntoFuture for GetDecoded<T, C>
where
    C: Codec<T> + 'static,
    T: 'static,
{
    type Output = Result<(T, Stat), ReadError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { get, codec, .. } = self;
        Box::pin(async move {
            let path = get.path();
            let (data, stat) = get.await?;
            match (codec.decode(&data), path) {
                (Ok(value), _) => Ok((value, stat)),
                (Err(error), Some(path)) => Err(ReadError::Decode(error.of_node(&path))),
                (Err(error), None) => Err(ReadError::Decode(error)),
            }
        })
    }
}

/// A node could not be read as a value.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The data could not be read.
    #[error(transparent)]
    Operation(#[from] Error),
    /// The data is not valid for the codec.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl ReadError {
    /// Returns the class of the error. Invalid data is [`ErrorClass::Outcome`].
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Operation(error) => error.class(),
            Self::Decode(_) => ErrorClass::Outcome,
        }
    }
}
