//! The lock over processes and failures.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_tests::contention::Turn;
use zk_tests::contention::Worker;
use zk_tests::contention::overlaps;

mod counter;
mod crowd;
mod curator;
mod holders;
mod numbers;
mod servers;

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(30);
/// For many turns in a row.
const LONG: Duration = Duration::from_secs(120);

async fn three_servers() -> Ensemble {
    three_servers_with_ticks_of(Duration::from_millis(200)).await
}

async fn three_servers_with_ticks_of(tick: Duration) -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .tick_time(tick)
        // A machine that does many things at once may need several elections.
        .start_timeout(LONG)
        .start()
        .await
        .expect("the servers start")
}

/// A session that outlives what the tests do to servers.
async fn observer(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(30))
        .operation_timeout(SOON)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

async fn worker(name: &str, connect: &str, path: &str, session_timeout: Duration) -> Worker {
    let program = Path::new(env!("CARGO_BIN_EXE_lock-worker"));
    Worker::start(program, name, connect, path, session_timeout)
        .await
        .expect("a worker starts")
}

/// Starts workers at the same time, named by numbers.
async fn workers(
    count: usize,
    connect: &str,
    path: &str,
    session_timeout: Duration,
) -> Vec<Worker> {
    let mut starting = JoinSet::new();
    for at in 0..count {
        let (connect, path) = (connect.to_owned(), path.to_owned());
        starting.spawn(
            async move { worker(&format!("w{at}"), &connect, &path, session_timeout).await },
        );
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

/// The children of `path` after all that was done; none if it does not exist.
async fn names(session: &Session, path: &str) -> BTreeSet<String> {
    session.sync(path).await.expect("the server catches up");
    match session.list(path).await {
        Ok((names, _)) => names.into_iter().collect(),
        Err(error) if error.is_no_node() => BTreeSet::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Looks until `condition` holds, for at most `within`.
async fn until(what: &str, within: Duration, condition: impl AsyncFn() -> bool) {
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
async fn until_enlisted(session: &Session, path: &str, count: usize) {
    let what = format!("{count} contenders below {path}");
    until(&what, SOON, async || {
        names(session, path).await.len() == count
    })
    .await;
}

/// Waits until no node is left of a lock that nobody uses any more.
async fn until_empty(session: &Session, path: &str) {
    until(&format!("no node below {path}"), SOON, async || {
        names(session, path).await.is_empty()
    })
    .await;
}

/// Nobody held the lock while another one was trusted, and whoever came later has the higher token.
fn judge(turns: &[Turn]) {
    let trusted: Vec<&Turn> = turns.iter().filter(|turn| turn.trusted.is_some()).collect();
    let both = overlaps(&trusted, |turn| turn.trusted.expect("these were trusted"));
    assert!(both.is_empty(), "two trusted at once: {both:#?}");
    for pair in turns.windows(2) {
        assert!(
            pair[0].token < pair[1].token,
            "tokens do not rise: {pair:#?}"
        );
        assert!(
            pair[0].sequence < pair[1].sequence,
            "not in order of arrival: {pair:#?}"
        );
    }
}
