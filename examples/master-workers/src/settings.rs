//! The settings of the application: one TOML document in ZooKeeper, followed live by every process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_config::Typed;
use zk_core::codec::Toml;

use crate::reporter::Reporter;
use crate::tree::Tree;

/// The settings that can change at run time. Missing keys have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The maximum number of tasks per worker, including those in progress, from 1 to 1,000. Default 4.
    ///
    /// The master enforces it on a view that may lag, so it may be exceeded slightly for a short time.
    pub tasks_per_worker: usize,
    /// The maximum number of tasks that a worker runs in parallel, from 1 to 1,000. Default 2.
    pub at_once: usize,
    /// How long a task takes. Default `"500ms"`.
    #[serde(with = "humantime_serde")]
    pub work: Duration,
    /// The probability that an attempt fails, from 0 to 0.9. Default 0.
    pub failure_rate: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tasks_per_worker: 4,
            at_once: 2,
            work: Duration::from_millis(500),
            failure_rate: 0.0,
        }
    }
}

impl Settings {
    /// Checks the ranges of the values.
    ///
    /// # Errors
    ///
    /// The first value out of range.
    pub fn validate(&self) -> Result<(), String> {
        for (name, tasks) in [
            ("tasks_per_worker", self.tasks_per_worker),
            ("at_once", self.at_once),
        ] {
            if !(1..=MOST_TASKS).contains(&tasks) {
                return Err(format!(
                    "{name} is {tasks}, and has to be from 1 to {MOST_TASKS}"
                ));
            }
        }
        if self.work > LONGEST_WORK {
            return Err(format!(
                "work is {:?}, and has to be an hour at most",
                self.work
            ));
        }
        if !(0.0..=0.9).contains(&self.failure_rate) {
            return Err(format!(
                "failure_rate is {}, and has to be from 0 to 0.9",
                self.failure_rate
            ));
        }
        Ok(())
    }

    /// Returns the settings in force, which are the defaults until a valid document is read.
    ///
    /// An invalid document leaves the last valid settings in force. The value is shared by all sessions of the process.
    pub fn live(tree: &Tree) -> Typed<Self> {
        Typed::node(&tree.settings, Toml)
            .expect("the path is one")
            .validated(Self::validate)
            .with_default(Self::default())
            .build()
    }

    /// Returns a one-line summary.
    pub fn describe(&self) -> String {
        format!(
            "{} tasks per worker, {} at once, each for {:?}, failing with a chance of {}",
            self.tasks_per_worker, self.at_once, self.work, self.failure_rate
        )
    }
}

/// Returns the settings in force.
pub fn current(settings: &Typed<Settings>) -> Settings {
    settings
        .current()
        .map_or_else(Settings::default, |current| Settings::clone(&current))
}

/// Reports each change of the settings, and each rejected document with the reason.
pub async fn report_changes(mut settings: Typed<Settings>, reporter: &Reporter) {
    let mut problems = settings.problems();
    let mut reported = None;
    loop {
        tokio::select! {
            biased;
            current = settings.changed() => {
                reported = None;
                reporter.report(format_args!("settings: {}", current.describe()));
            }
            Ok(()) = problems.changed() => {
                let problem = problems.borrow_and_update().clone();
                // Other problems concern the connection, which is reported elsewhere.
                let refused = problem.filter(|problem| {
                    matches!(
                        **problem,
                        zk_config::Problem::Invalid(_) | zk_config::Problem::Rejected { .. }
                    )
                });
                let refused = refused.map(|problem| problem.to_string());
                if let Some(why) = &refused && reported != refused {
                    let was_read = settings.current().is_some_and(|it| it.revision().is_some());
                    let which = if was_read { "the last good ones stay" } else { "the defaults are" };
                    reporter.report(format_args!("settings: {which} in force, as {why}"));
                }
                reported = refused.or(reported);
            }
        }
    }
}

const LONGEST_WORK: Duration = Duration::from_secs(3600);
const MOST_TASKS: usize = 1_000;

#[cfg(test)]
mod tests {
    use zk_core::codec::Codec as _;

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let settings: Settings = Toml
            .decode(text.as_bytes())
            .map_err(|error| error.to_string())?;
        settings.validate()?;
        Ok(settings)
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let settings = read("work = \"2s\"\nat_once = 8").unwrap();
        let expected = Settings {
            work: Duration::from_secs(2),
            at_once: 8,
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value() {
        for (text, complaint) in [
            ("tasks_per_worker = 0", "tasks_per_worker is 0"),
            ("at_once = 0", "at_once is 0"),
            ("tasks_per_worker = 1001", "tasks_per_worker is 1001"),
            ("at_once = 1001", "at_once is 1001"),
            ("work = \"61m\"", "work is 3660s"),
            ("failure_rate = 1.5", "failure_rate is 1.5"),
            ("failure_rate = nan", "failure_rate is NaN"),
            ("wrok = \"1s\"", "unknown field `wrok`"),
            ("work = \"soon\"", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn settings_survive_being_written_and_read() {
        let settings = Settings {
            tasks_per_worker: 9,
            at_once: 3,
            work: Duration::from_millis(1500),
            failure_rate: 0.25,
        };
        let text = Toml.encode(&settings).unwrap();
        assert_eq!(read(std::str::from_utf8(&text).unwrap()), Ok(settings));
    }
}
