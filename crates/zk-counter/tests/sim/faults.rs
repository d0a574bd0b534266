//! Requests and replies of a counter that are lost.

use std::time::Duration;

use zk_core::transport::Request;
use zk_counter::{AtomicCounter, CounterOptions};
use zk_sim::{Ensemble, Script, Scripted};

use crate::{counter, number, soon};

type Inject = fn(Script) -> Scripted;

const FAULTS: [(&str, Inject); 5] = [
    ("request", Script::lose_request),
    ("reply", Script::lose_reply),
    ("postpone", Script::postpone),
    ("stall 2", |script| script.stall_then_move(2)),
    ("stall 3", |script| script.stall_then_move(3)),
];

/// Each request of the counter is lost once, before and after the server acted.
#[tokio::test(start_paused = true)]
async fn count_is_exact_whichever_request_or_reply_is_lost() {
    for (name, inject) in FAULTS {
        let mut nth = 1;
        loop {
            let sim = Ensemble::new(3);
            let session = sim.connect().server(1).await;
            let other = sim.connect().await;
            let any = |_: &Request| true;
            let fault = inject(sim.on(any).session(session.id()).nth(nth));
            let (mine, theirs) = (counter(&session), counter(&other));
            for round in 0..3 {
                let (one, two) = tokio::join!(mine.increment(), mine.add(10));
                one.unwrap_or_else(|error| panic!("{name} {nth} {round}: {error}"));
                two.unwrap_or_else(|error| panic!("{name} {nth} {round}: {error}"));
                theirs.add(100).await.unwrap();
            }
            assert_eq!(mine.get().await.unwrap(), 333, "{name} {nth}");
            assert_eq!(number(&sim), 333, "{name} {nth}");
            if fault.count() == 0 {
                assert!(nth > 10, "{name}: only {nth} requests");
                break;
            }
            nth += 1;
        }
    }
}

/// Two processes that add the same to the same number write the same data under the same version.
#[tokio::test(start_paused = true)]
async fn equal_write_of_another_process_is_not_taken_for_its_own() {
    for (name, inject) in FAULTS {
        let sim = Ensemble::new(3);
        let session = sim.connect().server(1).await;
        let other = sim.connect().await;
        let (mine, theirs) = (counter(&session), counter(&other));
        mine.increment().await.unwrap();
        theirs.increment().await.unwrap();
        mine.get().await.unwrap();
        let is_transaction = |request: &Request| matches!(request, Request::Multi(_));
        let lost = inject(sim.on(is_transaction).session(session.id()));
        let adding = async {
            soon("it is lost", lost.happened()).await;
            theirs.increment().await.unwrap();
        };
        let (incremented, ()) = tokio::join!(mine.increment(), adding);
        incremented.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(number(&sim), 4, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn lagging_server_does_not_delay_a_counter_for_good() {
    let sim = Ensemble::new(3);
    let (slow, fast) = (sim.connect().server(2).await, sim.connect().server(1).await);
    let (slow, fast) = (counter(&slow), counter(&fast));
    slow.increment().await.unwrap();
    sim.server(2).lag_by(Duration::from_millis(200));
    for round in 0..10 {
        fast.increment().await.unwrap();
        assert_eq!(slow.get().await.unwrap(), 2 + 2 * round);
        assert_eq!(slow.increment().await.unwrap(), 3 + 2 * round);
        assert_eq!(slow.get().await.unwrap(), 3 + 2 * round);
    }
}

#[tokio::test(start_paused = true)]
async fn no_process_starves_while_others_count() {
    let sim = Ensemble::new(3);
    let mut workers = Vec::new();
    for _ in 0..16 {
        let session = sim.connect().await;
        workers.push(tokio::spawn(async move {
            let options = CounterOptions::default().with_timeout(Duration::from_secs(60));
            let counter = AtomicCounter::new(&session, "/c", &options).unwrap();
            for _ in 0..20 {
                counter.increment().await.unwrap();
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(number(&sim), 320);
}
