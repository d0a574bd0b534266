//! The lock over processes and failures.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::{Ensemble, program_of_next_process};
use zk_history::Run;
use zk_history::check::{FencedMutex, Linearizable};
use zk_tests::contention::Worker;

mod counter;
mod crowd;
mod curator;
mod holders;
mod kazoo;
mod listener;
mod melee;
mod numbers;
mod one_shot_lease;
mod orphan;
mod revoke;
mod rw;
mod semaphore;
mod servers;

/// For what takes moments on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// For many turns in a row.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) async fn three_servers() -> Ensemble {
    // One that stands still for a moment stays in the quorum.
    three_servers_with(Duration::from_millis(200), 50).await
}

/// Starts servers that exclude one that has stood still for so many ticks.
async fn three_servers_with(tick: Duration, sync_limit: u32) -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .tick_time(tick)
        .sync_limit(sync_limit)
        // A machine that does many things at once may need several elections.
        .start_timeout(LONG)
        .start()
        .await
        .expect("the servers start")
}

/// A session that outlives what the tests do to servers.
pub(crate) async fn observer(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(30))
        .operation_timeout(SOON)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

/// Creates a run whose checkers verify at the end that no process held a lock while another one relied on it, and that
/// a later holder has a higher token.
fn judged(name: &str) -> Run {
    let run = Run::new(name, 0).expect("a directory can be made");
    let run = run.judged_by(FencedMutex::default().with_order());
    let run = run.and_then(|run| run.judged_by(Linearizable::mutex()));
    run.expect("a file can be written")
}

async fn worker(
    run: &Run,
    name: &str,
    connect: &str,
    path: &str,
    session_timeout: Duration,
) -> Worker {
    let history = run.history_file(name);
    start(name, connect, path, session_timeout, &history).await
}

async fn start(
    name: &str,
    connect: &str,
    path: &str,
    session_timeout: Duration,
    history: &Path,
) -> Worker {
    let program = program_of_next_process(Path::new(env!("CARGO_BIN_EXE_lock-worker")));
    Worker::start(&program, name, connect, path, session_timeout, history)
        .await
        .expect("a worker starts")
}

/// Starts workers at the same time, named by numbers.
async fn workers(
    run: &Run,
    count: usize,
    connect: &str,
    path: &str,
    session_timeout: Duration,
) -> Vec<Worker> {
    let mut starting = JoinSet::new();
    for at in 0..count {
        let (connect, path, name) = (connect.to_owned(), path.to_owned(), format!("w{at}"));
        let history = run.history_file(&name);
        starting
            .spawn(async move { start(&name, &connect, &path, session_timeout, &history).await });
    }
    let mut workers = starting.join_all().await;
    workers.sort_by_key(|worker| worker.name().to_owned());
    workers
}

/// Lets each worker contend on its own, all at once, until all are done.
async fn contend(workers: Vec<Worker>, command: String) -> Vec<Worker> {
    let mut contending = JoinSet::new();
    for mut worker in workers {
        let command = command.clone();
        contending.spawn(async move {
            worker.tell(&command).await.unwrap();
            worker.done(LONG).await.unwrap();
            worker
        });
    }
    contending.join_all().await
}

/// Asks a server until it answers, which takes long on a busy machine.
pub(crate) async fn answered<T, E>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    let asking = async {
        loop {
            if let Ok(answer) = ask().await {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(SOON, asking).await;
    answer.expect("a server that runs answers")
}

/// Returns how many watches all servers hold.
pub(crate) async fn watches(ensemble: &Ensemble) -> u64 {
    let mut watches = 0;
    for server in ensemble.servers() {
        watches += answered(async || server.wchs().await).await.watches;
    }
    watches
}

/// The children of `path` after all that was done; none if it does not exist.
pub(crate) async fn names(session: &Session, path: &str) -> BTreeSet<String> {
    session
        .sync(path)
        .with_quorum()
        .await
        .expect("the server catches up");
    match session.list(path).await {
        Ok((names, _)) => names.into_iter().collect(),
        Err(error) if error.is_no_node() => BTreeSet::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Looks until `condition` holds, for at most `within`.
pub(crate) async fn until(what: &str, within: Duration, condition: impl AsyncFn() -> bool) {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        while !condition().await {
            looks.tick().await;
        }
    };
    let looked = tokio::time::timeout(within, looking).await;
    assert!(looked.is_ok(), "waited {within:?} for this: {what}");
}

/// Waits until `count` contenders are there.
pub(crate) async fn until_enlisted(session: &Session, path: &str, count: usize) {
    let what = format!("{count} contenders below {path}");
    until(&what, SOON, async || {
        names(session, path).await.len() == count
    })
    .await;
}

/// Waits until no node is left of an unused lock.
pub(crate) async fn until_empty(session: &Session, path: &str) {
    until(&format!("no node below {path}"), SOON, async || {
        names(session, path).await.is_empty()
    })
    .await;
}
