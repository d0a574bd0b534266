//! Futures dropped at every await, in both layouts: no node stays, and the others are not held up.

use std::time::Duration;

use zk_barrier::{DoubleBarrier, Layout};
use zk_core::Session;
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon};
use zk_testkit::sim::children;

use crate::{PATH, ROUND, double};

const SECOND: Duration = Duration::from_secs(1);

/// Each layout, and whether the connection breaks when the future is dropped.
const CASES: [(Layout, bool); 4] = [
    (Layout::Rounds, false),
    (Layout::Rounds, true),
    (Layout::Recipe, false),
    (Layout::Recipe, true),
];

fn pair(session: &Session, layout: Layout) -> DoubleBarrier {
    double(session, 2).with_layout(layout)
}

/// The names of the nodes that are left, other than those of an idle double barrier.
fn left(ensemble: &Ensemble, layout: Layout) -> Vec<String> {
    let parent = match layout {
        Layout::Recipe => PATH,
        _ => ROUND,
    };
    let mut left = children(ensemble, parent);
    left.retain(|name| name != "state");
    left
}

/// Cuts the connection if it should, and waits until what was dropped is cleaned up.
async fn cleaned_up(ensemble: &Ensemble, session: &Session, is_cut: bool) {
    if is_cut {
        ensemble.session(session.id()).cut();
    }
    soon("it is cleaned up", session.settled()).await;
    pass(SECOND).await;
}

/// Lets both sessions enter and leave together.
async fn meet(one: &Session, two: &Session, layout: Layout, what: &str) {
    let (first, second) = (pair(one, layout), pair(two, layout));
    let entered = async { tokio::try_join!(first.enter(), second.enter()) };
    let (first, second) = soon(what, entered).await.unwrap();
    assert_eq!(first.round(), second.round(), "{what}");
    let left = async { tokio::try_join!(first.leave(), second.leave()) };
    soon(what, left).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_enter_leaves_no_member() {
    for (layout, is_cut) in CASES {
        for polls in 0.. {
            let what = format!("{layout:?}, cut: {is_cut}, dropped after {polls} polls");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let barrier = pair(&one, layout);
            let enter = barrier.enter_timeout(SECOND);
            let done = polled(polls, enter).await.is_some();
            cleaned_up(&ensemble, &one, is_cut).await;
            pass(SECOND).await;
            assert_eq!(left(&ensemble, layout), [""; 0], "{what}");
            let alone = pair(&two, layout).enter_timeout(SECOND).await;
            assert!(alone.is_err(), "{what}: passed alone");
            meet(&one, &two, layout, &what).await;
            pass(SECOND).await;
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            if done {
                assert!(polls > 4, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_enter_that_completes_a_round_holds_up_no_other_member() {
    for (layout, is_cut) in CASES {
        for polls in 0.. {
            let what = format!("{layout:?}, cut: {is_cut}, dropped after {polls} polls");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let three = ensemble.connect().await;
            let other = pair(&two, layout);
            let other = tokio::spawn(async move { other.enter().await });
            pass(SECOND).await;
            let barrier = pair(&one, layout);
            let dropped = polled(polls, barrier.enter()).await;
            let done = dropped.is_some();
            drop(dropped);
            cleaned_up(&ensemble, &one, is_cut).await;
            if !other.is_finished() {
                // The round was not opened: one more member completes it.
                let last = pair(&three, layout);
                drop(soon(&what, last.enter()).await.unwrap());
            }
            let other = soon(&what, other).await.unwrap().unwrap();
            soon(&what, other.leave()).await.unwrap();
            meet(&one, &two, layout, &what).await;
            pass(SECOND).await;
            assert_eq!(left(&ensemble, layout), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            if done {
                assert!(polls > 2, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_late_enter_holds_up_no_other_member() {
    for (layout, is_cut) in CASES {
        for polls in 0.. {
            let what = format!("{layout:?}, cut: {is_cut}, dropped after {polls} polls");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let three = ensemble.connect().await;
            let other = pair(&two, layout);
            let other = tokio::spawn(async move { other.enter().await });
            pass(SECOND).await;
            let opener = soon(&what, pair(&three, layout).enter()).await.unwrap();
            let other = soon(&what, other).await.unwrap().unwrap();
            // The opener is gone, so the late one leaves and waits for the next round.
            drop(opener);
            soon("the opener is gone", three.settled()).await;
            let late = pair(&one, layout);
            let done = polled(polls, late.enter_timeout(SECOND)).await.is_some();
            cleaned_up(&ensemble, &one, is_cut).await;
            soon(&what, other.leave()).await.unwrap();
            meet(&one, &two, layout, &what).await;
            pass(SECOND).await;
            assert_eq!(left(&ensemble, layout), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            if done {
                assert!(polls > 2, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_leave_holds_up_no_other_member() {
    for (layout, is_cut) in CASES {
        for drops_last in [false, true] {
            for polls in 0.. {
                let what = format!("{layout:?}, cut: {is_cut}, dropped after {polls} polls");
                let ensemble = Ensemble::new(3);
                let (one, two) = (ensemble.connect().await, ensemble.connect().await);
                let barrier = pair(&one, layout);
                let first = tokio::spawn(async move { barrier.enter().await });
                pass(SECOND).await;
                let opener = pair(&two, layout).enter().await.unwrap();
                let first = first.await.unwrap().unwrap();
                // The opener stays to the last, or in the recipe the one with the lowest name.
                let is_last = match layout {
                    Layout::Recipe => first.path() < opener.path(),
                    _ => false,
                };
                let (dropped, session, other) = if drops_last == is_last {
                    (first, &one, opener)
                } else {
                    (opener, &two, first)
                };
                let leave = dropped.leave_timeout(SECOND);
                let done = polled(polls, leave).await.is_some();
                cleaned_up(&ensemble, session, is_cut).await;
                soon(&what, other.leave()).await.unwrap();
                soon("it is cleaned up", session.settled()).await;
                meet(&one, &two, layout, &what).await;
                pass(SECOND).await;
                assert_eq!(left(&ensemble, layout), [""; 0], "{what}");
                assert_eq!(ensemble.watch_count(), 0, "{what}");
                if done {
                    assert!(polls > 2, "{what}");
                    break;
                }
            }
        }
    }
}
