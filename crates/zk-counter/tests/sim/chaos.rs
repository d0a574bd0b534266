//! Random failures: what was acknowledged is what is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::Error;
use zk_counter::{AtomicCounter, CounterOptions};
use zk_sim::{Chaos, Check};

use crate::{number, pass};

/// The sum of what was acknowledged is the number, but for what is reported as unknown.
#[test]
fn acknowledged_additions_add_up_under_chaos() {
    let (known, unknown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let totals = (Arc::clone(&known), Arc::clone(&unknown));
    Check::new(0..60).seeds_from_env().run(move |sim, _seed| {
        let (known, unknown) = totals.clone();
        async move {
            let chaos = tokio::spawn(Chaos::default().run(&sim));
            let mut workers = Vec::new();
            for worker in 0..4_i64 {
                let session = sim.connect().timeout(Duration::from_secs(30)).await;
                workers.push(tokio::spawn(work(session, worker)));
            }
            let mut sum = Outcome::default();
            for worker in workers {
                let outcome = worker.await.expect("no worker panics");
                sum.acknowledged += outcome.acknowledged;
                sum.in_doubt += outcome.in_doubt;
                sum.count += outcome.count;
                sum.unknown += outcome.unknown;
            }
            chaos.await.expect("nothing panics there");
            pass(Duration::from_secs(1)).await;
            let number = number(&sim);
            assert!(
                (sum.acknowledged..=sum.acknowledged + sum.in_doubt).contains(&number),
                "{number} after {sum:?}"
            );
            known.fetch_add(sum.count, Ordering::SeqCst);
            unknown.fetch_add(sum.unknown, Ordering::SeqCst);
            Ok::<(), Error>(())
        }
    });
    let (known, unknown) = (known.load(Ordering::SeqCst), unknown.load(Ordering::SeqCst));
    assert!(
        known > 2_000 && unknown * 10 < known,
        "{known} known, {unknown} unknown"
    );
}

#[derive(Debug, Default)]
struct Outcome {
    acknowledged: i64,
    in_doubt: i64,
    count: usize,
    unknown: usize,
}

async fn work(session: zk_core::Session, worker: i64) -> Outcome {
    let options = CounterOptions::default().with_timeout(Duration::from_secs(60));
    let counter = AtomicCounter::new(&session, "/c", &options).expect("a good path");
    let mut outcome = Outcome::default();
    for round in 0..15 {
        let amounts = [1, 10 + worker];
        let both = tokio::join!(counter.add(amounts[0]), counter.add(amounts[1]));
        for (result, amount) in [both.0, both.1].into_iter().zip(amounts) {
            match result {
                Ok(_) => {
                    outcome.acknowledged += amount;
                    outcome.count += 1;
                }
                Err(error) if error.is_outcome_unknown() => {
                    outcome.in_doubt += amount;
                    outcome.unknown += 1;
                }
                Err(_) => {}
            }
        }
        pass(Duration::from_millis(20 + round)).await;
    }
    outcome
}
