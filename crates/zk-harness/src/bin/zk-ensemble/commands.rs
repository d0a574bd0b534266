//! Runs the command of the command line.

mod down;
mod logs;
mod network;
mod prepare;
mod servers;
mod status;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use network::Change;
use servers::Action;
use zk_harness::Selector;

use crate::args::{Args, Command};
use crate::store::Store;

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = Store::new(args.dir)?;
    let name = args.name;
    let act = |which, action| servers::perform(&store, &name, which, action);
    let change = |which, change| network::change(&store, &name, which, change);
    match args.command {
        Command::Up(options) => up::up(&store, &name, &options).await,
        Command::Prepare { zookeeper } => prepare::prepare(zookeeper).await,
        Command::Down {
            keep,
            remove,
            all: true,
        } => down::down_all(&store, keep, remove).await,
        Command::Down { keep, remove, .. } => down::down(&store, &name, keep, remove).await,
        Command::List => status::list(&store).await,
        Command::Status { json } => status::status(&store, &name, json).await,
        Command::Kill(on) => act(on.server, Action::Kill).await,
        Command::Stop(on) => act(on.server, Action::Stop).await,
        Command::Start(on) => act(on.server, Action::Start).await,
        Command::Restart { rolling: true, .. } => servers::restart_rolling(&store, &name).await,
        Command::Restart { server, .. } => {
            act(server.unwrap_or(Selector::All), Action::Restart).await
        }
        Command::Pause(on) => act(on.server, Action::Pause).await,
        Command::Resume(on) => act(on.server, Action::Resume).await,
        Command::FillDisk(on) => act(on.server, Action::FillDisk).await,
        Command::FreeDisk(on) => act(on.server, Action::FreeDisk).await,
        Command::Clock { servers, shift } => {
            act(servers.server, Action::ShiftClock(shift.shift())).await
        }
        Command::Partition { servers, how } => {
            change(servers.server, Change::Partition(how.cut())).await
        }
        Command::Slow {
            servers,
            delay,
            jitter,
            rate,
        } => change(servers.server, Change::Slow(delay, jitter, rate)).await,
        Command::Cut(on) => change(on.server, Change::Cut).await,
        Command::Heal => change(Selector::All, Change::Heal).await,
        Command::Proxies { .. } => network::serve(&store, &name).await,
        Command::Expire { session } => servers::expire(&store, &name, session).await,
        Command::Logs {
            server,
            follow,
            lines,
        } => logs::logs(&store, &name, server, follow, lines).await,
        Command::Env { format } => status::env(&store, &name, format),
    }
}

/// How long to wait for an election.
const ELECTION_WITHIN: Duration = Duration::from_secs(20);

const KEEP_FILE: &str = "keep";
