//! Futures dropped at every await: no node stays, and the others are not held up.

use std::time::Duration;

use zk_sim::Ensemble;
use zk_sim::wait::pass;
use zk_sim::wait::polled;
use zk_sim::wait::soon;

use crate::double;
use crate::members;

// covers: M5
#[tokio::test(start_paused = true)]
async fn a_dropped_enter_leaves_no_member() {
    for is_cut in [false, true] {
        for polls in 0.. {
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let barrier = double(&one, 2);
            let enter = barrier.enter_timeout(Duration::from_secs(1));
            let done = polled(polls, enter).await.is_some();
            if is_cut {
                ensemble.session(one.id()).cut();
            }
            one.settled().await;
            pass(Duration::from_secs(2)).await;
            assert_eq!(members(&ensemble), 0, "after {polls} polls");
            let second = double(&two, 2);
            let second = second.enter_timeout(Duration::from_secs(1)).await;
            assert!(second.is_err(), "alone after {polls} polls");
            pass(Duration::from_secs(1)).await;
            assert_eq!(ensemble.watch_count(), 0, "after {polls} polls");
            if done {
                assert!(polls > 4, "{polls}");
                break;
            }
        }
    }
}

// covers: M5
#[tokio::test(start_paused = true)]
async fn a_dropped_leave_holds_up_no_other_member() {
    for (is_cut, drops_opener) in [(false, false), (false, true), (true, false), (true, true)] {
        for polls in 0.. {
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let barrier = double(&one, 2);
            let first = tokio::spawn(async move { barrier.enter().await });
            pass(Duration::from_secs(1)).await;
            let opener = double(&two, 2).enter().await.unwrap();
            let first = first.await.unwrap().unwrap();
            let (dropped, session, other) = if drops_opener {
                (opener, &two, first)
            } else {
                (first, &one, opener)
            };
            let leave = dropped.leave_timeout(Duration::from_secs(1));
            let done = polled(polls, leave).await.is_some();
            if is_cut {
                ensemble.session(session.id()).cut();
            }
            soon("it leaves alone", other.leave()).await.unwrap();
            session.settled().await;
            pass(Duration::from_secs(1)).await;
            assert_eq!(members(&ensemble), 0, "after {polls} polls");
            assert_eq!(ensemble.watch_count(), 0, "after {polls} polls");
            if done {
                assert!(polls > 2, "{polls}");
                break;
            }
        }
    }
}
