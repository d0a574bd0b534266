//! Lost requests, lost replies and lagging servers.

use zk_sim::{Ensemble, matching};

use super::{LEASES, QUEUE, count, granted, semaphore, waiting};
use crate::faults::STRIKES;
use crate::{ephemerals, soon};

/// Each request of acquires and releases is hit by each fault, one at a time.
/// This is Curator's `testNoOrphanedNodes`, for each of its steps.
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_leaves_no_lease() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let others = ensemble.connect().server(3).await;
            let struck = strike(
                ensemble
                    .on(matching::anything())
                    .session(session.id())
                    .nth(nth),
            );
            let what = format!("{name}, request {nth}");

            // Created and free, then taken and tried for, then taken and waited for.
            let lease = soon(&what, semaphore(&session, 2).with_count(2).acquire()).await;
            soon(&what, lease.expect(&what).release())
                .await
                .expect(&what);
            let held = semaphore(&others, 2).acquire().await.expect(&what);
            let tried = semaphore(&session, 2);
            let tried = soon(&what, tried.with_count(2).try_acquire())
                .await
                .expect(&what);
            assert!(tried.is_none(), "{what}");
            let both = waiting(&session, 2, 2).await;
            held.release().await.unwrap();
            let both = granted(&what, both).await;
            assert_eq!(count(&ensemble, LEASES), 2, "{what}");
            soon(&what, both.release()).await.expect(&what);

            struck.release();
            soon(&what, session.settled()).await;
            crate::pass(std::time::Duration::from_secs(1)).await;
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 25, "{what}");
                break;
            }
        }
    }
}

/// The first waiter is hit by a fault while it waits for released leases: the others proceed.
#[tokio::test(start_paused = true)]
async fn a_first_waiter_cut_off_keeps_its_place_with_its_session() {
    for heals in [true, false] {
        let ensemble = Ensemble::new(3);
        let (one, two, three) = (
            ensemble.connect().await,
            ensemble.connect().await,
            ensemble.connect().await,
        );
        let held = semaphore(&one, 1).acquire().await.unwrap();
        let first = waiting(&two, 1, 1).await;
        let second = waiting(&three, 1, 1).await;
        ensemble.session(two.id()).partition();
        held.release().await.unwrap();
        // Its session is about to end and can no longer be proved alive.
        crate::pass(two.session_timeout().mul_f64(0.985)).await;
        assert!(!first.is_finished() && !second.is_finished());
        if heals {
            ensemble.session(two.id()).heal();
            granted("it was first", first)
                .await
                .release()
                .await
                .unwrap();
        } else {
            soon("its session is lost", first)
                .await
                .unwrap()
                .unwrap_err();
        }
        granted("it is next", second).await.release().await.unwrap();
        assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 0));
    }
}
