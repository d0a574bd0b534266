//! Parses the answer to `mntr`, the server's metrics.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::AdminError;
use super::text::AnswerText;

/// The answer to `mntr`: some five hundred metrics.
///
/// Which keys are there depends on the server's version and role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mntr {
    metrics: BTreeMap<String, String>,
}

impl Mntr {
    /// Returns how many watches the server holds (`zk_watch_count`).
    pub fn watches(&self) -> Option<u64> {
        self.number("zk_watch_count")
    }

    /// Returns the value of any key, as the server printed it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.metrics.get(key).map(String::as_str)
    }

    /// Returns the value of any key as a number.
    pub fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

impl FromStr for Mntr {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = AnswerText::new("mntr", text)?;
        let mut metrics = BTreeMap::new();
        for line in answer.lines() {
            let Some((key, value)) = line.split_once('\t').filter(|(key, _)| !key.is_empty())
            else {
                return Err(answer.unexpected(line, "a key, a tab and a value"));
            };
            metrics.insert(key.to_owned(), value.to_owned());
        }
        if !metrics.contains_key("zk_version") {
            return Err(answer.unexpected("", "the line `zk_version …`"));
        }
        Ok(Self { metrics })
    }
}
