//! The command line of the example: runs processes, submits tasks, and prints the state.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use master_workers::metrics_endpoint::serve_metrics;
use master_workers::prune::{Pruned, prune};
use master_workers::status::Status;
use master_workers::status_endpoint::ask;
use master_workers::submit::submit;
use master_workers::{Node, Reporter, StatusEndpoint, Stopper, Tree};
use tokio::signal::unix::{Signal, SignalKind, signal};
use zk_core::{NodePath, Session, SessionBuilder};

/// A master that assigns tasks, and workers that do them: an example over all crates
#[derive(Debug, Parser)]
#[command(name = "master-workers", max_term_width = 100)]
struct Cli {
    /// The ensemble: host:port,host:port
    #[arg(long, global = true, env = "ZK_CONNECT", value_name = "STRING")]
    connect: Option<String>,

    /// The node below which everything is
    #[arg(long, global = true, default_value = "/app", value_name = "PATH", value_parser = parse_root)]
    root: NodePath,

    /// How long the ensemble waits before it takes a silent process for dead, in milliseconds
    #[arg(long, global = true, default_value = "6000", value_name = "MS")]
    session_timeout: u64,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a process: a worker, which stands for election as the master as well; until Ctrl-C
    Node {
        /// Its name, for people; the default is made of the process id
        #[arg(long)]
        name: Option<String>,
        /// How long it may take to finish its current task when it is asked to stop, in seconds
        #[arg(long, default_value_t = 30, value_name = "SECONDS")]
        grace: u64,
        /// Where it serves its metrics to Prometheus, such as 127.0.0.1:9464; by default nowhere
        #[arg(long, value_name = "ADDRESS")]
        metrics: Option<SocketAddr>,
    },
    /// Submit tasks
    Submit {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: usize,
        /// What is to be done
        text: String,
    },
    /// Print who is there and how many tasks there are
    Status,
    /// Ask processes what they did last
    Ask {
        /// How many, one after the other
        #[arg(long, default_value_t = 1)]
        count: usize,
    },
    /// Delete old results, unless somebody else does
    Prune {
        /// Keep those of so many newest tasks
        #[arg(long, default_value_t = 100)]
        keep: usize,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let connect = cli.connect.filter(|connect| !connect.trim().is_empty());
    let connect = connect.context(
        "no ensemble to connect to: run `cargo xtask ensemble up`, then `eval \"$(cargo xtask ensemble env)\"`",
    )?;
    let sessions = Session::builder(connect)
        .session_timeout(Duration::from_millis(cli.session_timeout))
        .connect_timeout(Duration::from_secs(20));
    let tree = Tree::new(cli.root);
    if let Command::Node {
        name,
        grace,
        metrics,
    } = cli.command
    {
        if let Some(address) = metrics {
            serve_metrics(address)?;
        }
        let name = name.unwrap_or_else(|| format!("process-{}", std::process::id()));
        let endpoint = StatusEndpoint::open()
            .await
            .context("the status endpoint cannot listen on a local port")?;
        let node = Node::new(tree, Reporter::to_stdout(&name))
            .with_status_endpoint(endpoint)
            .with_grace(Duration::from_secs(grace));
        return serve(sessions, node).await;
    }
    let session = sessions.connect().await?;
    let done = command(cli.command, &session, &tree).await;
    // The result is known; an unclosed session would last until its timeout.
    drop(session.close().await);
    print_line(&done?);
    Ok(())
}

/// Runs a process until a signal stops it; a second signal ends it at once.
async fn serve(sessions: SessionBuilder, node: Node) -> anyhow::Result<()> {
    let (stopper, stop) = Stopper::new();
    let mut signals = Signals::new().context("signals cannot be listened for")?;
    tokio::select! {
        served = Box::pin(node.run(sessions, &stop)) => served,
        impatience = async {
            signals.next().await;
            stopper.stop();
            signals.next().await;
            anyhow::bail!("ended although it was not done with what it worked at")
        } => impatience,
    }
}

/// Receives SIGINT and SIGTERM from its creation on; signals between two calls of `next` are not lost.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// Runs a command that ends by itself, and returns its output.
async fn command(command: Command, session: &Session, tree: &Tree) -> anyhow::Result<String> {
    Ok(match command {
        Command::Node { .. } => unreachable!("it runs until it is ended"),
        Command::Submit { count, text } => {
            let texts = (1..=count).map(|number| match count {
                1 => text.clone(),
                _ => format!("{text} {number}"),
            });
            submit(session, tree, texts).await?.to_string()
        }
        Command::Status => Status::read(session, tree).await?.to_string(),
        Command::Ask { count } => ask(session, tree, count).await?.join("\n"),
        Command::Prune { keep } => match prune(session, tree, keep).await? {
            Pruned::Deleted(results) => format!("{results} results deleted"),
            Pruned::Busy { holder } => format!("{holder} is at it already"),
        },
    })
}

fn print_line(text: &str) {
    // A closed output is not an error.
    drop(writeln!(io::stdout(), "{text}"));
}

/// Parses the root of the application. `/` is rejected, because it would mix the application with others.
fn parse_root(text: &str) -> Result<NodePath, String> {
    match NodePath::parse(text) {
        Ok(path) if path.is_root() => {
            Err("it is the root of all; give a node of its own".to_owned())
        }
        Ok(path) => Ok(path),
        Err(error) => Err(error.to_string()),
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
    fn the_readme_has_commands_that_are_understood() {
        let commands: Vec<&str> = include_str!("../README.md")
            .lines()
            .filter_map(|line| line.strip_prefix("$ ")?.split_once("-p master-workers -- "))
            .map(|(_, command)| command)
            .collect();
        for name in ["node", "submit", "status", "ask", "prune"] {
            assert!(commands.iter().any(|it| it.starts_with(name)), "{name}");
        }
        for command in commands {
            // What is between quotation marks is one word.
            let words = command.split('"').enumerate().flat_map(|(at, part)| {
                if at % 2 == 1 {
                    vec![part]
                } else {
                    part.split_whitespace().collect()
                }
            });
            let parsed = Cli::try_parse_from(std::iter::once("master-workers").chain(words));
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }
}
