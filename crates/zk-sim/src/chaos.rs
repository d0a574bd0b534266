//! Injects random disturbances into an ensemble for some time, drawn from its seed.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ensemble::Ensemble;
use crate::faults::Scripted;
use crate::wait;
pub use plan::{Chaos, Disturbance};

/// A disturbance that was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedDisturbance {
    /// The time since the first session was opened.
    pub at: Duration,
    /// The kind of disturbance.
    pub what: Disturbance,
}

impl Chaos {
    /// Disturbs an ensemble for the time set by [`lasting`](Self::lasting), and then heals it: it starts stopped
    /// servers, ends partitions, releases held requests, and withdraws its scripted failures.
    ///
    /// Returns the disturbances. They are drawn from the [seed](crate::EnsembleBuilder::seed) of the ensemble.
    ///
    /// # Cancel safety
    ///
    /// Current disturbances persist; [`Ensemble::heal`] ends those that are not scripted.
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

/// Runs next to tasks.
impl Chaos {
    /// Disturbs an ensemble while tasks run, and waits for both to end.
    ///
    /// # Panics
    ///
    /// If a task panics, or has not ended after 20 minutes of Tokio's time.
    ///
    /// # Cancel safety
    ///
    /// The disturbances and the tasks continue.
    pub async fn run_during(
        &self,
        ensemble: &Ensemble,
        tasks: impl IntoIterator<Item = tokio::task::JoinHandle<()>>,
    ) {
        let disturbing = tokio::spawn(self.run(ensemble));
        for task in tasks {
            let ended = tokio::time::timeout(TASK_LIMIT, task).await;
            let ended = ended.unwrap_or_else(|_| {
                let tree = ensemble.tree();
                let nodes: Vec<_> = tree.nodes().map(|(path, _)| path.to_string()).collect();
                panic!("a task did not end within {TASK_LIMIT:?}; the nodes are {nodes:?}")
            });
            ended.expect("no task panics");
        }
        disturbing.await.expect("the chaos does not panic");
    }
}

/// A running [`Chaos`].
struct ChaosRun {
    chaos: Chaos,
    ensemble: Ensemble,
    random: fastrand::Rng,
    /// How to end the current disturbances, by due time.
    pending_undos: BTreeMap<(Duration, usize), Undo>,
    scripted: Vec<Scripted>,
    injected: Vec<InjectedDisturbance>,
}

/// The end of a disturbance.
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

    /// Waits until `moment`, and ends the disturbances that are due by then.
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

    /// Draws a pause between 0.5 and 1.5 times the mean.
    fn pause(&mut self) -> Duration {
        let mean = self.chaos.every;
        mean / 2 + mean.mul_f64(self.random.f64())
    }

    /// Draws a duration up to `longest`; short ones are more likely.
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

    /// Injects one disturbance, if it is possible now.
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
            | Disturbance::PauseServer => unreachable!("these target servers"),
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

/// The time limit of a task.
const TASK_LIMIT: Duration = Duration::from_secs(1200);
const SHORTEST: Duration = Duration::from_millis(1);
