//! Reads the options of a benchmark, which `cargo xtask bench` sets in the environment.

use std::env;
use std::time::Duration;

use anyhow::bail;
use criterion::Criterion;

/// The options of a benchmark.
///
/// The command line belongs to criterion: filters, `--save-baseline` and other options follow `--`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent options of a command line"
)]
pub struct Settings {
    /// Few and short rounds: `ZK_BENCH_QUICK`.
    pub quick: bool,
    /// Also measure the peers: `ZK_BENCH_PEERS`.
    pub peers: bool,
    /// Keep the servers' data in memory: `ZK_BENCH_MEMORY`.
    pub memory: bool,
    /// Run everything once without measuring: `--test`, or no `--bench`, as criterion's benchmarks do.
    pub smoke: bool,
}

impl Settings {
    /// Reads the environment and the command line.
    ///
    /// # Errors
    ///
    /// If a variable is neither `0` nor `1`.
    pub fn from_env() -> anyhow::Result<Self> {
        Self::read(|name| env::var(name).ok(), env::args().skip(1))
    }

    fn read(
        variable: impl Fn(&str) -> Option<String>,
        args: impl Iterator<Item = String>,
    ) -> anyhow::Result<Self> {
        let flag = |name: &str| match variable(name).as_deref() {
            None | Some("" | "0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => bail!("{name} is {other:?}: set it to 0 or 1"),
        };
        let (mut bench, mut test) = (false, false);
        for arg in args {
            bench |= arg == "--bench";
            test |= arg == "--test";
        }
        Ok(Self {
            quick: flag("ZK_BENCH_QUICK")?,
            peers: flag("ZK_BENCH_PEERS")?,
            memory: flag("ZK_BENCH_MEMORY")?,
            smoke: test || !bench,
        })
    }

    /// Returns criterion, configured for these options.
    pub fn criterion(&self) -> Criterion {
        let criterion = Criterion::default().without_plots();
        let criterion = if self.quick {
            criterion
                .warm_up_time(Duration::from_millis(200))
                .measurement_time(Duration::from_secs(1))
                .nresamples(10_000)
        } else {
            criterion
                .warm_up_time(Duration::from_secs(2))
                .measurement_time(Duration::from_secs(10))
        };
        criterion
            .sample_size(self.sample_size())
            .configure_from_args()
    }

    /// Returns the number of rounds that criterion measures for one of the two sides.
    pub const fn sample_size(&self) -> usize {
        if self.quick { 10 } else { 20 }
    }

    /// Returns the command that runs `benchmark` with these options.
    pub fn command(&self, benchmark: &str) -> String {
        let mut command = format!("cargo xtask bench {benchmark}");
        for (given, option) in [
            (self.quick, " --quick"),
            (self.peers, " --peers"),
            (self.memory, " --memory"),
        ] {
            if given {
                command.push_str(option);
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], args: &[&str]) -> anyhow::Result<Settings> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::read(variable, args.iter().map(|&arg| arg.to_owned()))
    }

    #[test]
    fn the_environment_asks_for_options_and_the_command_says_them_again() {
        let plain = read(&[], &["--bench"]).unwrap();
        assert_eq!(plain.command("lock"), "cargo xtask bench lock");
        assert!(!plain.smoke);
        let all = [
            ("ZK_BENCH_QUICK", "1"),
            ("ZK_BENCH_PEERS", "1"),
            ("ZK_BENCH_MEMORY", "1"),
        ];
        assert_eq!(
            read(&all, &["--bench"]).unwrap().command("lock"),
            "cargo xtask bench lock --quick --peers --memory"
        );
        assert_eq!(
            read(&[("ZK_BENCH_QUICK", "0")], &["--bench"]).unwrap(),
            plain
        );
    }

    #[test]
    fn without_a_benchmark_to_run_everything_is_done_once() {
        assert!(read(&[], &["--bench", "--test"]).unwrap().smoke);
        assert!(read(&[], &[]).unwrap().smoke, "as under cargo test");
    }

    #[test]
    fn a_value_that_is_no_flag_is_said() {
        let error = read(&[("ZK_BENCH_QUICK", "yes")], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ZK_BENCH_QUICK is \"yes\": set it to 0 or 1"
        );
    }
}
