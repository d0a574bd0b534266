//! A shell for ZooKeeper: the commands of ZooKeeper's own shell, and those on subtrees, recipes and servers.
//!
//! Answers go to standard output, everything else to standard error.
//! The exit status is 0 when the command worked, 1 when it failed, 2 when it was not understood, and 128 and the number
//! of the signal when one has ended it.

use std::process::ExitCode;

use clap::Parser;

mod acl_text;
mod cli;
mod command;
mod commands;
mod completion;
mod confirm;
mod context;
mod crawl;
mod credentials;
mod date;
mod decode;
mod diff;
mod duration;
mod editor;
mod escape;
mod failure;
mod file_io;
mod filter;
mod line;
mod output;
mod progress;
mod protected;
mod recipe_names;
mod resolve_path;
mod shell;
mod shell_words;
mod signals;
mod subtree;
mod table;
#[cfg(feature = "top")]
mod top;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && is_json_asked_for() => {
            let failure = failure::Failure::usage(error.to_string().trim_end(), "see `zk --help`");
            return failure.report(true);
        }
        Err(error) => error.exit(),
    };
    let is_json = cli.json;
    let result = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let result = runtime.block_on(command::run(cli));
            // A pending read of a pipe or a terminal must not keep the program alive.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(failure::Failure::operation(
            format!("cannot start: {error}"),
            None,
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(is_json),
    }
}

/// Returns whether a command line that was not understood asks for JSON.
fn is_json_asked_for() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}
