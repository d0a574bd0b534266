//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::acl_text::{self, DefaultAcl};
use crate::commands::acl::{Getacl, Setacl};
use crate::commands::addauth::Addauth;
use crate::commands::cd::Cd;
use crate::commands::config::Config;
use crate::commands::create::Create;
use crate::commands::delete::{Delete, Deleteall};
use crate::commands::du::Du;
use crate::commands::export::Export;
use crate::commands::find::Find;
use crate::commands::get::Get;
use crate::commands::grep::Grep;
use crate::commands::ids::Ids;
use crate::commands::import::Import;
use crate::commands::leader::Leader;
use crate::commands::locks::Locks;
use crate::commands::ls::Ls;
use crate::commands::mirror::Mirror;
use crate::commands::queue::Queue;
use crate::commands::rm::Rm;
use crate::commands::run::Run;
use crate::commands::services::Services;
use crate::commands::set::Set;
use crate::commands::stat::Stat;
use crate::commands::tree::Tree;
use crate::commands::txn::Txn;
use crate::commands::watch::Watch;
use crate::commands::what::What;
use crate::context::Settings;
use crate::duration::parse_timeout;
use crate::filter::parse_size;

/// A shell for ZooKeeper: without a command interactive, at a terminal.
///
/// With ZK_AUTH=user:password in the environment the session is authenticated with the digest scheme; the password
/// has no place on the command line, where every user of the machine can read it.
/// Without --acl and ZK_ACL everyone may do everything with the nodes that it creates.
///
/// Exit status: 0 worked, 1 failed, 2 not understood, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
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

    /// The longest a command may take; with export, import and mirror the longest of each request
    #[arg(long, global = true, default_value = "10s", value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,

    /// The longest request, the servers' jute.maxbuffer: bytes, or as in 4M; by default the servers' default, 1048575
    #[arg(
        long,
        global = true,
        env = "ZK_MAX_BUFFER",
        value_name = "BYTES",
        value_parser = parse_max_buffer
    )]
    pub(crate) max_buffer: Option<usize>,

    /// The release of the oldest server, as in 3.4; only servers before 3.6, and ClickHouse Keeper (3.4), need it
    #[arg(
        long,
        global = true,
        env = "ZK_ASSUME_RELEASE",
        value_name = "RELEASE",
        value_parser = parse_release
    )]
    pub(crate) assume_release: Option<(u16, u16)>,

    /// Who may do what with the nodes that are created: scheme:id:permissions, such as auth::cdrwa, several with commas
    /// [default: everyone everything]
    #[arg(
        long,
        global = true,
        env = "ZK_ACL",
        value_name = "ACL",
        hide_env_values = true,
        value_parser = acl_text::parse_default
    )]
    pub(crate) acl: Option<DefaultAcl>,

    /// Print results and errors as JSON, one document a line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Cli {
    /// Returns the options that all commands have.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            connect: self.connect.clone(),
            acl: self.acl.clone().and_then(|acl| acl.0),
            timeout: self.timeout,
            max_buffer: self.max_buffer,
            assume_release: self.assume_release,
            is_json: self.json,
        }
    }
}

fn parse_max_buffer(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(parse_size(text)?).ok();
    bytes
        .filter(|bytes| (1024..=i32::MAX.cast_unsigned() as usize).contains(bytes))
        .ok_or_else(|| "it must be from 1024 to 2147483647 bytes".to_owned())
}

fn parse_release(text: &str) -> Result<(u16, u16), String> {
    let numbers = text.split_once('.');
    let parsed =
        numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.ok_or_else(|| "it must be two numbers, as in 3.4".to_owned())
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
    Deleteall(Deleteall),
    /// Delete a node, or with -r a subtree once it was counted and confirmed
    Rm(Rm),
    /// Print the metadata of a node
    Stat(Stat),
    /// Write a subtree to a file or a directory
    Export(Export),
    /// Create the nodes of an export, or compare them with it
    Import(Import),
    /// Make another subtree equal to a subtree, in this or another ensemble
    Mirror(Mirror),
    /// Draw a subtree
    Tree(Tree),
    /// Print the nodes of a subtree by name, age, size, owner or data
    Find(Find),
    /// Print the lines of data in a subtree that match
    Grep(Grep),
    /// Print the largest subtrees by bytes or nodes, or the nodes with the most children
    Du(Du),
    /// Print each change of a node or a subtree as it happens, with differences, until Ctrl-C
    Watch(Watch),
    /// Apply several changes, all or none
    Txn(Txn),
    /// Print the access control list of a node
    #[command(alias = "getAcl")]
    Getacl(Getacl),
    /// Replace the access control list of a node, or of a subtree
    #[command(alias = "setAcl")]
    Setacl(Setacl),
    /// Print who holds a lock and who waits for it
    Locks(Locks),
    /// Print how full a queue is, who works on its items, and which failed
    Queue(Queue),
    /// Print who leads in an election, and who waits
    Leader(Leader),
    /// Print the services below a node, and their instances
    Services(Services),
    /// Print how far the ids of a path have come, and who holds its worker numbers
    Ids(Ids),
    /// Guess which recipe uses a node
    What(What),
    /// Publish and follow configuration in TOML
    #[command(subcommand)]
    Config(Config),
    /// Show servers, sessions, watches, subtrees, locks, leaders and queues as they change
    #[cfg(feature = "top")]
    Top(crate::top::Top),
    /// Run the commands in a file, in one session
    Run(Run),
    /// Let relative paths begin at a node (in the shell and in `run`)
    Cd(Cd),
    /// Print where relative paths begin (in the shell and in `run`)
    Pwd,
    /// Add credentials to the session (in the shell and in `run`)
    Addauth(Addauth),
    /// Leave (the shell, or the rest of a file)
    #[command(alias = "exit")]
    Quit,
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
                let parsed = Cli::try_parse_from(
                    ["zk".to_owned()]
                        .into_iter()
                        .chain(crate::shell_words::split(command).unwrap()),
                );
                assert!(parsed.is_ok(), "{command}: {parsed:?}");
            }
        }
    }
}
