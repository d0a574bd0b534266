//! The requests of the read/write lock.

use std::time::Duration;

use zk_core::transport::Request;
use zk_sim::{Ensemble, matching};

use super::{READERS, WRITERS, granted, reader, reads, sessions, writer, writes};
use crate::{PATH, pass};

const MANY: usize = 20;

#[tokio::test(start_paused = true)]
async fn a_writer_that_leaves_wakes_only_the_readers_behind_it() {
    let ensemble = Ensemble::new(3);
    let held = writes(&ensemble.connect().await).await;
    let mut readers = Vec::new();
    for _ in 0..MANY {
        readers.push(reader(&ensemble.connect().await).await);
    }
    let second = writer(&ensemble.connect().await).await;
    let last = reader(&ensemble.connect().await).await;
    assert_eq!(
        ensemble.watch_count(),
        2 * MANY + 4,
        "a reader's writer and its own node; both writers of the last one; the holder's own node; a writer's predecessor"
    );
    let before = ensemble.requests().len();
    held.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    let all: Vec<Request> = ensemble
        .requests()
        .drain(before..)
        .map(|seen| seen.request)
        .collect();
    let lists = all
        .iter()
        .filter(|request| matching::lists(PATH)(request))
        .count();
    let gets = all
        .iter()
        .filter(|request| matches!(request, Request::GetData { .. }))
        .count();
    assert_eq!((lists, gets), (1, 0), "the last reader's");
    assert!(!second.is_finished() && !last.is_finished());

    // Readers that release before the last of them wake no waiter.
    let before = ensemble.requests().len();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(granted(reader).await);
    }
    let of_last = guards.pop().unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    pass(Duration::from_secs(1)).await;
    let lists = |from: usize| {
        let mut all = ensemble.requests();
        let all = all.drain(from..).map(|seen| seen.request);
        all.filter(|request| matching::lists(PATH)(request)).count()
    };
    assert_eq!(lists(before), 0);
    of_last.release().await.unwrap();
    let second = granted(second).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(lists(before), 1);
    second.release().await.unwrap();
    granted(last).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn free_locks_cost_one_round_trip_and_changes_two() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .latency(Duration::from_millis(1))
        .build();
    let [session] = sessions(&ensemble).await;
    reads(&session).await.release().await.unwrap();
    let from = ensemble.requests().len();
    let started = tokio::time::Instant::now();
    let reading = reads(&session).await;
    let writing = reading.upgrade().await.unwrap();
    let reading = writing.downgrade().await.unwrap();
    reading.release().await.unwrap();
    // One, two, two and one, of two to three milliseconds each.
    let taken = started.elapsed();
    assert!(taken < Duration::from_millis(20), "{taken:?}");
    let requests: Vec<Request> = ensemble
        .requests()
        .drain(from..)
        .map(|seen| seen.request)
        .collect();
    let shape: Vec<&str> = requests
        .iter()
        .map(|request| match request {
            Request::GetChildren2 { .. } => "list",
            _ if matching::creates(READERS)(request) => "create reader",
            _ if matching::creates(WRITERS)(request) => "create writer",
            _ if matching::deletes(READERS)(request) => "delete reader",
            _ if matching::deletes(WRITERS)(request) => "delete writer",
            _ => "?",
        })
        .collect();
    assert_eq!(
        shape,
        [
            "create reader",
            "list",
            "create writer",
            "list",
            "delete reader",
            "create reader",
            "delete writer",
            "delete reader",
        ]
    );
}
