//! Parses the command line.

use std::path::PathBuf;

use crate::fault::Fault;

/// A simulated ZooKeeper ensemble on loopback TCP, for unit tests. It keeps nothing, and is nothing for production.
#[derive(Debug, clap::Parser)]
#[command(name = "zk-sim")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Serve until SIGTERM, SIGINT or ctrl-c; the first line of the output is the connect string.
    Serve(ServeArgs),
    /// Serve in the background until `down`.
    Up {
        /// The directory that says which process serves.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        #[command(flatten)]
        options: ServeArgs,
    },
    /// End what `up` has started.
    Down {
        /// The directory given to `up`.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
    },
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArgs {
    /// The number of servers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) servers: u8,
    /// The port of the first server, those of the others follow; by default any free ports.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Inject random failures, drawn from the seed.
    #[arg(long)]
    pub(crate) chaos: bool,
    /// A failure of certain requests, such as `lose-reply:create:/locks/**`; `--help` lists all.
    ///
    /// The form is FAILURE:REQUEST:PATH, with `@2` at the end for the second such request and `@*` for each.
    /// FAILURE is lose-request, lose-reply, stall, kill-leader or kill-leader-survives.
    /// REQUEST is create, delete, get, set, exists, list, sync, transaction, watch, write or any.
    /// In PATH, `*` is any text within a name and `**` any text.
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<Fault>,
    /// A file with a failure per line; lines that begin with `#` are comments.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}
