//! Frames: payloads with their length in front.
//!
//! Pure: no I/O and no clock.

use bytes::{Bytes, BytesMut};

use super::DecodeError;

/// Takes the payload of the first frame out of `buffer`; `None` if it is not complete.
///
/// The payload shares the memory of the buffer.
///
/// # Errors
///
/// [`DecodeError::TooLong`] as soon as the length is known to exceed `limit`, and [`DecodeError::Negative`]: the stream
/// is of no use then.
pub fn take_frame(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(prefix) = buffer.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(*prefix);
    let payload = usize::try_from(len).map_err(|_| DecodeError::Negative {
        what: "a frame",
        len,
    })?;
    if payload > limit {
        return Err(DecodeError::TooLong {
            len: payload,
            limit,
        });
    }
    if buffer.len() - PREFIX < payload {
        return Ok(None);
    }
    let mut frame = buffer.split_to(PREFIX + payload).freeze();
    Ok(Some(frame.split_off(PREFIX)))
}

/// Takes the header of the first frame, a reply, out of `buffer` with the length in front of it; `None` if it has not
/// arrived. What follows it stays.
pub(crate) fn take_header(buffer: &mut BytesMut) -> Option<Bytes> {
    if buffer.len() < PREFIX + HEADER {
        return None;
    }
    let mut header = buffer.split_to(PREFIX + HEADER).freeze();
    Some(header.split_off(PREFIX))
}

/// Returns how much of the first frame in `buffer` is missing; 0 if its length is not known or exceeds `limit`.
pub(crate) fn rest_of_frame(buffer: &[u8], limit: usize) -> usize {
    let Some((prefix, begun)) = buffer.split_first_chunk::<PREFIX>() else {
        return 0;
    };
    let payload = usize::try_from(i32::from_be_bytes(*prefix)).ok();
    let payload = payload.filter(|payload| *payload <= limit);
    payload.map_or(0, |payload| payload.saturating_sub(begun.len()))
}

/// Appends a frame, whose payload `encode` appends; returns the length of the payload.
pub(crate) fn put_frame(to: &mut BytesMut, encode: impl FnOnce(&mut BytesMut)) -> usize {
    let start = to.len();
    to.extend_from_slice(&[0; PREFIX]);
    encode(to);
    let payload = to.len() - start - PREFIX;
    // A longer payload exceeds every limit, so the caller refuses the frame.
    let len = u32::try_from(payload).unwrap_or(u32::MAX);
    to[start..start + PREFIX].copy_from_slice(&len.to_be_bytes());
    payload
}

/// The length of a frame's length.
const PREFIX: usize = 4;
/// The length of a reply's header: the numbers of the request and of the transaction, and the error code.
const HEADER: usize = 4 + 8 + 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_beyond_the_limit_is_refused_at_once() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 9][..]);
        let error = take_frame(&mut buffer, 8).unwrap_err().to_string();
        assert_eq!(error, "a frame of 9 bytes exceeds the limit of 8");
        assert_eq!(take_frame(&mut buffer, 9), Ok(None));
        let mut negative = BytesMut::from(&[0xff; 4][..]);
        let error = take_frame(&mut negative, 8).unwrap_err().to_string();
        assert_eq!(error, "a frame has length -1");
    }

    #[test]
    fn the_rest_of_a_frame_is_what_it_lacks() {
        assert_eq!(rest_of_frame(&[0, 0, 1], 600), 0);
        assert_eq!(rest_of_frame(&[0, 0, 1, 0], 600), 256);
        assert_eq!(rest_of_frame(&[0, 0, 1, 0, 7, 7], 600), 254);
        assert_eq!(rest_of_frame(&[0, 0, 0, 1, 7, 0], 600), 0);
        assert_eq!(rest_of_frame(&[0, 0, 3, 0], 600), 0);
        assert_eq!(rest_of_frame(&[0xff; 4], 600), 0);
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(
            payloads in prop::collection::vec(any::<Vec<u8>>(), 1..6),
            step in 1..50_usize,
        ) {
            let mut stream = BytesMut::new();
            for payload in &payloads {
                let len = put_frame(&mut stream, |to| to.extend_from_slice(payload));
                prop_assert_eq!(len, payload.len());
            }
            let mut buffer = BytesMut::new();
            let mut taken = Vec::new();
            for chunk in stream.chunks(step) {
                buffer.extend_from_slice(chunk);
                while let Some(payload) = take_frame(&mut buffer, 1000).unwrap() {
                    taken.push(payload.to_vec());
                }
            }
            prop_assert_eq!(taken, payloads);
            prop_assert!(buffer.is_empty());
        }
    }
}
