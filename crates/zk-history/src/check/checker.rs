//! Selects a checker by name and settings, as in `run.json` and on the command line.
//!
//! Pure: no I/O and no clock.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::counter::Counter;
use super::fenced_register::FencedRegister;
use super::linearizable::Linearizable;
use super::liveness::Liveness;
use super::mutex::FencedMutex;
use super::queue::TotalQueue;
use super::read_write::ReadWriteLock;
use super::semaphore::Semaphore;
use super::verdict::Verdict;
use crate::History;

/// One of the checkers with its settings, and the paths that it judges.
///
/// ```
/// use zk_history::check::{Checker, FencedMutex, Semaphore};
///
/// let all = Checker::from(FencedMutex::default().with_order());
/// let some = Checker::from(Semaphore::new(3)).on("/permits/*");
/// assert_eq!(some, "semaphore:permits=3,path=/permits/*".parse()?);
/// # Ok::<(), zk_history::check::ParseCheckerError>(())
/// ```
///
/// As JSON it is an object with the name as `checker`, `path` if there is one, and the settings:
/// `{"checker":"semaphore","path":"/permits/*","permits":3}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checker {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(flatten)]
    kind: Kind,
}

/// Why a text does not select a checker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {problem}")]
#[non_exhaustive]
pub struct ParseCheckerError {
    text: String,
    problem: String,
}

macro_rules! checkers {
    ($($name:literal $kind:ident;)*) => {
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "checker")]
        enum Kind {
            $(#[serde(rename = $name)] $kind($kind),)*
        }

        impl Kind {
            fn check(&self, history: &History) -> Verdict {
                match self {
                    $(Self::$kind(checker) => checker.check(history),)*
                }
            }
        }

        $(impl From<$kind> for Checker {
            fn from(checker: $kind) -> Self {
                Self { path: None, kind: Kind::$kind(checker) }
            }
        })*

        /// The names of all checkers.
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

checkers! {
    "fenced-mutex" FencedMutex;
    "read-write-lock" ReadWriteLock;
    "semaphore" Semaphore;
    "linearizable" Linearizable;
    "fenced-register" FencedRegister;
    "total-queue" TotalQueue;
    "counter" Counter;
    "progress" Liveness;
}

impl Checker {
    /// Judges only the operations on one path; with a final `*`, on all paths with that prefix. Default: all.
    #[must_use]
    pub fn on(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let Some(wanted) = &self.path else {
            return self.kind.check(history);
        };
        let part = history.only(|path| match wanted.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == wanted,
        });
        let mut verdict = self.kind.check(&part);
        verdict.checker = format!("{} on {wanted}", verdict.checker);
        verdict
    }

    fn from_json(mut settings: Map<String, Value>) -> Result<Self, String> {
        let path = match settings.remove("path") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(path),
            Some(other) => return Err(format!("path must be a string, not {other}")),
        };
        let kind =
            serde_json::from_value(Value::Object(settings)).map_err(|error| error.to_string())?;
        Ok(Self { path, kind })
    }
}

impl<'de> Deserialize<'de> for Checker {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl std::str::FromStr for Checker {
    type Err = ParseCheckerError;

    /// Reads `NAME` or `NAME:SETTING=VALUE,SETTING=VALUE`.
    fn from_str(text: &str) -> Result<Self, ParseCheckerError> {
        let wrong = |problem: String| ParseCheckerError {
            text: text.to_owned(),
            problem,
        };
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        if !NAMES.contains(&name) {
            return Err(wrong(format!(
                "unknown checker {name:?}; choose one of {}",
                NAMES.join(", ")
            )));
        }
        let mut json = Map::new();
        json.insert("checker".to_owned(), name.into());
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| wrong(format!("{setting:?} must have the form SETTING=VALUE")))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            json.insert(key.to_owned(), value);
        }
        Self::from_json(json).map_err(wrong)
    }
}

#[cfg(test)]
mod tests;
