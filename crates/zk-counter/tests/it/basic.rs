//! Counters and shared values, while replies are lost and connections cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zk_core::Session;
use zk_counter::{AtomicCounter, CounterOptions, SharedCount, TrySetOutcome};
use zk_fault_proxy::{Clients, Close, Match};
use zk_harness::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::{connect, with_servers};

/// Loses replies to writes of the session, and cuts its connection, alternately. Waits for some progress in between.
async fn cut(ensemble: &Ensemble, session: &Session, done: &AtomicI64) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let its = session.id().as_i64();
    for round in 0..10 {
        if round % 2 == 0 {
            let reply = proxy.on(Match::writes().session(its)).once().cut_on_reply();
            let lost = async {
                while reply.count() == 0 {
                    pass(Duration::from_millis(10)).await;
                }
            };
            soon("a reply is lost", lost).await;
        } else {
            proxy.cut(Clients::Session(its), Close::Rst).await;
        }
        let before = done.load(Ordering::SeqCst);
        let goes_on = async {
            while done.load(Ordering::SeqCst) < before + 8 {
                pass(Duration::from_millis(10)).await;
            }
        };
        soon("it counts on", goes_on).await;
    }
}

/// Other clients take the refusal of a repeated write for another client's, and write again.
#[tokio::test(flavor = "multi_thread")]
async fn count_is_exact_while_replies_are_lost() {
    with_servers(3, async |ensemble| {
        let sessions = [connect(ensemble).await, connect(ensemble).await];
        let mut tasks = JoinSet::new();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let progress = [Arc::new(AtomicI64::new(0)), Arc::default()];
        for (session, done) in sessions.iter().zip(&progress) {
            let options = CounterOptions::default().with_timeout(Duration::from_secs(60));
            let counter = AtomicCounter::new(session, "/c", &options).unwrap();
            for _ in 0..4 {
                let (counter, stopped) = (counter.clone(), stopped.clone());
                let done = Arc::clone(done);
                tasks.spawn(async move {
                    while !*stopped.borrow() {
                        counter.increment().await.expect("its outcome is known");
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        }
        tokio::join!(
            cut(ensemble, &sessions[0], &progress[0]),
            cut(ensemble, &sessions[1], &progress[1])
        );
        stop.send_replace(true);
        tasks.join_all().await;
        let done: i64 = progress
            .iter()
            .map(|done| done.load(Ordering::SeqCst))
            .sum();
        let counter = AtomicCounter::new(&sessions[0], "/c", &CounterOptions::default()).unwrap();
        assert_eq!(counter.get().await.unwrap(), done);
        drop(counter);
        for session in sessions {
            let removed = async {
                while !session.ephemerals("/c").await.unwrap().is_empty() {
                    pass(Duration::from_millis(20)).await;
                }
            };
            soon("the token is removed", removed).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_count_is_followed_and_set_under_its_version() {
    with_servers(3, async |ensemble| {
        let sessions = [connect(ensemble).await, connect(ensemble).await];
        let [mine, theirs] = [&sessions[0], &sessions[1]]
            .map(|session| SharedCount::start(session, "/app/n", 1).unwrap());
        let seen = soon("it is read", mine.synchronized()).await.unwrap();
        assert_eq!(theirs.try_set(&seen, 2).await.unwrap(), TrySetOutcome::Done);
        assert_eq!(
            mine.try_set(&seen, 3).await.unwrap(),
            TrySetOutcome::ChangedMeanwhile
        );
        let mut changes = mine.changes();
        loop {
            let now = soon("it changes", changes.next()).await.unwrap().unwrap();
            if now.is_some_and(|now| (now.value, now.version) == (2, 1)) {
                break;
            }
        }
    })
    .await;
}
