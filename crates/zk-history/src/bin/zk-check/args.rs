//! Defines the command line.

use std::path::PathBuf;

use clap::Parser;
use zk_history::check::Checker;

/// Judge what a run recorded.
///
/// A run that failed is kept as a directory with `run.json` and `history*.jsonl`; its path is in the failure.
/// Judge it again after a checker was changed, or with other checkers.
#[derive(Debug, Parser)]
#[command(name = "zk-check", version, after_help = EXIT)]
pub(crate) struct Args {
    /// Directory of a run, or a file of a history [default: the newest run below `$ZK_RUNS_DIR` or the target directory]
    pub(crate) run: Option<PathBuf>,

    /// Checker to judge with, instead of those of run.json; may be given several times
    ///
    /// NAME, or NAME:SETTING=VALUE,SETTING=VALUE; `path` restricts any of them to a path, or to all that begin like
    /// `/locks/*`.
    #[arg(long = "checker", short = 'c', value_name = "SPEC")]
    pub(crate) checkers: Vec<Checker>,

    /// List the checkers with their settings
    #[arg(long)]
    pub(crate) list: bool,
}

const EXIT: &str = "\
Exit status: 0 if nothing is wrong, 1 if there is a violation, \
2 if it cannot be judged: too little was recorded, or it cannot be read; \
3 if the servers lost acknowledged writes, which may have caused other violations.";

/// The output of `--list`; a test compares it with the checkers.
pub(crate) const CHECKERS: &str = "\
fenced-mutex     one holder at a time, tokens rise
                   ordered=true        grants in the order of sequence numbers
read-write-lock  readers share, a writer is alone
semaphore        never more permits than there are
                   permits=3           needed: how many there are
linearizable     one holder at a time, tokens rise; by a search
                   budget=10000000     steps of the search
fenced-register  a resource accepts no lower token
total-queue      nothing lost, made up or delivered too often
                   delivery=exactly-once or at-least-once
counter          no update lost or applied twice
                   initial=0           the value before all updates
progress         enough succeeds
                   op=acquire          only operations of this name
                   rate=100            successes a second before the first fault
                   after=1             successes after the last fault
                   bound=10s           the longest wait while there is no fault
";
