//! Stores the results of a run as a JSON file.

use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Deserialize;
use serde::Serialize;

use crate::environment::Environment;
use crate::result::WorkloadResult;

/// What a benchmark writes to `target/bench/<benchmark>.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The name of the benchmark.
    pub benchmark: String,
    /// The command that was run.
    pub command: String,
    /// The machine and the ensemble.
    pub environment: Environment,
    /// The figures.
    pub results: Vec<WorkloadResult>,
}

impl Record {
    /// Combines the parts.
    pub fn new(
        benchmark: impl Into<String>,
        command: String,
        environment: Environment,
        results: Vec<WorkloadResult>,
    ) -> Self {
        Self {
            benchmark: benchmark.into(),
            command,
            environment,
            results,
        }
    }

    /// Writes the file below the target directory, and returns its path.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self) -> anyhow::Result<PathBuf> {
        let program = env::current_exe().context("cannot tell where this program lies")?;
        let path = directory(&program).join(format!("{}.json", self.benchmark));
        self.write_to(&path)?;
        Ok(path)
    }

    fn write_to(&self, path: &Path) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(failed)?;
        }
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(failed)
    }
}

/// `target/bench` of the target directory that cargo has built `program` into: `target/release/deps/program`.
fn directory(program: &Path) -> PathBuf {
    match program.ancestors().nth(3) {
        Some(target) => target.join("bench"),
        None => PathBuf::from("target/bench"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_work::OtherWork;
    use crate::result::results;
    use crate::round::Latencies;
    use crate::round::Round;
    use std::time::Duration;

    #[test]
    fn what_is_written_can_be_read_again() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_millis(1));
        let round = Round::new(Duration::from_millis(3), latencies);
        let environment = Environment {
            machine: "m".to_owned(),
            system: "s".to_owned(),
            other_work: OtherWork { share: Some(0.01) },
            ensemble: "e".to_owned(),
            data: "d".to_owned(),
        };
        let results = results("g", "operations", ["a", "b"], &[[round.clone(), round]]);
        let record = Record::new("lock", "cargo".to_owned(), environment, results.to_vec());
        let directory = env::temp_dir().join(format!("zk-bench-record-{}", std::process::id()));
        let path = directory.join("bench").join("lock.json");
        record.write_to(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn it_lies_in_the_target_directory() {
        assert_eq!(
            directory(Path::new("/src/target/release/deps/lock_throughput-1")),
            Path::new("/src/target/bench")
        );
    }
}
