//! Encodes and decodes the frame that Curator's queues put around the items of a node.
//!
//! A frame has a version, then `01`, the length and the bytes for each item, then `02`; numbers are big-endian.
//!
//! Pure: no I/O and no clock.

use crate::layout::Layout;

impl Layout {
    /// Returns the data of a node that has one item.
    pub(crate) fn frame(self, item: Vec<u8>) -> Vec<u8> {
        if self.is_framed() {
            encode([item])
        } else {
            item
        }
    }

    /// Returns the first item in the data of a node, and the data of a node with the other items if there are any; or
    /// why there is none.
    pub(crate) fn unframe(self, data: Vec<u8>) -> Result<(Vec<u8>, Option<Vec<u8>>), String> {
        if !self.is_framed() {
            return Ok((data, None));
        }
        let items = decode(&data)
            .map_err(|(at, reason)| format!("malformed Curator frame at byte {at}: {reason}"))?;
        let Some((first, others)) = items.split_first() else {
            return Err("its Curator frame is empty".to_owned());
        };
        let rest = (!others.is_empty()).then(|| encode(others));
        Ok((first.to_vec(), rest))
    }
}

/// Encodes items into a frame.
fn encode<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut framed = VERSION.to_vec();
    for item in items {
        let item = item.as_ref();
        framed.push(ITEM);
        // A node holds at most a megabyte; a larger one is refused before it is sent.
        let length = u32::try_from(item.len()).unwrap_or(u32::MAX);
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(item);
    }
    framed.push(END);
    framed
}

/// Decodes the items of a frame. An error has the position of the offending byte and the reason.
fn decode(framed: &[u8]) -> Result<Vec<&[u8]>, (usize, &'static str)> {
    let Some(mut rest) = framed.strip_prefix(&VERSION) else {
        return Err((0, "the version is not Curator's 00010001"));
    };
    let mut items = Vec::new();
    loop {
        let at = framed.len() - rest.len();
        match rest {
            [END, ..] => return Ok(items),
            [ITEM, a, b, c, d, data @ ..] => {
                let length = u32::from_be_bytes([*a, *b, *c, *d]);
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some((item, after)) = data.split_at_checked(length) else {
                    return Err((at, "an item is longer than the data"));
                };
                items.push(item);
                rest = after;
            }
            [] => return Err((at, "the end marker 02 is missing")),
            [ITEM, ..] => return Err((at, "the length of an item is truncated")),
            _ => return Err((at, "expected an item (01) or the end marker (02)")),
        }
    }
}

const VERSION: [u8; 4] = [0, 1, 0, 1];
const ITEM: u8 = 1;
const END: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_written_as_curator_writes_it() {
        let framed = encode([b"AB".as_slice()]);
        assert_eq!(framed, b"\x00\x01\x00\x01\x01\x00\x00\x00\x02AB\x02");
        assert_eq!(decode(&framed), Ok(vec![b"AB".as_slice()]));
    }

    #[test]
    fn a_malformed_frame_is_refused_with_its_position() {
        for (data, at) in [
            (b"AB".as_slice(), 0),
            (b"", 0),
            (b"\x00\x01\x00\x01", 4),
            (b"\x00\x01\x00\x01\x03", 4),
            (b"\x00\x01\x00\x01\x01\x00\x00", 4),
            (b"\x00\x01\x00\x01\x01\x00\x00\x00\x09AB\x02", 4),
            (b"\x00\x01\x00\x01\x01\x00\x00\x00\x02AB", 11),
        ] {
            assert_eq!(decode(data).unwrap_err().0, at, "{data:?}");
        }
    }

    proptest! {
        #[test]
        fn items_come_out_as_they_went_in(items: Vec<Vec<u8>>) {
            let framed = encode(&items);
            prop_assert_eq!(decode(&framed).unwrap(), items);
        }

        #[test]
        fn garbage_never_panics(data: Vec<u8>) {
            if let Ok(items) = decode(&data) {
                let again = encode(items);
                prop_assert_eq!(&data[..again.len()], &again[..]);
            }
        }
    }
}
