//! Injects random faults from a seed, one after the other, and undoes each.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_harness::nemesis::{Fault, Nemesis};
//! use zk_harness::Ensemble;
//! use zk_history::Run;
//!
//! let run = Run::seeded("my-recipe")?;
//! let ensemble = Ensemble::builder().servers(3).proxied(true).quorum_links(true).start().await?;
//! let nemesis = Nemesis::new(run.seed()).faults(Fault::ALL).recorder(run.recorder("nemesis")?);
//! // … workers use the ensemble meanwhile …
//! let injected = nemesis.run(&ensemble, Duration::from_secs(60)).await?;
//! println!("{injected:?}");
//! # Ok(())
//! # }
//! ```
//!
//! The faults depend on the seed alone. Their effects do not, because the leader and the order of requests vary.
//! Use the simulated ensemble for runs that repeat exactly.

mod draw;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use zk_fault_proxy::{Clients, Close, Match};
use zk_history::Recorder;

use self::draw::Draw;
use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::fault::ClockShift;
use crate::process::ProcessState;
use crate::server::Server;

pub use self::draw::Fault;

/// Draws and injects faults; see the [module](self).
#[derive(Debug)]
#[must_use = "it does nothing before `run`"]
pub struct Nemesis {
    seed: u64,
    faults: Vec<Fault>,
    lasting: (Duration, Duration),
    pausing: (Duration, Duration),
    recorder: Option<Recorder>,
}

/// Returns how long a test injects faults: the environment variable `FAULT_SECONDS`, or `default`.
///
/// # Panics
///
/// If `FAULT_SECONDS` is set to something other than a whole number of seconds.
pub fn fault_time(default: Duration) -> Duration {
    let Some(seconds) = std::env::var_os("FAULT_SECONDS") else {
        return default;
    };
    let parsed = seconds.to_str().and_then(|text| text.parse().ok());
    let Some(parsed) = parsed else {
        panic!(
            "FAULT_SECONDS={} is not a whole number of seconds",
            seconds.display()
        );
    };
    Duration::from_secs(parsed)
}

/// A fault that was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedFault {
    /// The kind of fault.
    pub fault: Fault,
    /// The affected server; `None` for a fault of a session.
    pub server: Option<u32>,
    /// The session that was ended; `None` for other faults, or if there was no session to end.
    ///
    /// The session's client notices only later: since [`began`](Self::began) another client may hold its locks.
    pub session: Option<i64>,
    /// When it began, on the clock of [`zk_history::now`].
    pub began: u64,
    /// When it was undone.
    pub ended: u64,
}

impl Nemesis {
    /// Creates a nemesis with the faults that need no preparation: [`Fault::Kill`], [`Fault::Pause`] and
    /// [`Fault::Disk`].
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: vec![Fault::Kill, Fault::Pause, Fault::Disk],
            lasting: (Duration::from_millis(200), Duration::from_millis(1500)),
            pausing: (Duration::from_millis(300), Duration::from_secs(1)),
            recorder: None,
        }
    }

    /// Sets the faults to draw from; a fault that is listed twice is twice as likely.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Sets the minimum and maximum duration of a fault. Default 0.2 s to 1.5 s.
    pub fn lasting(mut self, shortest: Duration, longest: Duration) -> Self {
        self.lasting = (shortest, longest);
        self
    }

    /// Sets the minimum and maximum pause after a fault. Default 0.3 s to 1 s.
    pub fn pausing(mut self, shortest: Duration, longest: Duration) -> Self {
        self.pausing = (shortest, longest);
        self
    }

    /// Records the begin and the end of each fault.
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Injects faults for this long, waits until all servers serve, and returns the faults.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if the ensemble was started without the proxies or links of a fault,
    /// [`Error::Unavailable`] for a fault that is not possible, and the errors of undoing a fault or of the final wait.
    /// After an error, too, everything possible is undone: links and proxies are healed, servers run, and disks and
    /// clocks are restored.
    ///
    /// # Cancel safety
    ///
    /// After a cancelled call the current fault is not undone.
    pub async fn run(
        self,
        ensemble: &Ensemble,
        within: Duration,
    ) -> Result<Vec<InjectedFault>, Error> {
        let done = self.inject(ensemble, within).await;
        let healed = heal(ensemble).await;
        // The first error is the cause of the second one.
        let done = done?;
        healed?;
        wait_serving(ensemble).await?;
        Ok(done)
    }

    /// Injects one fault after the other.
    async fn inject(
        &self,
        ensemble: &Ensemble,
        within: Duration,
    ) -> Result<Vec<InjectedFault>, Error> {
        let end = Instant::now() + within;
        let mut draw = Draw::new(self.seed);
        let mut done = Vec::new();
        let ids: Vec<u32> = ensemble.servers().iter().map(Server::id).collect();
        while Instant::now() < end {
            let Some(fault) = draw.one_of(&self.faults) else {
                break;
            };
            let Some(server) = draw.one_of(&ids) else {
                break;
            };
            let duration = draw.between(self.lasting);
            let pause = draw.between(self.pausing);
            let choice = draw.number();
            // It may have exited by itself, for example after a full disk.
            if ensemble.server(server)?.process_state() == ProcessState::Stopped {
                repair_and_start(ensemble.server(server)?)?;
            }
            let injected = self
                .inject_one(ensemble, fault, server, choice, duration)
                .await?;
            done.push(injected);
            wait(pause.min(end.saturating_duration_since(Instant::now()))).await;
        }
        Ok(done)
    }

    /// Injects one fault, waits, and undoes it.
    async fn inject_one(
        &self,
        ensemble: &Ensemble,
        fault: Fault,
        id: u32,
        choice: u64,
        duration: Duration,
    ) -> Result<InjectedFault, Error> {
        let server = ensemble.server(id)?;
        let target = if fault.is_for_a_session() {
            "a session".to_owned()
        } else {
            format!("server {id}")
        };
        let recorded = self
            .recorder
            .as_ref()
            .map(|recorder| recorder.fault(fault.name(), target));
        let began = zk_history::now();
        let mut session = None;
        match fault {
            Fault::Kill => {
                server.kill().await?;
                wait(duration).await;
                repair_and_start(server)?;
            }
            Fault::Pause => {
                server.pause().await?;
                wait(duration).await;
                server.resume().await?;
            }
            Fault::Isolate => {
                ensemble.links()?.isolate(id)?;
                wait(duration).await;
                ensemble.links()?.heal();
            }
            Fault::BlockInbound => {
                ensemble.links()?.to(id)?.block();
                wait(duration).await;
                ensemble.links()?.heal();
            }
            Fault::Slow => {
                let delay = Duration::from_millis(choice % 100);
                let links = ensemble.links()?;
                links.around(id)?.delay(delay).jitter(delay / 2);
                wait(duration).await;
                links.heal();
            }
            Fault::Cut => {
                let close = if choice.is_multiple_of(2) {
                    Close::Fin
                } else {
                    Close::Rst
                };
                ensemble.proxy()?.cut(Clients::At(id), close).await;
            }
            Fault::LoseRequest | Fault::LoseReply => {
                let rule = ensemble
                    .proxy()?
                    .on(Match::writes().server(id))
                    .nth(1 + choice % 5);
                let rule = if fault == Fault::LoseReply {
                    rule.cut_on_reply()
                } else {
                    rule.drop_then_cut()
                };
                wait(duration).await;
                rule.remove();
            }
            Fault::Silence => {
                let rule = ensemble.proxy()?.on(Match::requests().server(id)).nth(1);
                let rule = rule.black_hole();
                wait(duration).await;
                rule.remove();
            }
            Fault::Expire => session = expire_one(ensemble, choice).await?,
            Fault::Disk => {
                server.fill_disk()?;
                wait(duration).await;
                // Not freed while it runs, because it would acknowledge writes that it then loses; see `fill_disk`.
                // A server of 3.9 may have exited already.
                match server.kill().await {
                    Err(Error::WrongState { .. }) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
                repair_and_start(server)?;
            }
            Fault::Clock => {
                let seconds = u32::try_from(choice % 7200).unwrap_or(0);
                server.shift_clock(if choice.is_multiple_of(2) {
                    ClockShift::Ahead(seconds)
                } else {
                    ClockShift::Behind(seconds)
                })?;
                wait(duration).await;
                server.shift_clock(ClockShift::None)?;
            }
        }
        drop(recorded);
        Ok(InjectedFault {
            fault,
            server: (!fault.is_for_a_session()).then_some(id),
            session,
            began,
            ended: zk_history::now(),
        })
    }
}

/// Counts how often each fault was injected.
pub fn tally(injected: &[InjectedFault]) -> BTreeMap<Fault, usize> {
    let mut counts = BTreeMap::new();
    for one in injected {
        *counts.entry(one.fault).or_default() += 1;
    }
    counts
}

/// Expires one of the connected sessions and returns its id; `None` without a leader or a session.
async fn expire_one(ensemble: &Ensemble, choice: u64) -> Result<Option<i64>, Error> {
    let mut sessions = ensemble.proxy()?.sessions();
    sessions.retain(|session| session.server.is_some());
    let Some(at) = choice.checked_rem(sessions.len() as u64) else {
        return Ok(None);
    };
    let session = sessions[usize::try_from(at).unwrap_or(0)].id;
    match ensemble.expire(session).await {
        // It may have ended.
        Ok(()) | Err(Error::Expire { .. }) => Ok(Some(session)),
        Err(Error::NoQuorum { .. } | Error::NoSuchSession { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Undoes everything that a complete or partial fault may have left; returns the first error.
async fn heal(ensemble: &Ensemble) -> Result<(), Error> {
    if let Ok(links) = ensemble.links() {
        links.heal();
    }
    if let Ok(proxy) = ensemble.proxy() {
        proxy.heal();
    }
    let mut first = Ok(());
    for server in ensemble.servers() {
        first = first.and(heal_server(server).await);
    }
    first
}

async fn heal_server(server: &Server) -> Result<(), Error> {
    match server.process_state() {
        ProcessState::Stopped => repair_and_start(server)?,
        ProcessState::Paused => server.resume().await?,
        ProcessState::Running => {}
    }
    match server.free_disk() {
        Err(Error::WrongState { .. } | Error::Unavailable(_)) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    match server.shift_clock(ClockShift::None) {
        Err(Error::Unavailable(_)) => Ok(()),
        done => done,
    }
}

/// Waits until all servers serve, and restarts a server that exited because of a missing epoch.
async fn wait_serving(ensemble: &Ensemble) -> Result<(), Error> {
    let serving = ensemble.wait_serving().await;
    if let Err(Error::ServerExited { id, .. }) = serving {
        let server = ensemble.server(id)?;
        if matches!(server.write_missing_epoch(), Ok(true)) {
            server.start()?;
            return ensemble.wait_serving().await;
        }
    }
    serving
}

/// Repairs and starts a server that was killed or has exited after a full disk.
fn repair_and_start(server: &Server) -> Result<(), Error> {
    let repaired = server
        .discard_torn_logs()
        .and_then(|_| server.write_missing_epoch());
    match repaired {
        // The files of a container are not accessible.
        Ok(_) | Err(Error::Unavailable(_)) => server.start(),
        Err(error) => Err(error),
    }
}

/// Waits for the duration of a fault or a pause.
async fn wait(time: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the duration of a fault is not a wait for a condition"
    )]
    tokio::time::sleep(time).await;
}
