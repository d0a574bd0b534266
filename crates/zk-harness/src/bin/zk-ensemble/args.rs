//! The command line.

use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};

/// Real ZooKeeper ensembles for development, each under a name.
#[derive(Debug, Parser)]
#[command(name = "zk-ensemble", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The directory that holds the ensembles.
    #[arg(long, env = "ZK_ENSEMBLE_DIR", global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The ensemble's name.
    #[arg(long, env = "ZK_ENSEMBLE", global = true, default_value = "default", value_parser = parse_name)]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start an ensemble and leave it running; returns when it serves.
    Up(UpArgs),
    /// Kill the servers and remove the files.
    Down {
        /// Keep the files; `up` starts from them again.
        #[arg(long, conflicts_with = "remove")]
        keep: bool,
        /// Remove the files even if `up --keep` was said.
        #[arg(long)]
        remove: bool,
        /// Every ensemble, not just the named one.
        #[arg(long)]
        all: bool,
    },
    /// List all ensembles.
    List,
    /// Show the servers; fails if no quorum serves.
    Status {
        /// As JSON on one line.
        #[arg(long)]
        json: bool,
    },
    /// End a server with SIGKILL.
    Kill(Selection),
    /// End a server with SIGTERM.
    Stop(Selection),
    /// Start a server that is stopped.
    Start(Selection),
    /// Stop a server if it runs, and start it.
    Restart(Selection),
    /// Freeze a server's process.
    Pause(Selection),
    /// Let a paused server go on.
    Resume(Selection),
    /// Show what the servers have logged.
    Logs {
        /// One server only.
        server: Option<Selector>,
        /// Go on showing what is added, until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
        /// How many of the last lines of each server; 0 shows them all.
        #[arg(long, short = 'n', default_value_t = 0)]
        lines: usize,
    },
    /// Print the connection string for the shell: eval "$(… env)".
    Env {
        /// How to print it.
        #[arg(long, value_enum, default_value_t = EnvFormat::Export)]
        format: EnvFormat,
    },
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UpArgs {
    /// How many servers, 1 to 255 [default: 3].
    #[arg(long, short = 'n')]
    pub(crate) servers: Option<usize>,
    /// A version such as 3.9 or 3.9.3, or the directory of an unpacked one [default: the first one found].
    #[arg(long, value_name = "VERSION|HOME")]
    pub(crate) zookeeper: Option<String>,
    /// Where the data lies: on disk every write is flushed [default: disk].
    #[arg(long, value_enum)]
    pub(crate) data: Option<Data>,
    /// Read settings from an ensemble.toml; options on the command line win.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep the files when the ensemble goes down, or does not come up.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    Memory,
    Disk,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum EnvFormat {
    /// `export ZK_CONNECT=…`
    Export,
    /// The connection string alone.
    Value,
    /// A JSON object.
    Json,
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Selection {
    /// A server's id, `leader`, `follower` (the first one), or `all`.
    pub(crate) server: Selector,
}

/// Which servers a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selector {
    Id(u32),
    Leader,
    Follower,
    All,
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "all" => Ok(Self::All),
            id => id.parse().map(Self::Id).map_err(|_: ParseIntError| {
                "give a server's id, `leader`, `follower` or `all`".to_owned()
            }),
        }
    }
}

/// A name is also a directory's name.
fn parse_name(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 64 || text.starts_with(['.', '-']) || !text.bytes().all(fine)
    {
        return Err("a name has 1 to 64 letters, digits, `-`, `_` or `.`, and begins with a letter or digit".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn selectors_are_ids_or_roles() {
        assert_eq!("7".parse(), Ok(Selector::Id(7)));
        assert_eq!("leader".parse(), Ok(Selector::Leader));
        assert!("-1".parse::<Selector>().is_err());
        assert!("".parse::<Selector>().is_err());
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        for name in ["", ".", "..", "a/b", "-a", "a b", "a\n", &"x".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name:?} was accepted");
        }
        assert!(parse_name("feature-1_x.y").is_ok());
    }
}
