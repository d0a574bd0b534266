//! Defines named sets of settings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::spec::{DataStore, Spec};

/// A named set of settings; each of them can be changed afterwards.
///
/// | profile | tick | `syncLimit` | minimum session timeout | data | a stalled leader is replaced after |
/// |---|---|---|---|---|---|
/// | `default` | 200 ms | 10 ticks | 400 ms | disk | 2 s |
/// | `chaos` | 100 ms | 8 ticks | 200 ms | memory | 0.8 s |
/// | `production` | 2 s | 5 ticks | 4 s | disk | 10 s |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// For development and most tests.
    #[default]
    Default,
    /// For fault injection: quick failovers, so that a test has many. On a busy machine slow servers are mistaken for
    /// dead ones.
    Chaos,
    /// The times of ZooKeeper's example configuration.
    Production,
}

/// The error for an unknown [`Profile`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {0:?}; use `default`, `chaos` or `production`")]
pub struct ParseProfileError(String);

impl Profile {
    /// Returns the settings of this profile, for three servers.
    pub fn spec(self) -> Spec {
        let mut spec = Spec::default();
        match self {
            Self::Default => {}
            Self::Chaos => {
                spec.tick_time = Duration::from_millis(100);
                spec.init_limit = 100;
                spec.sync_limit = 8;
                spec.data = DataStore::Memory;
            }
            Self::Production => {
                spec.tick_time = Duration::from_secs(2);
                spec.init_limit = 10;
                spec.sync_limit = 5;
            }
        }
        spec
    }
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, ParseProfileError> {
        match text {
            "default" => Ok(Self::Default),
            "chaos" => Ok(Self::Chaos),
            "production" => Ok(Self::Production),
            other => Err(ParseProfileError(other.to_owned())),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Chaos => "chaos",
            Self::Production => "production",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_valid_and_has_the_documented_times() {
        for (profile, replaced, shortest) in [
            (Profile::Default, 2000, 400),
            (Profile::Chaos, 800, 200),
            (Profile::Production, 10_000, 4000),
        ] {
            let spec = profile.spec();
            assert_eq!(spec.validate(), Ok(Vec::new()), "{profile}");
            let stalled = spec.tick_time * spec.sync_limit;
            assert_eq!(stalled, Duration::from_millis(replaced), "{profile}");
            let min = spec.min_session_timeout();
            assert_eq!(min, Duration::from_millis(shortest), "{profile}");
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "fast".parse::<Profile>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown profile \"fast\"; use `default`, `chaos` or `production`"
        );
    }
}
