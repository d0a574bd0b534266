//! Carries out the commands for single servers: start and stop them, and inject faults.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use zk_harness::fault::ClockShift;
use zk_harness::{Ensemble, Error, ProcessState, Selector, Server};

use crate::output::{note, print};
use crate::store::Store;
use crate::tables;
use crate::undo::Undo;

/// An action on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Kill,
    Stop,
    Start,
    Restart,
    Pause,
    Resume,
    FillDisk,
    FreeDisk,
    ShiftClock(ClockShift),
}

impl Action {
    /// Returns the command that undoes it, without the server; `None` if there is none.
    const fn undo(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Kill | Self::Stop => Some(&["start"]),
            Self::Pause => Some(&["resume"]),
            Self::FillDisk => Some(&["free-disk"]),
            Self::ShiftClock(ClockShift::Ahead(_) | ClockShift::Behind(_)) => {
                Some(&["clock", "--reset"])
            }
            _ => None,
        }
    }

    async fn perform(self, server: &Server) -> Result<&'static str, Error> {
        match self {
            Self::Kill => server.kill().await.map(|()| "killed"),
            Self::Stop => server.stop().await.map(|()| "stopped"),
            Self::Start => server.start().map(|()| "started"),
            Self::Restart => server.restart().await.map(|()| "restarted"),
            Self::Pause => server.pause().await.map(|()| "paused"),
            Self::Resume => server.resume().await.map(|()| "resumed"),
            Self::FillDisk => server.fill_disk().map(|()| "has a full disk"),
            // It may have exited because of the full disk.
            Self::FreeDisk if server.process_state() == ProcessState::Stopped => {
                server.start().map(|()| "had exited, and is started")
            }
            Self::FreeDisk => server.free_disk().map(|()| "has space on its disk"),
            Self::ShiftClock(ClockShift::None) => server
                .shift_clock(ClockShift::None)
                .map(|()| "has the machine's time"),
            Self::ShiftClock(shift) => server
                .shift_clock(shift)
                .map(|()| "has a shifted clock within a second"),
        }
    }
}

/// Performs `action` on each selected server.
pub(crate) async fn perform(
    store: &Store,
    name: &str,
    which: Selector,
    action: Action,
) -> anyhow::Result<ExitCode> {
    let (ensemble, _lock) = store.open_locked(name)?;
    let mut changed = Vec::new();
    let done = perform_on_each(&ensemble, which, action, &mut changed).await;
    // After an error, too: the actions until then took effect.
    if let (Some(command), [first, others @ ..]) = (action.undo(), changed.as_slice()) {
        // An id and not a role, because the leader may change.
        let server = if others.is_empty() { first } else { "all" };
        Undo::new(store, name).print(command, &[server]);
    }
    done?;
    Ok(if changed.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Performs `action` on one server after the other, and adds their ids to `changed`.
async fn perform_on_each(
    ensemble: &Ensemble,
    which: Selector,
    action: Action,
    changed: &mut Vec<String>,
) -> anyhow::Result<()> {
    for server in ensemble.select(which).await? {
        let done = match action.perform(server).await {
            Ok(done) => done,
            // `all` means all for which it is possible.
            Err(error @ Error::WrongState { .. }) if which == Selector::All => {
                note(&format!("note: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        changed.push(server.id().to_string());
        if matches!(action, Action::Start | Action::Restart | Action::FreeDisk) {
            wait_answer(ensemble, server).await?;
        }
        print(&format!("server {} {done}\n", server.id()))?;
    }
    Ok(())
}

/// Restarts every server, one after the other.
pub(crate) async fn restart_rolling(store: &Store, name: &str) -> anyhow::Result<ExitCode> {
    let (ensemble, _lock) = store.open_locked(name)?;
    ensemble.restart_rolling().await?;
    print("all servers restarted, one after the other\n")
}

/// Ends a session.
pub(crate) async fn expire(store: &Store, name: &str, session: i64) -> anyhow::Result<ExitCode> {
    store.open(name)?.expire(session).await?;
    print(&format!("session {session:#x} expired\n"))
}

/// Waits until a started server serves, or only runs if there is no quorum.
async fn wait_answer(ensemble: &Ensemble, server: &Server) -> anyhow::Result<()> {
    let within = ensemble.spec().start_timeout;
    let deadline = tokio::time::Instant::now() + within;
    let failed = |what: &str| {
        let (id, log) = (server.id(), server.log_tail(15));
        anyhow!("server {id} {what}; the end of its log:\n{log}")
    };
    loop {
        let status = ensemble.status().await;
        let (running, all) = (tables::running(&status), status.servers.len());
        let own = status.servers.iter().find(|own| own.id == server.id());
        match own.map(|own| own.process) {
            _ if own.is_some_and(|own| own.role.is_some()) => return Ok(()),
            Some(ProcessState::Stopped) if server.has_exited() => {
                return Err(failed("exited while starting"));
            }
            Some(ProcessState::Running) if 2 * running <= all => {
                note(&format!(
                    "note: {running} of {all} servers run, which is no quorum"
                ));
                return Ok(());
            }
            _ => {}
        }
        if tokio::time::Instant::now() > deadline {
            return Err(failed(&format!("did not serve within {within:?}")));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two polls of the server"
        )]
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
