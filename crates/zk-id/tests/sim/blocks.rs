//! Blocks of a counter: each number is given out once.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use zk_core::Session;
use zk_id::{BlockError, BlockIds};
use zk_sim::{Ensemble, matching};

use crate::{PATH, pass, polled, soon};

fn blocks(session: &Session, block: u32) -> BlockIds {
    BlockIds::new(session, PATH, NonZeroU32::new(block).unwrap()).unwrap()
}

fn counter(ensemble: &Ensemble) -> i64 {
    let tree = ensemble.tree();
    let data = tree.node(PATH).map(|node| node.data().to_vec());
    data.map_or(0, |data| i64::from_be_bytes(data.try_into().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn numbers_begin_at_one_and_are_taken_before_they_are_given_out() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ids = blocks(&session, 10);
    assert_eq!(ids.try_next(), None);
    for expected in 1..=1000 {
        assert_eq!(soon("there is one", ids.next()).await.unwrap(), expected);
        assert!(counter(&ensemble) >= expected);
        assert!(counter(&ensemble) <= expected + 20, "too far ahead");
    }
    assert_eq!(
        ids.clone().next_many(25).await.unwrap(),
        (1001..=1025).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn next_block_is_there_before_the_current_one_runs_out() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ids = blocks(&session, 100);
    ids.next().await.unwrap();
    pass(Duration::from_secs(1)).await;
    for _ in 0..2000 {
        // A fetch takes a few milliseconds; half a block lasts longer.
        assert!(ids.try_next().is_some());
        pass(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_number_is_given_out_twice_whatever_is_lost() {
    for lost in ["reply", "request", "stalled", "leader"] {
        let ensemble = Ensemble::new(3);
        let mut takers = tokio::task::JoinSet::new();
        let all = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        for _ in 0..3 {
            let session = ensemble.connect().await;
            // Blocks of the same size: what two of them write is the same.
            let ids = blocks(&session, 5);
            let all = std::sync::Arc::clone(&all);
            takers.spawn(async move {
                for _ in 0..100 {
                    let number = soon("there is one", async {
                        loop {
                            match ids.next().await {
                                Ok(number) => return number,
                                Err(error) => assert!(
                                    error.class() == zk_core::ErrorClass::Recoverable,
                                    "{error}"
                                ),
                            }
                        }
                    });
                    let number = number.await;
                    assert!(all.lock().unwrap().insert(number), "{number} twice");
                }
            });
        }
        for nth in 0..40 {
            let script = ensemble.on(matching::writes()).nth(1 + nth % 3);
            drop(match lost {
                "reply" => script.lose_reply(),
                "request" => script.lose_request(),
                "stalled" => script.stall_then_move(1 + nth % 3),
                _ if nth % 10 == 0 => script.kill_leader(zk_sim::Proposal::Survives),
                _ => script.lose_reply(),
            });
            if lost == "leader" && nth % 10 == 5 {
                for server in 1..=3 {
                    ensemble.server(server).start();
                }
            }
            pass(Duration::from_millis(20)).await;
        }
        for server in 1..=3 {
            ensemble.server(server).start();
        }
        soon("all have theirs", takers.join_all()).await;
        assert_eq!(all.lock().unwrap().len(), 300);
        assert!(
            all.lock()
                .unwrap()
                .iter()
                .all(|number| *number <= counter(&ensemble))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_processes_that_start_at_once_all_get_a_block() {
    let ensemble = Ensemble::new(3);
    let mut takers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let ids = blocks(&ensemble.connect().await, 10);
        takers.spawn(async move { ids.next().await });
    }
    let taken = soon("all have an answer", takers.join_all()).await;
    let refused: Vec<_> = taken.iter().filter_map(|it| it.as_ref().err()).collect();
    assert_eq!(refused.len(), 0, "{refused:?}");
    let distinct: BTreeSet<i64> = taken.into_iter().map(Result::unwrap).collect();
    assert_eq!(distinct.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn counter_ends_at_the_largest_number() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let at = (i64::MAX - 7).to_be_bytes();
    session.create(PATH, at).parents().await.unwrap();
    let ids = blocks(&session, 5);
    let rest: Vec<i64> = (i64::MAX - 6..=i64::MAX).collect();
    assert_eq!(ids.next_many(7).await.unwrap(), rest);
    let error = ids.next().await.unwrap_err();
    assert!(matches!(error, BlockError::Exhausted { .. }), "{error}");
    assert_eq!(counter(&ensemble), i64::MAX);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_or_decreased_counter_is_refused() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create(PATH, "text").parents().await.unwrap();
    let error = blocks(&session, 5).next().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "/ids/a contains \"text\" instead of a counter of 8 bytes; use another path"
    );
    session.set(PATH, "").await.unwrap();
    let ids = blocks(&session, 5);
    assert_eq!(ids.next_many(5).await.unwrap(), [1, 2, 3, 4, 5]);
    pass(Duration::from_secs(1)).await;
    session.delete(PATH).await.unwrap();
    assert_eq!(ids.next_many(5).await.unwrap(), [6, 7, 8, 9, 10]);
    let error = ids.next().await.unwrap_err();
    assert!(
        matches!(
            error,
            BlockError::CounterDecreased {
                taken: 10,
                found: 0,
                ..
            }
        ),
        "{error}"
    );
    // As the message says.
    session.create(PATH, 10_i64.to_be_bytes()).await.unwrap();
    assert_eq!(ids.next().await.unwrap(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_error_of_the_fetch() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ids = blocks(&session, 4);
    ids.next().await.unwrap();
    pass(Duration::from_secs(1)).await;
    ensemble.session(session.id()).expire();
    session.lost().await;
    // No other process can issue the remaining numbers.
    let mut left = 0;
    let error = loop {
        match soon("there is an answer", ids.next()).await {
            Ok(_) => left += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(left, 3);
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal, "{error}");
}

#[tokio::test(start_paused = true)]
async fn call_that_is_dropped_loses_no_number_and_leaves_no_task() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let ids = blocks(&session, 3);
    let mut next = 1;
    for polls in (0..4).cycle().take(100) {
        if let Some(number) = polled(polls, ids.next()).await {
            assert_eq!(number.unwrap(), next);
            next += 1;
        }
        pass(Duration::from_millis(1)).await;
    }
    assert!(next > 20, "{next}");
    while ids.try_next().is_some() {}
    drop(ids);
    pass(Duration::from_secs(1)).await;
    assert_eq!(tasks(), before);
}

/// Runs something on a thread of its own, outside of any runtime, and waits at most a minute for it.
fn apart<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> std::thread::Result<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        sender.send(done).ok();
    });
    let done = receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("it answers within a minute");
    thread.join().unwrap();
    done
}

#[tokio::test]
async fn a_fetch_started_outside_of_a_runtime_succeeds() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let ids = blocks(&session, 10);
    let outside = ids.clone();
    let first = apart(move || outside.try_next());
    assert!(matches!(first, Ok(None)), "{first:?}");
    assert_eq!(soon("there is one", ids.next()).await.unwrap(), 1);
}

#[test]
fn a_fetch_on_a_runtime_that_was_shut_down_fails() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ids = runtime.block_on(async {
        let session = Ensemble::new(1).connect().await;
        blocks(&session, 10)
    });
    let ended = runtime.handle().clone();
    drop(runtime);
    let answer = apart(move || {
        let waiting = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        waiting.block_on(async {
            let _entered = ended.enter();
            assert_eq!(ids.try_next(), None);
            ids.next().await
        })
    });
    assert!(matches!(answer, Ok(Err(BlockError::Stopped))), "{answer:?}");
}
