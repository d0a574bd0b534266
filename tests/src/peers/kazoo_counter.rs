//! kazoo's `Counter`, in a process of its own.

use std::time::Duration;

use anyhow::Context as _;

use super::kazoo::Kazoo;
use super::run;

impl Kazoo {
    /// Adds to the `Counter` at `path` so many times, and returns its number after each.
    ///
    /// `layout` is `text`, or `curator` for four bytes.
    ///
    /// # Errors
    ///
    /// kazoo failed, or was not done within two minutes.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session ends after its timeout.
    pub async fn count(
        &self,
        connect: &str,
        path: &str,
        layout: &str,
        amount: i32,
        times: u32,
    ) -> anyhow::Result<Vec<i64>> {
        let mut command = self.counter_program();
        command.args([connect, path, layout]);
        command.args([amount.to_string(), times.to_string()]);
        let printed = run::output(&mut command, "kazoo's counter", WITHIN).await?;
        let numbers = printed.lines().map(|line| {
            let number = line.parse();
            number.with_context(|| format!("it printed {line:?}"))
        });
        numbers.collect()
    }
}

const WITHIN: Duration = Duration::from_secs(120);
