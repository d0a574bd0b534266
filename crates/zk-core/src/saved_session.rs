//! What another process needs to continue a session.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use crate::stat::SessionId;

/// What [`SessionBuilder::resume`](crate::SessionBuilder::resume) needs to continue a session; returned by
/// [`Session::saved`](crate::Session::saved).
///
/// It contains the password of the session, with which anyone can use and end it. Debug output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct SavedSession {
    pub(crate) id: i64,
    pub(crate) password: bytes::Bytes,
    pub(crate) last_zxid: i64,
}

impl SavedSession {
    /// Returns the id of the session.
    pub fn id(&self) -> SessionId {
        SessionId::new(self.id)
    }

    /// Returns it as bytes, to be kept in a safe place.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (id, zxid) = (self.id.to_be_bytes(), self.last_zxid.to_be_bytes());
        [&id[..], &zxid[..], &self.password[..]].concat()
    }

    /// Returns what [`to_bytes`](Self::to_bytes) has written; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (zxid, password) = rest.split_first_chunk()?;
        (password.len() == PASSWORD_BYTES).then(|| Self {
            id: i64::from_be_bytes(*id),
            last_zxid: i64::from_be_bytes(*zxid),
            password: bytes::Bytes::copy_from_slice(password),
        })
    }
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

const PASSWORD_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    // covers: C22
    #[test]
    fn bytes_are_read_as_they_were_written_and_others_are_refused() {
        let saved = SavedSession {
            id: -2,
            password: bytes::Bytes::from_static(b"0123456789abcdef"),
            last_zxid: i64::MAX,
        };
        let bytes = saved.to_bytes();
        assert_eq!(SavedSession::from_bytes(&bytes), Some(saved.clone()));
        for len in 0..bytes.len() {
            assert_eq!(SavedSession::from_bytes(&bytes[..len]), None, "{len}");
        }
        assert_eq!(SavedSession::from_bytes(&[bytes, vec![0]].concat()), None);
        let debug = format!("{saved:?}");
        assert_eq!(debug, "SavedSession { id: 0xfffffffffffffffe, .. }");
    }
}
