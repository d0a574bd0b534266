//! Defines and parses the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Parser, Subcommand, ValueEnum};
use zk_harness::fault::ClockShift;
use zk_harness::{DataStore, Profile, Selector};

use crate::network_state::Cut;

/// Manages real, named ZooKeeper ensembles for development.
#[derive(Debug, Parser)]
#[command(name = "zk-ensemble", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The directory of the ensembles.
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
    /// Download what is missing and create class data, so that the first `up` is as quick as later ones.
    Prepare {
        /// A version such as 3.9 or 3.9.6 [default: as for `up`].
        #[arg(long, value_name = "VERSION|HOME")]
        zookeeper: Option<String>,
    },
    /// Kill the servers and remove the files and containers.
    Down {
        /// Keep the files; `up` starts from them again.
        #[arg(long, conflicts_with = "remove")]
        keep: bool,
        /// Remove the files even after `up --keep`.
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
        /// Print JSON on one line.
        #[arg(long)]
        json: bool,
    },
    /// Kill a server with SIGKILL.
    Kill(Servers),
    /// Stop a server with SIGTERM.
    Stop(Servers),
    /// Start a stopped server.
    Start(Servers),
    /// Stop a server if it runs, and start it.
    Restart {
        /// A server's id, `leader`, `follower` (the first one), or `all`.
        #[arg(required_unless_present = "rolling")]
        server: Option<Selector>,
        /// Restart all servers, one after the other, the leader last, each when all serve again.
        #[arg(long, conflicts_with = "server")]
        rolling: bool,
    },
    /// Pause a server's process, like a long garbage collection.
    Pause(Servers),
    /// Resume a paused server.
    Resume(Servers),
    /// Make every write of a server to a file fail, as on a full disk.
    FillDisk(Servers),
    /// Let a server's writes to files succeed again.
    FreeDisk(Servers),
    /// Move a server's wall clock; needs `up --movable-clock`.
    Clock {
        #[command(flatten)]
        servers: Servers,
        #[command(flatten)]
        shift: Shift,
    },
    /// Isolate a server from the other servers and from clients; needs `up --proxied`.
    Partition {
        #[command(flatten)]
        servers: Servers,
        #[command(flatten)]
        how: CutOff,
    },
    /// Delay the links between a server and the others; needs `up --proxied`.
    Slow {
        #[command(flatten)]
        servers: Servers,
        /// The delay in each direction, such as 50ms.
        #[arg(long, value_name = "TIME", value_parser = parse_millis, default_value = "50ms")]
        delay: u64,
        /// The maximum of an additional random delay.
        #[arg(long, value_name = "TIME", value_parser = parse_millis, default_value = "0ms")]
        jitter: u64,
        /// A limit in bytes per second.
        #[arg(long, value_name = "BYTES")]
        rate: Option<u64>,
    },
    /// Cut the connections of a server's clients, once; needs `up --proxied`.
    Cut(Servers),
    /// Undo every partition and slow link.
    Heal,
    /// Run the fault proxies; `up` starts this process.
    #[command(hide = true)]
    Proxies {
        /// The argument that assigns the process to the ensemble.
        #[arg(allow_hyphen_values = true)]
        marker: String,
    },
    /// End a session of any client, as if it had expired.
    Expire {
        /// The session id, as `cons` and a server's log show it: hexadecimal after 0x, otherwise decimal.
        #[arg(value_parser = parse_session)]
        session: i64,
    },
    /// Show the servers' logs.
    Logs {
        /// One server only.
        server: Option<Selector>,
        /// Show new lines until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
        /// The number of last lines of each server; 0 for all.
        #[arg(long, short = 'n', default_value_t = 0)]
        lines: usize,
    },
    /// Print what `zk` needs to connect, for the shell: eval "$(… env)".
    Env {
        /// The format.
        #[arg(long, value_enum, default_value_t = EnvFormat::Export)]
        format: EnvFormat,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Servers {
    /// A server's id, `leader`, `follower` (the first one), or `all`.
    #[arg(value_name = "SERVER")]
    pub(crate) server: Selector,
}

#[derive(Debug, Clone, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own on the command line"
)]
pub(crate) struct UpArgs {
    /// The number of servers, 1 to 254 [default: 3].
    #[arg(long, short = 'n')]
    pub(crate) servers: Option<usize>,
    /// How the servers run [default: processes].
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
    /// A version such as 3.9 or 3.9.6, or the directory of an unpacked one [default: the first one found].
    #[arg(long, value_name = "VERSION|HOME")]
    pub(crate) zookeeper: Option<String>,
    /// Where the data is stored: on disk, every write is flushed [default: disk].
    #[arg(long, value_parser = PossibleValuesParser::new(["memory", "disk"]).map(data_store))]
    pub(crate) data: Option<DataStore>,
    /// The longest request that the servers accept, their jute.maxbuffer [default: 1048575]; `env` prints what clients
    /// need.
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_buffer: Option<u32>,
    /// Read settings from an ensemble.toml; options on the command line take precedence.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A set of settings: `default`, `chaos` (failovers in a second, data in memory) or `production` (slow ticks).
    #[arg(long, conflicts_with = "config")]
    pub(crate) profile: Option<Profile>,
    /// Put fault proxies in front of the servers and between them, for `partition`, `slow` and `cut`.
    #[arg(long)]
    pub(crate) proxied: bool,
    /// Let `clock` move the servers' clocks; they start more slowly.
    #[arg(long)]
    pub(crate) movable_clock: bool,
    /// Also listen for TLS; clients have to present a certificate there, and `env` prints where one is.
    ///
    /// The port without TLS stays open to all users of this machine, unless --tls-only is given.
    #[arg(long, conflicts_with = "proxied")]
    pub(crate) tls: bool,
    /// Refuse all requests of sessions without TLS, from 3.7 on; implies --tls.
    ///
    /// The port without TLS answers four-letter words alone.
    #[arg(long, conflicts_with_all = ["proxied", "auth"])]
    pub(crate) tls_only: bool,
    /// Refuse clients that do not authenticate with SASL, from 3.6 on; `env` prints the credentials of a user.
    #[arg(long)]
    pub(crate) auth: bool,
    /// Keep the files when the ensemble is taken down or does not start.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Processes on this machine.
    Processes,
    /// Containers of a container engine: data on disk, ports chosen by the engine, no --proxied, no --movable-clock; see
    /// the table in the documentation of `zk_harness::container`.
    Containers,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum EnvFormat {
    /// `export ZK_CONNECT=…`, a line for each variable
    Export,
    /// The connection string alone, without certificates and credentials.
    Value,
    /// A JSON object.
    Json,
}

/// The part of a server's network that is cut off; all of it without an option.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(multiple = false)]
pub(crate) struct CutOff {
    /// Only the links to and from the other servers; clients can connect.
    #[arg(long)]
    peers: bool,
    /// Only the links from the other servers to it.
    #[arg(long)]
    deaf: bool,
    /// Only the links from it to the other servers.
    #[arg(long)]
    mute: bool,
}

impl CutOff {
    pub(crate) const fn cut(self) -> Cut {
        match (self.peers, self.deaf, self.mute) {
            (true, ..) => Cut::Peers,
            (_, true, _) => Cut::Inbound,
            (.., true) => Cut::Outbound,
            _ => Cut::Isolated,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the type that clap passes")]
fn data_store(text: String) -> DataStore {
    match text.as_str() {
        "memory" => DataStore::Memory,
        "disk" => DataStore::Disk,
        _ => unreachable!("clap accepts only these two"),
    }
}

/// Parses whole milliseconds, up to an hour.
fn parse_millis(text: &str) -> Result<u64, String> {
    let rule = "use whole milliseconds with a unit, up to an hour, such as 50ms or 2s";
    let time = humantime_serde::re::humantime::parse_duration(text).map_err(|_| rule)?;
    let millis = u64::try_from(time.as_millis()).map_err(|_| rule)?;
    if millis > 3_600_000 || !time.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(rule.into());
    }
    Ok(millis)
}

/// The offset of a clock.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Shift {
    /// Ahead of the machine's time, such as 90s, 5m or 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    ahead: Option<u32>,
    /// Behind the machine's time, such as 90s, 5m or 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    behind: Option<u32>,
    /// Back to the machine's time.
    #[arg(long)]
    reset: bool,
}

impl Shift {
    pub(crate) fn shift(self) -> ClockShift {
        match (self.ahead, self.behind) {
            (Some(seconds), _) => ClockShift::Ahead(seconds),
            (None, Some(seconds)) => ClockShift::Behind(seconds),
            (None, None) => ClockShift::None,
        }
    }
}

/// Parses whole seconds.
fn parse_time(text: &str) -> Result<u32, String> {
    let rule = "use whole seconds with a unit, such as 90s, 5m or 1h";
    let time = humantime_serde::re::humantime::parse_duration(text).map_err(|_| rule)?;
    let seconds = u32::try_from(time.as_secs()).map_err(|_| "use less than a century")?;
    if time.subsec_nanos() > 0 {
        return Err(rule.into());
    }
    Ok(seconds)
}

/// Parses a session id: hexadecimal after `0x`, otherwise decimal with an optional sign.
fn parse_session(text: &str) -> Result<i64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
        None => text.parse::<i64>(),
    };
    parsed.map_err(|_| "use the id as servers print it, such as 0x100000bd6a30001".into())
}

/// Parses a name, which is also the name of a directory.
fn parse_name(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 64 || text.starts_with(['.', '-']) || !text.bytes().all(fine)
    {
        return Err(
            "use 1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first".into(),
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn commands_in_the_readme_are_valid() {
        let readme = include_str!("../../../../../README.md");
        let prompt = "$ cargo xtask ensemble ";
        let lines = readme.lines().filter_map(|line| line.strip_prefix(prompt));
        let commands: Vec<&str> = lines.collect();
        assert!(commands.len() >= 6, "{commands:?}");
        for command in commands {
            let words = ["zk-ensemble"].into_iter().chain(command.split(' '));
            let parsed = Args::try_parse_from(words);
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }

    #[test]
    fn session_ids_are_parsed_as_servers_print_them() {
        assert_eq!(
            parse_session("0x100000bd6a30001"),
            Ok(0x0100_000b_d6a3_0001)
        );
        assert_eq!(
            parse_session("0xff00000000000001"),
            Ok(-0x00ff_ffff_ffff_ffff)
        );
        assert_eq!(parse_session("17"), Ok(17));
        for wrong in ["", "0x", "x", "0x1g", "0x10000000000000000"] {
            assert!(parse_session(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_a_unit_and_are_whole() {
        assert_eq!(parse_time("1h 1s"), Ok(3601));
        for wrong in ["", "1", "1500ms", "200y", "-1s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_millis("2s 5ms"), Ok(2005));
        for wrong in ["", "1", "1us", "2h", "-1s"] {
            assert!(parse_millis(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        for name in ["", ".", "..", "a/b", "-a", "a b", "a\n", &"x".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name:?} was accepted");
        }
        assert!(parse_name("feature-1_x.y").is_ok());
    }
}
