//! The splitting of a stream into frames, given arbitrary bytes in arbitrary parts.

use arbitrary::{Result, Unstructured};
use bytes::BytesMut;
use zk_wire::proto::{DecodeError, take_frame};

/// A stream, where it is split, and the greatest frame that is accepted.
#[derive(Debug)]
pub(crate) struct Input {
    limit: usize,
    parts: Vec<Vec<u8>>,
}

impl Input {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut from = Unstructured::new(bytes);
        let limit = usize::from(from.arbitrary::<u8>().unwrap_or_default());
        let mut parts = Vec::new();
        while !from.is_empty() {
            parts.push(Self::part(&mut from).unwrap_or_default());
        }
        Self { limit, parts }
    }

    fn part(from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let mut part = Vec::new();
        // Arbitrary bytes are hardly ever the length of a frame.
        if from.ratio(1, 2)? {
            part.extend([0, 0, 0, from.arbitrary::<u8>()? % 16]);
        }
        let len = usize::from(from.arbitrary::<u8>()? % 24).min(from.len());
        part.extend_from_slice(from.bytes(len)?);
        Ok(part)
    }
}

/// The frames of a stream do not depend on how it is split, and nothing beyond the limit is waited for.
pub(crate) fn check(input: &Input) {
    let (expected, expected_error) = split(&input.parts.concat(), input.limit);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    let mut error = None;
    for part in &input.parts {
        buffer.extend_from_slice(part);
        while error.is_none() {
            match take_frame(&mut buffer, input.limit) {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(found) => error = Some(found),
            }
        }
        if error.is_some() {
            break;
        }
        assert!(
            buffer.len() < input.limit + PREFIX,
            "{} bytes wait for the rest of a frame",
            buffer.len()
        );
    }
    assert_eq!((frames, error), (expected, expected_error));
}

/// Splits a whole stream: the reference.
fn split(mut stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, Option<DecodeError>) {
    let mut frames = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<PREFIX>() {
        let len = i32::from_be_bytes(*prefix);
        let Ok(payload) = usize::try_from(len) else {
            let what = "a frame";
            return (frames, Some(DecodeError::Negative { what, len }));
        };
        if payload > limit {
            let len = payload;
            return (frames, Some(DecodeError::TooLong { len, limit }));
        }
        let Some((frame, rest)) = rest.split_at_checked(payload) else {
            break;
        };
        frames.push(frame.to_vec());
        stream = rest;
    }
    (frames, None)
}

const PREFIX: usize = 4;
