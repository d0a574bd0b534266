//! Reading an answer line by line.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use super::AdminError;

/// An answer that passed the check for a refusal, and the word it answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    word: &'static str,
    text: &'a str,
}

impl<'a> Answer<'a> {
    /// Takes the answer to `word`, unless the server says that it serves no requests or not this word.
    pub(super) fn new(word: &'static str, text: &'a str) -> Result<Self, AdminError> {
        let first = text
            .trim_start()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end();
        if first == NOT_SERVING {
            return Err(AdminError::NotServing);
        }
        match first.strip_suffix(NOT_WHITELISTED) {
            Some(refused) => Err(AdminError::NotWhitelisted {
                word: shorten(refused),
            }),
            None => Ok(Self { word, text }),
        }
    }

    /// The lines that say something.
    pub(super) fn lines(self) -> impl Iterator<Item = &'a str> {
        self.text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
    }

    pub(super) fn unexpected(self, line: &str, wanted: &'static str) -> AdminError {
        AdminError::Unexpected {
            word: self.word,
            line: shorten(line),
            wanted,
        }
    }

    /// Parses `value`, a part of `line`.
    pub(super) fn value<T: FromStr>(
        self,
        value: &str,
        line: &str,
        wanted: &'static str,
    ) -> Result<T, AdminError> {
        value
            .trim()
            .parse()
            .map_err(|_| self.unexpected(line, wanted))
    }

    /// Parses a hexadecimal number as Java prints a `long`, with or without `0x`.
    pub(super) fn hex(
        self,
        value: &str,
        line: &str,
        wanted: &'static str,
    ) -> Result<u64, AdminError> {
        let value = value.trim();
        let digits = value.strip_prefix("0x").unwrap_or(value);
        // `from_str_radix` takes a sign, which no server writes.
        if digits.starts_with('+') {
            return Err(self.unexpected(line, wanted));
        }
        u64::from_str_radix(digits, 16).map_err(|_| self.unexpected(line, wanted))
    }
}

/// Keeps an error readable when a megabyte of something else came back.
fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_SHOWN) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

const MAX_SHOWN: usize = 160;
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
const NOT_WHITELISTED: &str = " is not executed because it is not in the whitelist.";
