//! Keeps what a test recorded in one directory, and judges it at the end.

use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::check::{Checker, Report, ServerLogs, judge};
use crate::{History, Recorder};

mod copy;
mod description;
mod environment;
mod error;

pub use description::{Description, DescriptionError};
pub use error::RunError;

/// A directory with the history of a test, which checkers judge at the end.
///
/// ```no_run
/// # fn demo(directories: Vec<std::path::PathBuf>) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_history::check::{FencedMutex, Liveness};
/// use zk_history::{Op, ReturnValue, Run};
///
/// // Start the servers first: they are dropped last, so that a failed run can copy their files.
/// let run = Run::seeded("lock-nemesis")?
///     .judged_by(FencedMutex::default().with_order())?
///     .judged_by(Liveness::default().with_rate(100).with_progress_after(1))?;
/// run.keep_with(directories); // those of `Ensemble::directories` of `zk-harness`
///
/// let recorder = run.recorder("driver")?;
/// let held = recorder.invoke(Op::acquire("/lock")).granted(ReturnValue::token(7));
/// held.release().ok(());
///
/// run.finish()?;
/// # Ok(())
/// # }
/// ```
///
/// The run has its own directory below `$ZK_RUNS_DIR`, or else below `zk-runs` in the build's target directory. It
/// contains `history-*.jsonl`, and `run.json` with the name, the seed, the checkers and the command that repeats the test.
///
/// The directory is removed if [`finish`](Self::finish) finds nothing wrong, unless `$ZK_RUNS_KEEP` is set.
/// Otherwise it stays, with the directories of [`keep_with`](Self::keep_with), and the error states the violations, the directory, and the commands that judge the run again and repeat the test.
///
/// # Dropping
///
/// A run that is dropped before [`finish`](Self::finish), by a panic or an early return, failed: it is judged and kept,
/// and the same text goes to standard error.
#[derive(Debug)]
#[must_use = "a run that is dropped without `finish` is a failed one"]
pub struct Run {
    description: Description,
    directory: PathBuf,
    keep: bool,
    open: bool,
    /// Asked for write errors at the end, and dropped before the history is read, so that they record their ends.
    recorders: Mutex<Vec<Recorder>>,
    /// The directories of ensembles, which are copied if the run fails.
    ensembles: Mutex<Vec<PathBuf>>,
}

impl Run {
    /// Starts a run with the seed of the environment variable `SEED`, or a random one.
    ///
    /// # Errors
    ///
    /// `SEED` is not a number, or the directory cannot be created.
    pub fn seeded(name: &str) -> Result<Self, RunError> {
        Self::new(name, environment::seed()?)
    }

    /// Starts a run.
    ///
    /// # Errors
    ///
    /// The directory cannot be created.
    pub fn new(name: &str, seed: u64) -> Result<Self, RunError> {
        Self::begin(&environment::runs_directory(), name, seed)
    }

    fn begin(root: &Path, name: &str, seed: u64) -> Result<Self, RunError> {
        let directory = environment::new_directory(root, name, seed).map_err(in_place(root))?;
        let run = Self {
            description: Description {
                name: name.to_owned(),
                seed,
                checkers: Vec::new(),
                again: environment::command(seed),
            },
            directory,
            keep: std::env::var_os("ZK_RUNS_KEEP").is_some_and(|keep| !keep.is_empty()),
            open: true,
            recorders: Mutex::default(),
            ensembles: Mutex::default(),
        };
        run.describe()?;
        Ok(run)
    }

    /// Adds a checker.
    ///
    /// # Errors
    ///
    /// `run.json` cannot be written.
    pub fn judged_by(mut self, checker: impl Into<Checker>) -> Result<Self, RunError> {
        self.description.checkers.push(checker.into());
        self.describe()?;
        Ok(self)
    }

    /// Returns the directory of all runs: `$ZK_RUNS_DIR`, or else `zk-runs` in the build's target directory, or in the
    /// directory of temporary files if the program is in none.
    pub fn root() -> PathBuf {
        environment::runs_directory()
    }

    /// Returns the directory of the run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the seed.
    pub const fn seed(&self) -> u64 {
        self.description.seed
    }

    /// Creates a recorder with its own file in the run.
    ///
    /// `process` is the name in reports; each recorder of a run needs a different one.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    pub fn recorder(&self, process: &str) -> Result<Recorder, RunError> {
        let file = self.history_file(process);
        let recorder = Recorder::open(&file, process).map_err(in_place(&file))?;
        let mut recorders = self
            .recorders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recorders.push(recorder.clone());
        Ok(recorder)
    }

    /// Returns the file that another process of that name must record to, with a [`Recorder`] or in the format.
    pub fn history_file(&self, process: &str) -> PathBuf {
        let name = environment::file_name(process);
        self.directory.join(format!("history-{name}.jsonl"))
    }

    /// Copies the directories of the servers, with their logs, configuration and data, into the run if it fails.
    ///
    /// Blocks of zeros become holes, because servers preallocate their transaction logs. The failure's text names what
    /// cannot be copied.
    ///
    /// Start the run after the ensemble, and take the ensemble down after [`finish`](Self::finish), because that removes
    /// the files.
    pub fn keep_with<P: Into<PathBuf>>(&self, directories: impl IntoIterator<Item = P>) {
        self.ensembles()
            .extend(directories.into_iter().map(Into::into));
    }

    /// Judges the history.
    ///
    /// Stop all recorders first: a pending operation counts as unknown, and a process without an end as killed.
    ///
    /// # Errors
    ///
    /// A checker finds a violation or has too little to judge, there is no checker, the servers lost acknowledged
    /// writes, or the history cannot be written or read. In each case the run is kept.
    pub fn finish(mut self) -> Result<Report, RunError> {
        self.open = false;
        let written = self.close();
        let history = match History::read(&self.directory) {
            Ok(history) => history,
            Err(source) => {
                let text = format!("the run {self} cannot be judged\n{}", self.kept());
                return Err(RunError::Unreadable { text, source });
            }
        };
        let report = self.judged(&history);
        if let Err(source) = written {
            self.text(&history, &report);
            self.copy_ensembles();
            let path = self.directory.clone();
            return Err(RunError::Io { path, source });
        }
        if !report.is_valid() {
            let text = format!("{}{}", self.text(&history, &report), self.kept());
            return Err(RunError::Failed { text, report });
        }
        if self.keep {
            let text = self.text(&history, &report);
            print(&format!("{text}{}", self.kept()));
            return Ok(report);
        }
        std::fs::remove_dir_all(&self.directory).map_err(in_place(&self.directory))?;
        Ok(report)
    }

    /// Judges the history, and the servers by their logs.
    fn judged(&self, history: &History) -> Report {
        let logs = ServerLogs::read(self.ensembles().iter()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the servers' logs cannot be read");
            ServerLogs::default()
        });
        judge(history, &self.description.checkers).with_servers(history, &logs)
    }

    /// Drops the recorders, and returns the first write error.
    fn close(&self) -> io::Result<()> {
        let mut recorders = self
            .recorders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recorders
            .drain(..)
            .try_for_each(|recorder| recorder.check())
    }

    /// Formats the verdicts, and saves them in `verdict.txt`.
    fn text(&self, history: &History, report: &Report) -> String {
        let mut text = format!(
            "the run {self}: {}\n{}",
            report.judgement(),
            report.to_text(history)
        );
        if self.description.checkers.is_empty() {
            text.push_str("note: no checker was named\n");
        }
        let file = self.directory.join("verdict.txt");
        if let Err(error) = std::fs::write(&file, &text) {
            tracing::warn!(%error, file = %file.display(), "the verdict could not be written");
        }
        text
    }

    /// Copies the ensembles; returns the directory and the commands.
    fn kept(&self) -> String {
        let mut text = String::from("\n");
        for problem in self.copy_ensembles() {
            text.push_str(&problem);
        }
        let directory = self.directory.display();
        let judge = environment::judge_command();
        let _ = writeln!(text, "kept in:        {directory}");
        let _ = writeln!(text, "judge it again: {judge} {directory}");
        if !self.description.again.is_empty() {
            let _ = writeln!(text, "run it again:   {}", self.description.again);
        }
        text
    }

    /// Copies the directories of the ensembles; returns a line for each that could not be copied.
    fn copy_ensembles(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (number, from) in (1..).zip(self.ensembles().drain(..)) {
            let name = match number {
                1 => "ensemble".to_owned(),
                _ => format!("ensemble-{number}"),
            };
            if let Err(error) = copy::tree(&from, &self.directory.join(name)) {
                problems.push(format!("{} could not be copied: {error}\n", from.display()));
            }
        }
        problems
    }

    fn ensembles(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.ensembles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self) -> Result<(), RunError> {
        let written = self.description.write(&self.directory);
        written.map_err(in_place(&self.directory))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let written = self.close();
        let judged = History::read(&self.directory).map(|history| {
            let report = self.judged(&history);
            self.text(&history, &report)
        });
        let mut text = judged.unwrap_or_else(|error| format!("the run {self}: {error}\n"));
        if let Err(error) = written {
            let _ = writeln!(text, "note: the history is incomplete: {error}");
        }
        text += "note: the test did not finish the run\n";
        text += &self.kept();
        print(&text);
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, seed, .. } = &self.description;
        write!(f, "{name} with seed {seed}")
    }
}

fn in_place(path: &Path) -> impl Fn(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Io {
        path: path.clone(),
        source,
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a failed test has to print where its evidence is"
)]
fn print(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests;
