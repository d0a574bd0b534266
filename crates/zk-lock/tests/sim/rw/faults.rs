//! Lost requests, lost replies and lagging servers.

use std::time::Duration;

use zk_sim::{Ensemble, Script, Scripted, matching};

use super::{READERS, WRITERS, reader, reads, rw, sessions, writer, writes};
use crate::{PATH, left, pass, soon};

type Strike = (&'static str, fn(Script) -> Scripted);

/// The faults of a request.
const STRIKES: [Strike; 6] = [
    ("request lost", Script::lose_request),
    ("reply lost", Script::lose_reply),
    ("stalled", Script::stall),
    ("stalled, then moved to a server that lags", |script| {
        script.stall_then_move(2)
    }),
    ("stalled, then moved to the leader", |script| {
        script.stall_then_move(3)
    }),
    ("the leader dies", |script| {
        script.kill_leader(zk_sim::Proposal::Survives)
    }),
];

/// Each request of a writer that is downgraded and upgraded again is hit by a fault, one at a time, while a reader and
/// a writer wait: no writer gets in between, and no waiter waits forever.
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_of_a_change_lets_no_writer_in() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let what = format!("{name}, request {nth}");
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let [others, late] = sessions(&ensemble).await;
            let script = ensemble.on(matching::anything());
            let struck = strike(script.session(session.id()).nth(nth));

            let writing = soon(&what, rw(&session).writer().acquire())
                .await
                .expect(&what);
            let next = reader(&others).await;
            let later = writer(&late).await;
            assert!(!next.is_finished() && !later.is_finished(), "{what}");
            let token = writing.fencing_token();
            let reading = soon(&what, writing.downgrade()).await.expect(&what);
            assert_eq!(reading.fencing_token(), token, "{what}");
            let shared = soon(&what, next).await.unwrap().expect(&what);
            assert!(!later.is_finished(), "{what}");
            // The waiting writer is in the way, and leaves.
            let refused = soon(&what, reading.upgrade()).await.expect_err(&what);
            let reading = refused.into_guard().expect(&what);
            assert!(!later.is_finished(), "{what}");
            later.abort();
            soon(&what, late.settled()).await;
            shared.release().await.unwrap();
            // The leftover node of the refused upgrade is ours and waits for us, until it is deleted.
            soon(&what, session.settled()).await;
            let writing = soon(&what, reading.upgrade()).await.expect(&what);
            assert!(
                writing.is_valid() && writing.fencing_token() > token,
                "{what}"
            );
            pass(Duration::from_millis(50)).await;
            soon(&what, writing.release()).await.expect(&what);

            struck.release();
            soon(&what, session.settled()).await;
            pass(Duration::from_secs(3)).await;
            assert_eq!(left(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 12, "{what}");
                break;
            }
        }
    }
}

/// The downgrade is done once the reader's node exists; the writer's node may stay a little longer.
#[tokio::test(start_paused = true)]
async fn a_downgrade_deletes_a_slow_writer_node_in_the_background() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let quick = a.with_operation_timeout(Duration::from_secs(1));
    let writing = writes(&quick).await;
    let (next, later) = (reader(&b).await, writer(&c).await);
    let lost = ensemble.on(matching::deletes(WRITERS)).every();
    let lost = lost.lose_request();
    let reading = soon("it is a reader", writing.downgrade()).await.unwrap();
    assert!(reading.is_valid());
    assert!(lost.count() > 1);
    assert!(!next.is_finished() && !later.is_finished());
    lost.withdraw();
    soon("the writer's node is deleted", quick.settled()).await;
    let shared = super::granted(next).await;
    pass(Duration::from_secs(1)).await;
    assert!(!later.is_finished() && reading.is_valid());
    shared.release().await.unwrap();
    reading.release().await.unwrap();
    super::granted(later).await.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

/// A reader whose create is in flight while it moves to a lagging server must not enlist twice.
#[tokio::test(start_paused = true)]
async fn a_lagging_server_causes_no_second_reader_node() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().server(1).await;
    let [other] = sessions(&ensemble).await;
    reads(&session).await.release().await.unwrap();
    let stalled = ensemble.on(matching::creates(READERS)).stall_then_move(2);
    let reading = reads(&session).await;
    assert_eq!((stalled.count(), left(&ensemble).len()), (1, 1));
    reading.release().await.unwrap();
    soon("nothing is left to do", session.settled()).await;
    writes(&other).await.release().await.unwrap();
    assert!(ensemble.tree().node(PATH).is_some());
}
