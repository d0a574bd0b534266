//! Runs the command of the command line.

mod act;
mod down;
mod logs;
mod look;
mod prepare;
mod proxies;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use act::Action;
use proxies::Change;
use zk_harness::Selector;

use crate::args::{Args, Command};
use crate::store::Store;

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = Store::new(args.dir)?;
    let name = args.name;
    let act = |which, action| act::perform(&store, &name, which, action);
    let change = |which, change| proxies::change(&store, &name, which, change);
    match args.command {
        Command::Up(options) => up::up(&store, &name, &options).await,
        Command::Prepare { zookeeper } => prepare::prepare(zookeeper).await,
        Command::Down {
            keep,
            remove,
            all: true,
        } => down::down_all(&store, keep, remove).await,
        Command::Down { keep, remove, .. } => down::down(&store, &name, keep, remove).await,
        Command::List => look::list(&store).await,
        Command::Status { json } => look::status(&store, &name, json).await,
        Command::Kill { server } => act(server, Action::Kill).await,
        Command::Stop { server } => act(server, Action::Stop).await,
        Command::Start { server } => act(server, Action::Start).await,
        Command::Restart { rolling: true, .. } => act::restart_rolling(&store, &name).await,
        Command::Restart { server, .. } => {
            act(server.unwrap_or(Selector::All), Action::Restart).await
        }
        Command::Pause { server } => act(server, Action::Pause).await,
        Command::Resume { server } => act(server, Action::Resume).await,
        Command::FillDisk { server } => act(server, Action::FillDisk).await,
        Command::FreeDisk { server } => act(server, Action::FreeDisk).await,
        Command::Clock { server, shift } => act(server, Action::ShiftClock(shift.shift())).await,
        Command::Partition { server, how } => change(server, Change::Partition(how.cut())).await,
        Command::Slow {
            server,
            delay,
            jitter,
            rate,
        } => change(server, Change::Slow(delay, jitter, rate)).await,
        Command::Cut { server } => change(server, Change::Cut).await,
        Command::Heal => change(Selector::All, Change::Heal).await,
        Command::Proxies { .. } => proxies::serve(&store, &name).await,
        Command::Expire { session } => act::expire(&store, &name, session).await,
        Command::Logs {
            server,
            follow,
            lines,
        } => logs::logs(&store, &name, server, follow, lines).await,
        Command::Env { format } => look::env(&store, &name, format),
    }
}

/// How long to wait for an election.
const ELECTION_WITHIN: Duration = Duration::from_secs(20);

const KEEP_FILE: &str = "keep";
