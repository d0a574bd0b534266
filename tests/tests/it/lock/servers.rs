//! Servers that die, stop and restart while a lock is held and waited for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zk_harness::{Ensemble, Server};
use zk_tests::contention::{Event, Record, Worker, turns};
use zk_tests::peers::monotonic;

use super::{
    LONG, SOON, answered, contend, judged, observer, three_servers_with, until, until_empty,
    until_enlisted, worker, workers,
};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

const TICK: Duration = Duration::from_millis(200);

/// Does something to the servers while a lock is held, and again while it changes hands.
///
/// The holder keeps the lock or knows that it does not, the waiters have their turns, no two are valid at once, and
/// nothing is left.
async fn survives(name: &str, fault: impl AsyncFn(&Ensemble, &BTreeSet<u64>)) {
    const WAITERS: usize = 4;
    const TURNS: usize = 10;
    let run = judged(name);
    let ensemble = three_servers_with(TICK, 10).await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    session.create("/lock", "").await.unwrap();
    let connect = ensemble.connect_string();
    let mut workers = workers(&run, WAITERS + 1, &connect, "/lock", SESSION_TIMEOUT).await;
    let sessions: BTreeSet<u64> = workers
        .iter()
        .map(|worker| worker.session_id().cast_unsigned())
        .collect();

    let mut holder = workers.remove(0);
    holder.acquire(SOON).await.unwrap();
    let waiting = tokio::spawn(contend(workers, format!("contend {TURNS} 100")));
    until_enlisted(&session, "/lock", WAITERS + 1).await;
    fault(&ensemble, &sessions).await;
    ensemble.wait_serving().await.unwrap();

    let kept = keeps_or_knows(&mut holder).await;
    let turn = holder.release().await.unwrap();
    assert_eq!(turn.kept, kept, "{turn:?}");
    println!(
        "the holder's lock was {}",
        if kept { "kept" } else { "lost" }
    );
    // Some of the turns are over when it happens again, and some are not.
    let again = u64::try_from(monotonic().as_nanos()).unwrap();
    fault(&ensemble, &sessions).await;
    ensemble.wait_serving().await.unwrap();
    let workers = tokio::time::timeout(LONG, waiting).await;
    let workers = workers.expect("the waiters have their turns").unwrap();

    let mut records: Vec<Record> = holder.quit().await.unwrap();
    for worker in workers {
        records.extend(worker.quit().await.unwrap());
    }
    let retried = records
        .iter()
        .filter(|record| matches!(record.event, Event::Retried { .. }))
        .count();
    let turns = turns(&records);
    println!("{} turns, {retried} begun anew", turns.len());
    assert_eq!(turns.len(), 1 + WAITERS * TURNS);
    assert!(
        turns.iter().any(|turn| again < turn.held.from),
        "all turns were over before it happened again"
    );
    until_empty(&session, "/lock").await;
    let report = run.finish().unwrap();
    assert_eq!(report.verdicts[0].counts["grants"], turns.len() as u64);
    ensemble.down().await.unwrap();
}

/// Whether the lock is still held, which the holder has to know.
async fn keeps_or_knows(holder: &mut Worker) -> bool {
    let known = async {
        loop {
            if holder.is_valid().await.unwrap() {
                break true;
            }
            let lost = holder.next("a loss", Duration::from_millis(100), |event| match event {
                Event::Lost { loss } => Some(loss.clone()),
                _ => None,
            });
            // The loss that may turn out to be none.
            if lost.await.is_ok_and(|loss| loss == "the session is over") {
                break false;
            }
        }
    };
    let known = tokio::time::timeout(SOON, known).await;
    known.expect("the holder knows what became of its lock")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_takes_no_lock_along() {
    survives("killed-leader", async |ensemble, _| {
        let leader = ensemble.wait_leader(SOON).await.unwrap();
        leader.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        leader.start().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_leave_a_follower_that_stands_still() {
    survives("paused-follower", async |ensemble, sessions| {
        let follower = busiest_follower(ensemble, sessions).await;
        let here = connected(follower, sessions).await;
        follower.pause().await.unwrap();
        let paused = Instant::now();
        until("the sessions are elsewhere, or over", SOON, async || {
            let mut elsewhere = BTreeSet::new();
            for server in ensemble.servers() {
                if server.id() != follower.id() {
                    elsewhere.extend(connected(server, &here).await);
                }
            }
            elsewhere == here || paused.elapsed() > 2 * SESSION_TIMEOUT
        })
        .await;
        follower.resume().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_restarted_one_by_one_under_a_lock() {
    survives("rolling-restart", async |ensemble, _| {
        let last = ensemble.wait_leader(SOON).await.unwrap().id();
        let mut order: Vec<&Server> = ensemble.servers().iter().collect();
        order.sort_by_key(|server| server.id() == last);
        for server in order {
            server.restart().await.unwrap();
            ensemble.wait_serving().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_cut_off_with_its_server_stops_before_the_next() {
    let run = judged("cut-off-holder");
    let ensemble = three_servers_with(TICK, 10).await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    session.create("/lock", "").await.unwrap();
    session.create("/data", "first").await.unwrap();
    let leader = ensemble.wait_leader(SOON).await.unwrap().id();
    let (mut others, mut connect) = (Vec::new(), String::new());
    for server in ensemble.servers() {
        if connect.is_empty() && server.id() != leader {
            connect = server.client_address().to_string();
        } else {
            others.push(server.client_address().to_string());
        }
    }
    let session_timeout = 2 * SESSION_TIMEOUT;
    let mut holder = worker(&run, "holder", &connect, "/lock", session_timeout).await;
    // Its session outlasts a busy moment: it is the holder's that is to end.
    let mut next = worker(
        &run,
        "next",
        &others.join(","),
        "/lock",
        4 * session_timeout,
    )
    .await;
    let (old, _) = holder.acquire(SOON).await.unwrap();
    next.tell("acquire 60000").await.unwrap();
    until_enlisted(&session, "/lock", 2).await;

    let cut_off = ensemble
        .servers()
        .iter()
        .find(|server| server.client_address().to_string() == connect)
        .expect("it is one of them");
    cut_off.pause().await.unwrap();
    let (new, _) = next.acquired(SOON).await.unwrap();
    assert!(new > old);
    assert!(!holder.is_valid().await.unwrap());
    assert_eq!(next.write("set /data second").await.unwrap().err(), None);
    cut_off.resume().await.unwrap();

    let refused = holder.write("set /data late").await.unwrap().unwrap_err();
    println!("the late write was refused: {refused}");
    session.sync("/data").with_quorum().await.unwrap();
    let (data, _) = session.get("/data").await.unwrap();
    assert_eq!(data, "second");
    let lost = holder.release().await.unwrap();
    assert!(!lost.kept, "{lost:?}");
    next.release().await.unwrap();
    let mut records = holder.quit().await.unwrap();
    records.extend(next.quit().await.unwrap());
    let turns = turns(&records);
    let margin = turns[1].held.from - turns[0].valid.expect("it was valid before").to;
    println!(
        "the next one was granted {:?} later",
        Duration::from_nanos(margin)
    );
    until_empty(&session, "/lock").await;
    run.finish().unwrap();
    ensemble.down().await.unwrap();
}

/// The follower with the most of these sessions.
async fn busiest_follower<'a>(ensemble: &'a Ensemble, sessions: &BTreeSet<u64>) -> &'a Server {
    let leader = ensemble.wait_leader(SOON).await.unwrap().id();
    let mut busiest = None;
    for server in ensemble
        .servers()
        .iter()
        .filter(|server| server.id() != leader)
    {
        let count = connected(server, sessions).await.len();
        if busiest.is_none_or(|(most, _)| count > most) {
            busiest = Some((count, server));
        }
    }
    busiest.expect("there are two followers").1
}

/// Those of the sessions that a server serves.
async fn connected(server: &Server, sessions: &BTreeSet<u64>) -> BTreeSet<u64> {
    let cons = answered(async || server.cons().await).await;
    let here = cons.sessions.into_iter();
    here.filter(|id| sessions.contains(id)).collect()
}
