//! Leaders that fence the one before, beside the workers of the fair lock. They act whatever becomes of their session,
//! until they are fenced.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use zk_core::Session;
use zk_history::check::FencedMutex;
use zk_history::{Held, Op, Pending, Recorder, ReturnValue, Run, now};
use zk_leader::{Breadcrumb, LeaderLatch, LeaderLease};

use super::work::{Beside, Work, open, pass};

pub(super) const PATH: &str = "/nemesis/active";
pub(super) const BREADCRUMB: &str = "ActiveBreadCrumb";
const PARTICIPANTS: usize = 3;
/// How long a leader that does not stop acts, if it is not fenced.
const LONGEST: Duration = Duration::from_secs(2);

/// The processes that have acted, by their name.
#[derive(Clone, Default)]
struct Processes(Arc<Mutex<BTreeMap<String, State>>>);

enum State {
    /// The number of its grant.
    Acts(u64),
    /// It was fenced, or has stopped.
    Over,
}

impl Processes {
    /// Lets a process act, unless it was fenced meanwhile.
    fn begin(
        &self,
        name: &str,
        acquire: Pending,
        grant: impl FnOnce(Pending) -> Held,
    ) -> Option<Held> {
        let mut all = self.0.lock().unwrap();
        if all.contains_key(name) {
            acquire.failed("it was fenced");
            return None;
        }
        let held = grant(acquire);
        all.insert(name.to_owned(), State::Acts(held.id()));
        Some(held)
    }

    /// The process does not act any more, and cannot begin to.
    fn fence(&self, name: String, recorder: &Recorder) {
        let mut all = self.0.lock().unwrap();
        if let Some(State::Acts(id)) = all.insert(name, State::Over) {
            recorder.relied_until(id, now());
        }
    }

    /// Waits until the process was fenced, for a while.
    async fn fenced(&self, name: &str) {
        let fenced = async {
            while matches!(self.0.lock().unwrap().get(name), Some(State::Acts(_))) {
                pass(Duration::from_millis(5)).await;
            }
        };
        drop(tokio::time::timeout(LONGEST, fenced).await);
    }

    /// The process stops by itself, unless it was fenced.
    fn end(&self, name: &str, work: &Work, held: Held) {
        let mut all = self.0.lock().unwrap();
        if let Some(State::Acts(_)) = all.insert(name.to_owned(), State::Over) {
            work.relied_until(&held, now());
        }
        held.forget();
    }
}

/// Lets participants lead and act in turn until `ends` says so.
pub(super) fn start(
    connect: &str,
    ends: &watch::Receiver<bool>,
    random: &mut fastrand::Rng,
) -> Beside {
    let run = Run::seeded("nemesis-breadcrumb").unwrap();
    let run = run.judged_by(FencedMutex::default()).unwrap();
    let mut beside = Beside::new("breadcrumb", run, "grants").without_excuses();
    let processes = Processes::default();
    for at in 0..PARTICIPANTS {
        let task = beside.task(ends);
        let processes = processes.clone();
        beside.spawn(work(connect.to_owned(), task, at, processes, random.fork()));
    }
    beside
}

async fn work(
    connect: String,
    work: Work,
    at: usize,
    processes: Processes,
    mut random: fastrand::Rng,
) {
    let working = async {
        let mut turns = 0_u32;
        loop {
            let session: Session = open(&connect).await;
            let latch = LeaderLatch::new(&session, PATH).expect("the path is one");
            let participant = latch.join();
            while let Ok(lease) = participant.leading().await {
                // Each is another process to those that fence.
                turns += 1;
                let name = format!("{at}-{turns}");
                let acting = turn(&session, &lease, &work, &name, &processes, &mut random).await;
                // If it cannot, its session ends, or it leads again.
                drop(participant.resign().await);
                if let Some(held) = acting {
                    processes.fenced(&name).await;
                    processes.end(&name, &work, held);
                }
            }
        }
    };
    work.until_over(working).await;
}

/// Takes over and acts for a moment. Now and then it goes on, and returns what it holds: the next leader has to fence it.
async fn turn(
    session: &Session,
    lease: &LeaderLease,
    work: &Work,
    name: &str,
    processes: &Processes,
    random: &mut fastrand::Rng,
) -> Option<Held> {
    let acquire = work.recorder.invoke(Op::acquire(PATH));
    let fence = async |old: Vec<u8>| {
        let old = String::from_utf8(old).expect("names are text");
        processes.fence(old, &work.recorder);
        Ok::<_, Infallible>(())
    };
    let breadcrumb = match Breadcrumb::take_over(lease, name, fence).await {
        Ok(breadcrumb) => breadcrumb,
        Err(error) => {
            acquire.failed(error.to_string());
            return None;
        }
    };
    let token = ReturnValue::token(lease.fencing_token().as_u64());
    let grant = |acquire| work.granted(session, acquire, token);
    let held = processes.begin(name, acquire, grant)?;
    if random.u8(0..4) == 0 {
        // Its breadcrumb stays.
        drop(breadcrumb);
        return Some(held);
    }
    pass(Duration::from_millis(random.u64(0..20))).await;
    processes.end(name, work, held);
    // If it stays, the next leader fences this process in vain.
    drop(breadcrumb.remove().await);
    None
}
