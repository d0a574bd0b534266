//! Checks an answer for refusals, and parses its lines and values.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use super::AdminError;

/// An answer that is not a refusal, with its word.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerText<'a> {
    word: &'static str,
    text: &'a str,
}

impl<'a> AnswerText<'a> {
    /// Returns an error if the answer to `word` is that the server does not serve, or does not allow the word.
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

    /// Returns the lines that are not empty.
    pub(super) fn lines(self) -> impl Iterator<Item = &'a str> {
        self.text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
    }

    pub(super) fn unexpected(self, line: &str, expected: &'static str) -> AdminError {
        AdminError::Unexpected {
            word: self.word,
            line: shorten(line),
            expected,
        }
    }

    /// Parses `value`, a part of `line`.
    pub(super) fn value<T: FromStr>(
        self,
        value: &str,
        line: &str,
        expected: &'static str,
    ) -> Result<T, AdminError> {
        value
            .trim()
            .parse()
            .map_err(|_| self.unexpected(line, expected))
    }

    /// Parses a hexadecimal number, with or without `0x`.
    pub(super) fn hex(
        self,
        value: &str,
        line: &str,
        expected: &'static str,
    ) -> Result<u64, AdminError> {
        let value = value.trim();
        let digits = value.strip_prefix("0x").unwrap_or(value);
        // `from_str_radix` accepts a sign, which no server prints.
        if digits.starts_with('+') {
            return Err(self.unexpected(line, expected));
        }
        u64::from_str_radix(digits, 16).map_err(|_| self.unexpected(line, expected))
    }
}

/// Shortens a long line for an error message.
fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_SHOWN) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

const MAX_SHOWN: usize = 160;
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
const NOT_WHITELISTED: &str = " is not executed because it is not in the whitelist.";
