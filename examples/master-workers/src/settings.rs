//! The settings of the application: one TOML document in ZooKeeper, followed live by every process.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use zk_config::Typed;
use zk_core::codec::Toml;

use crate::reporter::Reporter;
use crate::tree::Tree;

/// What can be set while everything runs. What a document leaves out has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How many tasks a worker has at most, those that it works at included, from 1 to 1,000. Default 4.
    ///
    /// The master goes by it, on a picture that may be a moment old: it may be exceeded by a few for a moment.
    pub tasks_per_worker: usize,
    /// How many tasks a worker works at, at the same time, from 1 to 1,000. Default 2.
    pub at_once: usize,
    /// How long a task takes. Default `"500ms"`.
    #[serde(with = "humantime_serde")]
    pub work: Duration,
    /// How likely it is that an attempt fails, from 0 up to 0.9. Default 0.
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
    /// Tells what is wrong with them: what no type can say.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with the value.
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

    /// Describes the settings in force, which are the defaults until a good document was read.
    ///
    /// A bad one leaves the last good ones in force. Sessions come and go; this is one value for all of them.
    pub fn live(tree: &Tree) -> Typed<Self> {
        Typed::node(tree.settings(), Toml)
            .expect("the path is one")
            .validated(Self::validate)
            .with_default(Self::default())
            .build()
    }

    /// Returns them in a line, for people.
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

/// Tells a person of every change of the settings, and of every document that is not put in force, and why.
///
/// # Cancel safety
///
/// Safe, nothing is told any more.
pub async fn report_changes(mut settings: Typed<Settings>, reporter: &Reporter) {
    let mut problems = settings.problems();
    let mut told = None;
    loop {
        tokio::select! {
            biased;
            current = settings.changed() => {
                told = None;
                reporter.report(format_args!("settings: {}", current.describe()));
            }
            Ok(()) = problems.changed() => {
                let problem = problems.borrow_and_update().clone();
                // Everything else is of the connection, which others tell of.
                let refused = problem.filter(|problem| {
                    matches!(
                        **problem,
                        zk_config::Problem::Invalid(_) | zk_config::Problem::Rejected { .. }
                    )
                });
                let refused = refused.map(|problem| problem.to_string());
                if let Some(why) = &refused && told != refused {
                    let was_read = settings.current().is_some_and(|it| it.revision().is_some());
                    let which = if was_read { "the last good ones stay" } else { "the defaults are" };
                    reporter.report(format_args!("settings: {which} in force, as {why}"));
                }
                told = refused.or(told);
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
