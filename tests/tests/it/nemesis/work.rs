//! What workers of any kind share: sessions, what they were granted, and what of it is judged.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_harness::nemesis::InjectedFault;
use zk_history::check::Liveness;
use zk_history::{Held, Pending, Recorder, ReturnValue, Run, now};
use zk_lock::LockGuard;

pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// Longer than a waiter waits when nothing is broken any more: an expiry, and some room on a machine that is busy.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// What a worker needs.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) recorder: Recorder,
    pub(super) grants: Grants,
    pub(super) ends: watch::Receiver<bool>,
}

/// The grants of the workers of a run, in the order of their reports.
#[derive(Clone, Default)]
pub(super) struct Grants {
    all: Arc<Mutex<Vec<Grant>>>,
}

struct Grant {
    /// When it was granted.
    at: u64,
    id: u64,
    session: i64,
    /// Until when its holder relied on it, if that is over.
    until: Option<u64>,
}

/// Workers of a recipe beside the lock, and what they did, in a run of its own: each recipe has rules of its own.
pub(super) struct Beside {
    name: &'static str,
    run: Run,
    recorder: Recorder,
    workers: JoinSet<()>,
    grants: Grants,
    /// What the first checker has to have counted.
    counts: &'static str,
    /// Whether what is held ends with its session.
    ends_with_session: bool,
}

impl Beside {
    /// What has no workers yet. The first checker of the run counts what must have happened at all.
    pub(super) fn new(name: &'static str, run: Run, counts: &'static str) -> Self {
        let run = run.judged_by(Liveness::default().with_op("acquire"));
        let run = run.expect("a file can be written");
        Self {
            name,
            recorder: run.recorder("workers").expect("the run can be written"),
            run,
            workers: JoinSet::new(),
            grants: Grants::default(),
            counts,
            ends_with_session: true,
        }
    }

    /// What is held does not end with its session, even one that is ended by force.
    pub(super) fn without_excuses(mut self) -> Self {
        self.ends_with_session = false;
        self
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// How many grants there were so far.
    pub(super) fn granted(&self) -> usize {
        self.grants.all.lock().unwrap().len()
    }

    /// What the next worker needs.
    pub(super) fn task(&self, ends: &watch::Receiver<bool>) -> Work {
        Work {
            recorder: self.recorder.task(self.workers.len().to_string()),
            grants: self.grants.clone(),
            ends: ends.clone(),
        }
    }

    pub(super) fn spawn(&mut self, working: impl Future<Output = ()> + Send + 'static) {
        self.workers.spawn(working);
    }

    /// Returns whether there are grants after the last fault, within the bound.
    pub(super) async fn goes_on(&self, struck: &[InjectedFault]) -> bool {
        let since = self.grants.since(struck, 2 * self.workers.len());
        tokio::time::timeout(BOUND, since).await.is_ok()
    }

    /// Checks what they did, after they were asked to end.
    pub(super) async fn finish(self, struck: &[InjectedFault], ensemble: &Ensemble) {
        let Self {
            name,
            run,
            recorder,
            workers,
            grants,
            counts,
            ends_with_session,
        } = self;
        workers.join_all().await;
        run.keep_with(ensemble.directories());
        let struck = if ends_with_session { struck } else { &[] };
        let excused = grants.excuse(&recorder, struck);
        drop(recorder);
        let seed = run.seed();
        let report = run
            .finish()
            .unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
        let counted = &report.verdicts[0].counts;
        let grants = grants.times().len();
        println!("{name}: {grants} grants, {excused} excused: {counted:?}");
        assert!(counted[counts] > 0, "{name}: {counted:?}");
    }
}

impl Work {
    /// Works until it is over.
    pub(super) async fn until_over(&self, working: impl Future<Output = ()>) {
        let mut ends = self.ends.clone();
        tokio::select! {
            () = working => unreachable!("it works for ever"),
            _ = ends.wait_for(|over| *over) => {}
        }
    }

    /// Notes what was granted to a session.
    pub(super) fn granted(
        &self,
        session: &Session,
        acquire: Pending,
        answer: impl Into<ReturnValue>,
    ) -> Held {
        let held = acquire.granted(answer);
        self.grants.all.lock().unwrap().push(Grant {
            at: now(),
            id: held.id(),
            session: session.id().as_i64(),
            until: None,
        });
        held
    }

    /// The former holder knows by now that it may be lost.
    pub(super) fn lost(&self, held: Held) {
        self.relied_until(&held, now());
        held.forget();
    }

    /// The holder begins to release it.
    pub(super) fn released(&self, held: Held) -> Pending {
        let id = held.id();
        let release = held.release();
        self.over(id, now());
        release
    }

    /// Releases what was granted, which the holder relied on until now unless it no longer `holds` it.
    pub(super) async fn end(&self, guard: impl LockGuard, held: Held, holds: bool) {
        if !holds {
            self.lost(held);
            return drop(guard.release().await);
        }
        let release = self.released(held);
        match guard.release().await {
            Ok(()) => release.ok(()),
            Err(error) => release.unknown(error.to_string()),
        }
    }

    /// The holder has relied on it until then, and no longer does.
    pub(super) fn relied_until(&self, held: &Held, until: u64) {
        held.believed_until(until);
        self.over(held.id(), until);
    }

    fn over(&self, id: u64, until: u64) {
        let mut all = self.grants.all.lock().unwrap();
        let grant = all.iter_mut().rev().find(|grant| grant.id == id);
        let noted = &mut grant.expect("it was noted").until;
        *noted = Some(noted.map_or(until, |earlier| earlier.min(until)));
    }
}

impl Grants {
    /// Returns when each was granted.
    pub(super) fn times(&self) -> Vec<u64> {
        let all = self.all.lock().unwrap();
        all.iter().map(|grant| grant.at).collect()
    }

    /// Waits until there have been so many after the last fault.
    pub(super) async fn since(&self, struck: &[InjectedFault], count: usize) {
        let last = struck.iter().map(|one| one.ended).max().unwrap_or_default();
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        while self.times().iter().filter(|at| **at > last).count() < count {
            looks.tick().await;
        }
    }

    /// Says of what was held in a session that the nemesis has ended that it was relied on until then at most, and
    /// answers how many grants that cuts short.
    ///
    /// The next holder may have the lock before the client hears of that end: a client cannot know it in time, only what
    /// minds fencing tokens is safe. That goes for a release, too, which a client may begin before it hears. Of
    /// sessions that expire by themselves their clients do know in time, and are not excused.
    pub(super) fn excuse(&self, recorder: &Recorder, struck: &[InjectedFault]) -> usize {
        let ends = |session| {
            let ends = struck.iter().filter(|one| one.session == Some(session));
            ends.map(|one| one.began).min()
        };
        let mut excused = 0;
        for grant in self.all.lock().unwrap().iter() {
            let Some(end) = ends(grant.session) else {
                continue;
            };
            // Who stopped relying on it earlier, in the same session, did so all the same: that is not made later.
            if grant.until.is_none_or(|until| end < until) {
                recorder.relied_until(grant.id, end);
                excused += 1;
            }
        }
        excused
    }
}

/// Opens a session, as soon as there is a server that grants one.
pub(super) async fn open(connect: &str) -> Session {
    loop {
        let opened = Session::builder(connect)
            .session_timeout(SESSION_TIMEOUT)
            .operation_timeout(Duration::from_secs(30))
            .connect()
            .await;
        // While no server serves there is none; each attempt has its own pauses and its own end.
        if let Ok(session) = opened {
            return session;
        }
    }
}

/// Lets time pass in which something is held.
pub(super) async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}
