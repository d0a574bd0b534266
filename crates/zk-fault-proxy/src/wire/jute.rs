//! Encodes and decodes values in Jute, the format of the protocol: big-endian numbers, length-prefixed bytes.
//!
//! Pure: no I/O and no clock.

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, value: i64) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    /// Appends a length-prefixed `buffer`; a string is encoded the same way.
    pub(crate) fn buffer(&mut self, value: &[u8]) -> &mut Self {
        let len = i32::try_from(value.len()).expect("no request comes near 2 GiB");
        self.int(len).bytes.extend(value);
        self
    }

    /// Appends a `ustring`.
    pub(crate) fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    /// Appends the length of a list and its elements.
    pub(crate) fn list<T>(
        &mut self,
        values: &[T],
        mut append: impl FnMut(&mut Self, &T),
    ) -> &mut Self {
        let len = i32::try_from(values.len()).expect("no message comes near 2 GiB");
        self.int(len);
        for value in values {
            append(self, value);
        }
        self
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Takes values from the front of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

/// Bytes that are no message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct DecodeError {
    what: &'static str,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("needs {needed} bytes, but {left} are left")]
    Short { needed: i64, left: usize },
    #[error("ends, but {left} bytes are left")]
    Excess { left: usize },
    #[error("has an unknown kind")]
    UnknownKind,
}

impl DecodeError {
    /// Returns the error for a value of a kind that has no known length.
    pub(crate) const fn unknown_kind(what: &'static str) -> Self {
        Self {
            what,
            problem: Problem::UnknownKind,
        }
    }
}

impl<'a> Decoder<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn int(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn long(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        let [byte] = self.array(what)?;
        Ok(byte != 0)
    }

    /// Takes a length-prefixed buffer; a length of -1 means null and is read as empty.
    pub(crate) fn buffer(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.int(what)?;
        if len == -1 {
            return Ok(&[]);
        }
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len));
        let (value, rest) = taken.ok_or_else(|| self.short(what, len.into()))?;
        self.rest = rest;
        Ok(value)
    }

    /// Takes a `ustring`; bytes that are no UTF-8 are replaced.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let text = self.buffer(what)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Takes a list; a length of -1 means null and is read as empty.
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        mut take: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let len = self.int(what)?;
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(take(self)?);
        }
        Ok(values)
    }

    /// Fails if anything is left.
    pub(crate) const fn end(&self, what: &'static str) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let left = self.rest.len();
        let problem = Problem::Excess { left };
        Err(DecodeError { what, problem })
    }

    pub(crate) fn path(&mut self) -> Result<String, DecodeError> {
        self.string("a path")
    }

    /// Returns everything that is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    const fn short(&self, what: &'static str, needed: i64) -> DecodeError {
        let left = self.rest.len();
        DecodeError {
            what,
            problem: Problem::Short { needed, left },
        }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(*value)
            }
            None => Err(self.short(what, i64::try_from(N).unwrap_or(i64::MAX))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_big_endian_and_length_prefixed() {
        let bytes = Encoder::default()
            .int(-2)
            .long(0x0102_0304_0506_0708)
            .bool(true)
            .buffer(b"/a")
            .finish();
        assert_eq!(
            bytes,
            [
                [0xff, 0xff, 0xff, 0xfe].as_slice(),
                &[1, 2, 3, 4, 5, 6, 7, 8],
                &[1],
                &[0, 0, 0, 2, b'/', b'a'],
            ]
            .concat()
        );
    }

    #[test]
    fn a_null_buffer_is_empty() {
        assert_eq!(
            Decoder::new(&[0xff, 0xff, 0xff, 0xff, 7]).buffer("data"),
            Ok([].as_slice())
        );
    }

    #[test]
    fn a_short_buffer_says_what_is_missing() {
        let error = Decoder::new(&[0, 0, 0, 9, 1, 2])
            .buffer("the path")
            .expect_err("two of nine bytes");
        assert_eq!(error.to_string(), "the path needs 9 bytes, but 2 are left");
        let error = Decoder::new(&[0xff, 0xff, 0xff, 0xfe])
            .buffer("the path")
            .expect_err("a length of -2");
        assert_eq!(error.to_string(), "the path needs -2 bytes, but 0 are left");
        let error = Decoder::new(&[0, 0, 0])
            .int("the xid")
            .expect_err("three of four bytes");
        assert_eq!(error.to_string(), "the xid needs 4 bytes, but 3 are left");
    }

    #[test]
    fn a_list_has_its_length_and_nothing_may_follow_the_last_value() {
        let bytes = Encoder::default()
            .list(&["/a", "/b"], |to, path| {
                to.string(path);
            })
            .finish();
        let mut decoder = Decoder::new(&bytes);
        let paths = decoder.list("paths", Decoder::path);
        assert_eq!(paths.unwrap(), ["/a", "/b"]);
        assert_eq!(decoder.end("a request"), Ok(()));
        let error = Decoder::new(&[1, 2]).end("a request").unwrap_err();
        assert_eq!(error.to_string(), "a request ends, but 2 bytes are left");
        let null = [0xff; 4];
        let none = Decoder::new(&null).list("paths", Decoder::path);
        assert_eq!(none.unwrap(), [""; 0]);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(int: i32, long: i64, buffer: Vec<u8>) {
            let bytes = Encoder::default().int(int).buffer(&buffer).long(long).finish();
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.int("an int"), Ok(int));
            prop_assert_eq!(decoder.buffer("a buffer"), Ok(buffer.as_slice()));
            prop_assert_eq!(decoder.long("a long"), Ok(long));
            prop_assert!(decoder.rest.is_empty());
        }
    }
}
