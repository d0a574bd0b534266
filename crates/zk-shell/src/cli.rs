//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::Parser;
use clap::Subcommand;

use crate::span::parse_timeout;
use crate::span::parse_ttl;

/// The ordinary shell commands on ZooKeeper nodes.
///
/// With ZK_AUTH=user:password in the environment the session is authenticated with the digest scheme; the password
/// has no place on the command line, where every user of the machine can read it.
///
/// Exit status: 0 worked, 1 failed, 2 not understood.
#[derive(Debug, Parser)]
#[expect(clippy::doc_markdown, reason = "it is printed as it stands by --help")]
#[command(name = "zk", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// The ensemble: host:port,host:port/chroot
    #[arg(
        long,
        global = true,
        env = "ZK_CONNECT",
        value_name = "STRING",
        hide_env_values = true
    )]
    pub(crate) connect: Option<String>,

    /// The longest the whole command may take
    #[arg(long, global = true, default_value = "10s", value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the children of a node
    Ls(Ls),
    /// Print the data of a node
    Get(Get),
    /// Replace the data of a node
    Set(Set),
    /// Create a node
    Create(Create),
    /// Delete a node
    Delete(Delete),
    /// Delete a node and everything below it
    Deleteall {
        /// The node
        path: String,
    },
    /// Print the metadata of a node
    Stat {
        /// The node
        path: String,
    },
    /// Print who holds a lock and who waits for it
    Locks(Locks),
    /// Publish and follow configuration in TOML
    #[command(subcommand)]
    Config(Config),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Publish a TOML file, as it is, unless the node has it already
    Put {
        /// Publish only if the node is the work of this transaction, as `follow` prints it, or 0 if there is none yet
        #[arg(short, long, value_name = "REVISION", value_parser = parse_revision)]
        expecting: Option<i64>,
        /// Keep so many replaced revisions
        #[arg(long, value_name = "REVISIONS", default_value_t = 10)]
        history: usize,
        /// The node; missing parents are created
        path: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Print the document, or write it to a file
    Get {
        /// The node
        path: String,
        /// The file
        file: Option<PathBuf>,
    },
    /// Print how a file differs from the document; exit status 1 if it does
    Diff {
        /// The node
        path: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Print each change as it happens, until Ctrl-C
    Follow {
        /// The node
        path: String,
    },
    /// List the revisions that were replaced
    History {
        /// The node
        path: String,
    },
    /// Publish a replaced revision again
    Rollback {
        /// The revision that is to be replaced, as `put` or `follow` printed it, or 0 if the node was removed
        #[arg(short, long, value_name = "REVISION", value_parser = parse_revision)]
        expecting: i64,
        /// Keep so many replaced revisions
        #[arg(long, value_name = "REVISIONS", default_value_t = 10)]
        history: usize,
        /// The node
        path: String,
        /// The revision, as `history` prints it
        #[arg(value_parser = parse_revision)]
        revision: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print the metadata too
    #[arg(short, conflicts_with = "recursive")]
    pub(crate) stat: bool,
    /// Print the paths of the whole subtree, one a line
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// The node
    #[arg(default_value = "/")]
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Print the metadata too
    #[arg(short)]
    pub(crate) stat: bool,
    /// Print the bytes of the data and nothing else, not even a newline
    #[arg(long, conflicts_with = "stat")]
    pub(crate) raw: bool,
    /// The node
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Print the metadata after the change
    #[arg(short)]
    pub(crate) stat: bool,
    /// Write only if the data has this version
    #[arg(short, value_name = "VERSION", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) version: Option<i32>,
    /// The node
    pub(crate) path: String,
    /// The data, or - to read it from standard input
    #[arg(allow_negative_numbers = true)]
    pub(crate) data: String,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of the command line"
)]
pub(crate) struct Create {
    /// Append a ten-digit number to the name
    #[arg(short, conflicts_with = "container")]
    pub(crate) sequential: bool,
    /// Make it vanish with this session, which is kept until Ctrl-C, SIGTERM or the end of standard input
    #[arg(short, conflicts_with_all = ["container", "ttl"])]
    pub(crate) ephemeral: bool,
    /// Make it a container, which the server removes after its last child
    #[arg(short, conflicts_with = "ttl")]
    pub(crate) container: bool,
    /// Let the server remove it when unchanged for this long, in milliseconds
    #[arg(short, value_name = "TTL", value_parser = parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    /// Create missing parents too
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// The node
    pub(crate) path: String,
    /// The data, or - to read it from standard input; none by default
    #[arg(allow_negative_numbers = true)]
    pub(crate) data: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Delete only if the data has this version
    #[arg(short, value_name = "VERSION", allow_negative_numbers = true, conflicts_with = "recursive", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) version: Option<i32>,
    /// Delete everything below it too, like deleteall
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// The node
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// Delete the node of the holder, or of the contender NAME, once it was confirmed
    #[arg(long = "break", value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) broken: Option<String>,
    /// Do not ask before it is broken
    #[arg(short, long, requires = "broken")]
    pub(crate) yes: bool,
    /// The path of the lock
    pub(crate) path: String,
}

/// Parses a zxid, in hexadecimal digits after `0x` or in decimal digits.
fn parse_revision(text: &str) -> Result<i64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(
            "write the number of a transaction as it is printed, such as 0x30000001f".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn commands_in_the_readmes_are_understood() {
        for (readme, prompt, at_least) in [
            (include_str!("../README.md"), "$ zk ", 6),
            (include_str!("../../../README.md"), "$ cargo xtask zk ", 4),
        ] {
            let lines = readme.lines().filter_map(|line| line.strip_prefix(prompt));
            let commands: Vec<&str> = lines.collect();
            assert!(commands.len() >= at_least, "{commands:?}");
            for command in commands {
                let parsed = Cli::try_parse_from(["zk"].into_iter().chain(command.split(' ')));
                assert!(parsed.is_ok(), "{command}: {parsed:?}");
            }
        }
    }

    #[test]
    fn revisions_are_read_as_they_are_printed() {
        for revision in [0, 31, 0x3_0000_001f, i64::MAX] {
            assert_eq!(parse_revision(&format!("{revision:#x}")), Ok(revision));
            assert_eq!(parse_revision(&revision.to_string()), Ok(revision));
        }
        for bad in [
            "",
            "0x",
            "-1",
            "0x-1",
            "3000001f",
            "0xg",
            "0x8000000000000000",
        ] {
            assert!(parse_revision(bad).is_err(), "{bad}");
        }
    }
}
