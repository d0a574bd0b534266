//! A nemesis: faults drawn at random from a seed, one after the other, each undone again.
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
//! let struck = nemesis.run(&ensemble, Duration::from_secs(60)).await?;
//! println!("{struck:?}");
//! # Ok(())
//! # }
//! ```
//!
//! What is drawn depends on the seed alone; what becomes of it does not: who leads and whose request is next is the
//! servers' affair. For runs that repeat exactly there is the simulated ensemble.

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

/// Draws faults and makes them; see the [module](self).
#[derive(Debug)]
#[must_use = "it does nothing before `run`"]
pub struct Nemesis {
    seed: u64,
    faults: Vec<Fault>,
    lasting: (Duration, Duration),
    pausing: (Duration, Duration),
    recorder: Option<Recorder>,
}

/// How long a test injects faults: `FAULT_SECONDS` of the environment, or `default`.
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

/// A fault that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedFault {
    /// Which.
    pub fault: Fault,
    /// The server it was meant for; nothing for one that is meant for a session.
    pub server: Option<u32>,
    /// The session that was ended; nothing if it was no such fault, or there was no session to end.
    ///
    /// Whoever acts for that session cannot know for a while: a lock that it holds may be somebody else's since
    /// [`began`](Self::began).
    pub session: Option<i64>,
    /// When it began, on the clock of [`zk_history::now`].
    pub began: u64,
    /// When it was undone.
    pub ended: u64,
}

impl Nemesis {
    /// A nemesis that makes the faults that need no preparation: [`Fault::Kill`], [`Fault::Pause`] and [`Fault::Disk`].
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: vec![Fault::Kill, Fault::Pause, Fault::Disk],
            lasting: (Duration::from_millis(200), Duration::from_millis(1500)),
            pausing: (Duration::from_millis(300), Duration::from_secs(1)),
            recorder: None,
        }
    }

    /// Sets which faults there are to draw from; naming one twice makes it twice as likely.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Sets how long a fault lasts at least and at most. Default 0.2 s to 1.5 s.
    pub fn lasting(mut self, shortest: Duration, longest: Duration) -> Self {
        self.lasting = (shortest, longest);
        self
    }

    /// Sets how long there is no fault after one, at least and at most. Default 0.3 s to 1 s.
    pub fn pausing(mut self, shortest: Duration, longest: Duration) -> Self {
        self.pausing = (shortest, longest);
        self
    }

    /// Records when each fault begins and ends.
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Makes faults for so long, undoes the last one, and waits until all servers serve; returns what was done.
    ///
    /// # Errors
    ///
    /// [`Error::NotPresent`] if a fault needs proxies or links that the ensemble was started without,
    /// [`Error::Unavailable`] for one that cannot be made, and whatever the undoing or the end runs into. Also then all
    /// is undone that can be: links and proxies are healed, servers run, and disks and clocks are right again.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the fault of that moment as it is.
    pub async fn run(
        self,
        ensemble: &Ensemble,
        within: Duration,
    ) -> Result<Vec<InjectedFault>, Error> {
        let done = self.inject(ensemble, within).await;
        let healed = heal(ensemble).await;
        // What went wrong first says more than what followed from it.
        let done = done?;
        healed?;
        wait_serving(ensemble).await?;
        Ok(done)
    }

    /// Makes one fault after the other.
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
            let lasts = draw.between(self.lasting);
            let pause = draw.between(self.pausing);
            let choice = draw.number();
            // One that ended by itself, as after a full disk, is no longer there to be struck.
            if ensemble.server(server)?.process_state() == ProcessState::Stopped {
                revive(ensemble.server(server)?)?;
            }
            let struck = self.strike(ensemble, fault, server, choice, lasts).await?;
            done.push(struck);
            pass(pause.min(end.saturating_duration_since(Instant::now()))).await;
        }
        Ok(done)
    }

    /// Makes one fault, lets it last, and undoes it.
    async fn strike(
        &self,
        ensemble: &Ensemble,
        fault: Fault,
        id: u32,
        choice: u64,
        lasts: Duration,
    ) -> Result<InjectedFault, Error> {
        let server = ensemble.server(id)?;
        let target = if fault.is_for_a_session() {
            "a session".to_owned()
        } else {
            format!("server {id}")
        };
        let noted = self
            .recorder
            .as_ref()
            .map(|recorder| recorder.fault(fault.name(), target));
        let began = zk_history::now();
        let mut session = None;
        match fault {
            Fault::Kill => {
                server.kill().await?;
                pass(lasts).await;
                revive(server)?;
            }
            Fault::Pause => {
                server.pause().await?;
                pass(lasts).await;
                server.resume().await?;
            }
            Fault::Isolate => {
                ensemble.links()?.isolate(id)?;
                pass(lasts).await;
                ensemble.links()?.heal();
            }
            Fault::BlockInbound => {
                ensemble.links()?.to(id)?.block();
                pass(lasts).await;
                ensemble.links()?.heal();
            }
            Fault::Slow => {
                let delay = Duration::from_millis(choice % 100);
                let links = ensemble.links()?;
                links.around(id)?.delay(delay).jitter(delay / 2);
                pass(lasts).await;
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
                pass(lasts).await;
                rule.remove();
            }
            Fault::Silence => {
                let rule = ensemble.proxy()?.on(Match::requests().server(id)).nth(1);
                let rule = rule.black_hole();
                pass(lasts).await;
                rule.remove();
            }
            Fault::Expire => session = expire_one(ensemble, choice).await?,
            Fault::Disk => {
                server.fill_disk()?;
                pass(lasts).await;
                // Not freed while it runs: it would acknowledge writes that it cannot read back, see `fill_disk`. For
                // want of room it may have ended already, as servers of 3.9 do.
                match server.kill().await {
                    Err(Error::WrongState { .. }) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
                revive(server)?;
            }
            Fault::Clock => {
                let seconds = u32::try_from(choice % 7200).unwrap_or(0);
                server.shift_clock(if choice.is_multiple_of(2) {
                    ClockShift::Ahead(seconds)
                } else {
                    ClockShift::Behind(seconds)
                })?;
                pass(lasts).await;
                server.shift_clock(ClockShift::None)?;
            }
        }
        drop(noted);
        Ok(InjectedFault {
            fault,
            server: (!fault.is_for_a_session()).then_some(id),
            session,
            began,
            ended: zk_history::now(),
        })
    }
}

/// How often each fault was made.
pub fn tally(struck: &[InjectedFault]) -> BTreeMap<Fault, usize> {
    let mut counts = BTreeMap::new();
    for one in struck {
        *counts.entry(one.fault).or_default() += 1;
    }
    counts
}

/// Has one of the sessions expire that have a connection now, and says which. Between two elections nobody can.
async fn expire_one(ensemble: &Ensemble, choice: u64) -> Result<Option<i64>, Error> {
    let mut sessions = ensemble.proxy()?.sessions();
    sessions.retain(|session| session.server.is_some());
    let Some(at) = choice.checked_rem(sessions.len() as u64) else {
        return Ok(None);
    };
    let session = sessions[usize::try_from(at).unwrap_or(0)].id;
    match ensemble.expire(session).await {
        // Without an answer it may have ended.
        Ok(()) | Err(Error::Expire { .. }) => Ok(Some(session)),
        Err(Error::NoQuorum { .. } | Error::NoSuchSession { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Undoes all that a fault may have left, also one that failed half-way; returns the first thing that cannot be undone.
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
        ProcessState::Stopped => revive(server)?,
        ProcessState::Paused => server.resume().await?,
        ProcessState::Running => {}
    }
    // Of a server that was just started it is what it is anyway.
    match server.free_disk() {
        Err(Error::WrongState { .. } | Error::Unavailable(_)) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    match server.shift_clock(ClockShift::None) {
        Err(Error::Unavailable(_)) => Ok(()),
        done => done,
    }
}

/// Waits until all servers serve, and starts one again that was killed at a moment after which it refuses to.
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

/// Starts a server that was killed, or has ended for want of room.
fn revive(server: &Server) -> Result<(), Error> {
    let mended = server
        .discard_torn_logs()
        .and_then(|_| server.write_missing_epoch());
    match mended {
        // What a container writes to is not ours.
        Ok(_) | Err(Error::Unavailable(_)) => server.start(),
        Err(error) => Err(error),
    }
}

/// Lets time pass: a fault lasts.
async fn pass(time: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a fault lasts is not a wait for anything"
    )]
    tokio::time::sleep(time).await;
}
