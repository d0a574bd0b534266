//! Disturbances at random, over a time, from the seed of an ensemble.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ensemble::Ensemble;
use crate::faults::Scripted;
use crate::wait;
pub use plan::Chaos;
pub use plan::Disturbance;

/// One disturbance, as it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedDisturbance {
    /// When, since the first session was opened.
    pub at: Duration,
    /// What.
    pub what: Disturbance,
}

impl Chaos {
    /// Disturbs an ensemble for as long as it [lasts](Self::lasting), and heals it: what was stopped is started, what was
    /// cut off is let back, what was held is released, and nothing of it is left in the script.
    ///
    /// Returns what it did. Everything is drawn from the [seed](crate::EnsembleBuilder::seed) of the ensemble.
    ///
    /// # Cancel safety
    ///
    /// What is disturbed stays disturbed; [`Ensemble::heal`] ends what is not scripted.
    pub fn run(
        &self,
        ensemble: &Ensemble,
    ) -> impl Future<Output = Vec<InjectedDisturbance>> + Send + use<> {
        let chaos = self.clone();
        let ensemble = ensemble.clone();
        async move {
            let random = ensemble.driver().with(|world| world.random().fork());
            let mut run = ChaosRun {
                chaos,
                ensemble,
                random,
                pending_undos: BTreeMap::new(),
                scripted: Vec::new(),
                injected: Vec::new(),
            };
            run.execute().await;
            run.injected
        }
    }
}

/// Unleashing it on tasks.
impl Chaos {
    /// Disturbs an ensemble while tasks are at work, and waits until the last of both has ended.
    ///
    /// # Panics
    ///
    /// When a task panics, or has not ended after 20 minutes of Tokio's time.
    ///
    /// # Cancel safety
    ///
    /// The disturbing and the tasks go on.
    pub async fn run_during(
        &self,
        ensemble: &Ensemble,
        tasks: impl IntoIterator<Item = tokio::task::JoinHandle<()>>,
    ) {
        let disturbing = tokio::spawn(self.run(ensemble));
        for task in tasks {
            let ended = tokio::time::timeout(FOR_EVER, task).await;
            let ended = ended.unwrap_or_else(|_| {
                let tree = ensemble.tree();
                let nodes: Vec<_> = tree.nodes().map(|(path, _)| path.to_string()).collect();
                panic!("a task has waited for {FOR_EVER:?}, with these nodes: {nodes:?}")
            });
            ended.expect("no task panics");
        }
        disturbing.await.expect("the disturbing does not panic");
    }
}

/// A chaos while it lasts.
struct ChaosRun {
    chaos: Chaos,
    ensemble: Ensemble,
    random: fastrand::Rng,
    /// What ends by itself, and when.
    pending_undos: BTreeMap<(Duration, usize), Undo>,
    scripted: Vec<Scripted>,
    injected: Vec<InjectedDisturbance>,
}

/// How a disturbance ends.
enum Undo {
    Heal(zk_core::SessionId),
    Start(usize),
    StartAll,
    Release(Scripted),
}

impl ChaosRun {
    async fn execute(&mut self) {
        let end = self.ensemble.now() + self.chaos.lasting;
        loop {
            let next = self.ensemble.now() + self.pause();
            self.wait_until(next.min(end)).await;
            if next >= end {
                break;
            }
            self.inject();
        }
        for (_, undo) in std::mem::take(&mut self.pending_undos) {
            self.undo(undo);
        }
        for scripted in self.scripted.drain(..) {
            scripted.withdraw();
        }
        self.ensemble.heal();
    }

    /// Lets time pass, and disturbances end that end meanwhile.
    async fn wait_until(&mut self, moment: Duration) {
        while let Some(entry) = self.pending_undos.first_entry() {
            let due = entry.key().0;
            if due > moment {
                break;
            }
            let undo = entry.remove();
            self.pass_until(due).await;
            self.undo(undo);
        }
        self.pass_until(moment).await;
    }

    async fn pass_until(&self, moment: Duration) {
        let left = moment.saturating_sub(self.ensemble.now());
        if !left.is_zero() {
            wait::pass(left).await;
        }
    }

    /// Between half of the mean and half more.
    fn pause(&mut self) -> Duration {
        let mean = self.chaos.every;
        mean / 2 + mean.mul_f64(self.random.f64())
    }

    /// Some time up to `longest`, short ones more often than long ones.
    fn random_duration(&mut self, longest: Duration) -> Duration {
        let share = self.random.f64();
        longest.mul_f64(share * share).max(SHORTEST)
    }

    fn undo_after(&mut self, duration: Duration, undo: Undo) {
        let due = self.ensemble.now() + duration;
        let number = self.injected.len();
        self.pending_undos.insert((due, number), undo);
    }

    fn undo(&self, undo: Undo) {
        match undo {
            Undo::Heal(session) => self.ensemble.session(session).heal(),
            Undo::Start(server) => self.ensemble.server(server).start(),
            Undo::StartAll => {
                for server in 1..=self.ensemble.servers() {
                    self.ensemble.server(server).start();
                }
            }
            Undo::Release(scripted) => scripted.release(),
        }
    }

    /// Does something bad, if it can be done now.
    fn inject(&mut self) {
        let Some(what) = self.chaos.draw(&mut self.random) else {
            return;
        };
        let sessions = self.ensemble.sessions();
        let session = self.random.choice(sessions);
        let server = self.random.usize(1..=self.ensemble.servers());
        let longest = self.chaos.longest;
        let duration = self.random_duration(longest);
        let is_done = match (what.targets_session(), session) {
            (true, None) => false,
            (true, Some(session)) => {
                self.inject_into_session(what, session, server, duration);
                true
            }
            (false, _) => self.inject_into_server(what, server, duration),
        };
        if is_done {
            let at = self.ensemble.now();
            self.injected.push(InjectedDisturbance { at, what });
        }
    }

    fn inject_into_session(
        &mut self,
        what: Disturbance,
        session: zk_core::SessionId,
        server: usize,
        duration: Duration,
    ) {
        let link = self.ensemble.session(session);
        let matcher = Arc::clone(&self.chaos.matcher);
        let proposal = self.proposal();
        let on = || {
            let script = self.ensemble.on(move |request| matcher(request));
            script.session(session)
        };
        let scripted = match what {
            Disturbance::Cut => {
                link.cut();
                return;
            }
            Disturbance::CutFor => {
                link.cut_for(duration);
                return;
            }
            Disturbance::Move => {
                link.move_to(server);
                return;
            }
            Disturbance::Expire => {
                link.expire();
                return;
            }
            Disturbance::Silence => {
                link.silence();
                self.undo_after(duration, Undo::Heal(session));
                return;
            }
            Disturbance::Partition => {
                link.partition();
                self.undo_after(duration, Undo::Heal(session));
                return;
            }
            Disturbance::LoseRequest => on().lose_request(),
            Disturbance::LoseReply => on().lose_reply(),
            Disturbance::StallThenMove => on().stall_then_move(server),
            Disturbance::Stall => {
                let stalled = on().stall();
                self.undo_after(duration, Undo::Release(stalled.clone()));
                stalled
            }
            Disturbance::Hold => {
                let held = on().hold();
                self.undo_after(duration, Undo::Release(held.clone()));
                held
            }
            Disturbance::KillLeader => {
                let killed = on().kill_leader(proposal);
                self.undo_after(duration, Undo::StartAll);
                killed
            }
            Disturbance::Lag
            | Disturbance::StopServer
            | Disturbance::StopLeader
            | Disturbance::PauseServer => unreachable!("these are of servers"),
        };
        self.scripted.push(scripted);
    }

    fn inject_into_server(&mut self, what: Disturbance, server: usize, duration: Duration) -> bool {
        let target = match what {
            Disturbance::StopLeader => self.ensemble.leader(),
            _ => Some(server),
        };
        let Some(server) = target else {
            return false;
        };
        let proposal = self.proposal();
        self.ensemble
            .driver()
            .with(|world| world.set_proposals(proposal));
        let it = self.ensemble.server(server);
        match what {
            Disturbance::Lag => it.lag_for(duration),
            Disturbance::PauseServer => {
                it.pause();
                self.undo_after(duration, Undo::Start(server));
            }
            _ => {
                it.stop();
                self.undo_after(duration, Undo::Start(server));
            }
        }
        true
    }

    fn proposal(&mut self) -> crate::Proposal {
        if self.random.bool() {
            crate::Proposal::Survives
        } else {
            crate::Proposal::Vanishes
        }
    }
}

/// What nothing takes that ends at all.
const FOR_EVER: Duration = Duration::from_secs(1200);
const SHORTEST: Duration = Duration::from_millis(1);
