//! Values in Jute, the encoding of the protocol: big-endian numbers, length-prefixed bytes and lists.
//!
//! Pure: no I/O and no clock.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::DecodeError;
use crate::path::NodePath;

/// Appends values to a buffer.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    to: &'a mut BytesMut,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(to: &'a mut BytesMut) -> Self {
        Self { to }
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.to.put_i32(value);
        self
    }

    pub(crate) fn long(&mut self, value: i64) -> &mut Self {
        self.to.put_i64(value);
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.to.put_u8(u8::from(value));
        self
    }

    pub(crate) fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.len(value.len());
        self.to.put_slice(value);
        self
    }

    pub(crate) fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    pub(crate) fn path(&mut self, path: &NodePath) -> &mut Self {
        self.string(path.as_str())
    }

    /// Appends a string or, for `None`, the length -1.
    pub(crate) fn optional_string(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.string(value),
            None => self.int(-1),
        }
    }

    /// Appends a list, whose items `item` appends.
    pub(crate) fn list<T>(&mut self, items: &[T], item: impl Fn(&mut Self, &T)) -> &mut Self {
        self.len(items.len());
        for one in items {
            item(self, one);
        }
        self
    }

    /// Appends a length. Lengths that no frame can have become the greatest one, and the frame is refused for its size.
    fn len(&mut self, len: usize) {
        self.int(i32::try_from(len).unwrap_or(i32::MAX));
    }
}

/// Takes values from the front of a buffer.
///
/// Data is taken without a copy: it shares the memory of the buffer.
#[derive(Debug)]
pub(crate) struct Decoder {
    rest: Bytes,
}

impl Decoder {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn int(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        self.need(what, size_of::<i32>())?;
        Ok(self.rest.get_i32())
    }

    pub(crate) fn long(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.need(what, size_of::<i64>())?;
        Ok(self.rest.get_i64())
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        self.need(what, 1)?;
        Ok(self.rest.get_u8() != 0)
    }

    /// Takes length-prefixed bytes. The length -1 means null and is taken as empty, as servers send it for a node
    /// without data.
    pub(crate) fn buffer(&mut self, what: &'static str) -> Result<Bytes, DecodeError> {
        let len = self.len(what)?;
        self.need(what, len)?;
        Ok(self.rest.split_to(len))
    }

    /// Takes a text of which every character counts, as a path.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.buffer(what)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(DecodeError::NotUtf8 { what }),
        }
    }

    /// Takes the path of a node.
    pub(crate) fn path(&mut self, what: &'static str) -> Result<NodePath, DecodeError> {
        let text = self.string(what)?;
        NodePath::parse(&text).map_err(|error| DecodeError::InvalidPath { what, error })
    }

    /// Takes a text that is shown to people, or compared with another one from a server.
    ///
    /// Java's servers write each UTF-16 unit of a character outside the basic plane by itself
    /// (`BinaryOutputArchive.stringToByteBuffer`); such pairs are put together again. What is no text otherwise becomes
    /// U+FFFD.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.buffer(what)?;
        Ok(match std::str::from_utf8(&bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => with_surrogates(&bytes),
        })
    }

    /// Takes a list, whose items `item` takes. The length -1 means null and is taken as empty.
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        item: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let len = self.len(what)?;
        // Every item takes a byte or more: a length that was made up allocates nothing.
        self.need(what, len)?;
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns everything that is left.
    pub(crate) fn into_rest(self) -> Bytes {
        self.rest
    }

    fn len(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        match self.int(what)? {
            -1 => Ok(0),
            len => usize::try_from(len).map_err(|_| DecodeError::Negative { what, len }),
        }
    }

    fn need(&self, what: &'static str, needed: usize) -> Result<(), DecodeError> {
        let left = self.rest.len();
        if needed <= left {
            Ok(())
        } else {
            Err(DecodeError::Short { what, needed, left })
        }
    }
}

/// Reads a text in which pairs of surrogates may stand for one character.
fn with_surrogates(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some(first) = rest.iter().position(|byte| *byte == SURROGATE) {
        let (before, from) = rest.split_at(first);
        text.push_str(&String::from_utf8_lossy(before));
        let units = [from.get(..3), from.get(3..6)].map(|unit| unit.and_then(surrogate));
        let pair = match units {
            [Some(high), Some(low)] => char::decode_utf16([high, low]).next().and_then(Result::ok),
            _ => None,
        };
        // U+D000 to U+D7FF begin with the same byte.
        let is_continued = |rest: &[u8]| rest.iter().all(|byte| byte & 0xc0 == 0x80);
        let taken = if let Some(character) = pair {
            text.push(character);
            6
        } else {
            let is_whole = from.get(1..3).is_some_and(is_continued);
            let len = if is_whole { 3 } else { 1 };
            text.push_str(&String::from_utf8_lossy(&from[..len]));
            len
        };
        rest = &from[taken..];
    }
    text.push_str(&String::from_utf8_lossy(rest));
    text
}

/// Returns the UTF-16 unit of a surrogate that was written by itself.
fn surrogate(bytes: &[u8]) -> Option<u16> {
    match *bytes {
        [SURROGATE, second @ 0xa0..=0xbf, third @ 0x80..=0xbf] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

/// The first byte of a surrogate.
const SURROGATE: u8 = 0xed;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(encode: impl FnOnce(&mut Encoder<'_>)) -> Bytes {
        let mut to = BytesMut::new();
        encode(&mut Encoder::new(&mut to));
        to.freeze()
    }

    #[test]
    fn numbers_are_big_endian_and_bytes_have_a_length() {
        let bytes = encoded(|to| {
            to.int(-2).long(0x0102_0304_0506_0708).bool(true);
            to.string("/a").optional_string(None);
            to.list(&[1, 2], |to, item| {
                to.int(*item);
            });
        });
        let expected: [&[u8]; 6] = [
            &[0xff, 0xff, 0xff, 0xfe],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[1],
            &[0, 0, 0, 2, b'/', b'a'],
            &[0xff, 0xff, 0xff, 0xff],
            &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn text_outside_the_basic_plane_is_read_as_servers_write_it() {
        let read = |bytes: &[u8]| {
            let bytes = encoded(|to| {
                to.buffer(bytes);
            });
            let text = Decoder::new(bytes.clone()).text("a name").unwrap();
            let path = Decoder::new(bytes).string("a path");
            (text, path.is_ok())
        };
        let of = |text: &str, is_path| (text.to_owned(), is_path);
        assert_eq!(read("a😀\u{d7ff}".as_bytes()), of("a😀\u{d7ff}", true));
        let smile = [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80];
        let java = [&b"a"[..], &smile, "\u{d7ff}é".as_bytes(), &smile].concat();
        assert_eq!(read(&java), of("a😀\u{d7ff}é😀", false));
        assert_eq!(read(&smile[..3]), of("\u{fffd}\u{fffd}\u{fffd}", false));
        assert_eq!(read(&[0xed, b'a', 0xc3, 0xa9]), of("\u{fffd}aé", false));
        assert_eq!(read(&[0xff]), of("\u{fffd}", false));
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        let error = |bytes: &'static [u8]| {
            let mut from = Decoder::new(Bytes::from_static(bytes));
            from.string("the path").unwrap_err().to_string()
        };
        assert_eq!(
            error(&[0, 0, 0, 9, 1, 2]),
            "the path needs 9 bytes, but 2 are left"
        );
        assert_eq!(error(&[0, 0]), "the path needs 4 bytes, but 2 are left");
        assert_eq!(error(&[0xff, 0xff, 0xff, 0xfe]), "the path has length -2");
        assert_eq!(error(&[0, 0, 0, 1, 0xff]), "the path is not UTF-8");
    }

    #[test]
    fn null_is_taken_as_empty() {
        let null = Bytes::from_static(&[0xff; 4]);
        assert_eq!(Decoder::new(null.clone()).buffer("data").unwrap(), "");
        let items = Decoder::new(null).list("names", |from| from.int("a name"));
        assert_eq!(items.unwrap(), [0; 0]);
    }

    #[test]
    fn data_shares_the_memory_of_its_frame() {
        let frame = encoded(|to| {
            to.buffer(b"data");
        });
        let data = Decoder::new(frame.clone()).buffer("data").unwrap();
        assert_eq!(data.as_ptr(), frame[4..].as_ptr());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(int: i32, long: i64, flag: bool, data: Vec<u8>, names: Vec<String>) {
            let bytes = encoded(|to| {
                to.int(int).long(long).bool(flag).buffer(&data);
                to.list(&names, |to, name| { to.string(name); });
            });
            let mut from = Decoder::new(bytes);
            prop_assert_eq!(from.int("an int").unwrap(), int);
            prop_assert_eq!(from.long("a long").unwrap(), long);
            prop_assert_eq!(from.bool("a flag").unwrap(), flag);
            prop_assert_eq!(from.buffer("data").unwrap(), data);
            prop_assert_eq!(from.list("names", |from| from.string("a name")).unwrap(), names);
            prop_assert!(from.is_at_end());
        }
    }
}
