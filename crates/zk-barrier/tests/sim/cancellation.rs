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

/// What a run has: a future is dropped after so many polls, and the connection of its session may break then.
struct Case {
    layout: Layout,
    is_cut: bool,
    polls: usize,
    what: String,
    ensemble: Ensemble,
    one: Session,
    two: Session,
}

impl Case {
    /// Cuts the connection if it should, and waits until what was dropped is cleaned up.
    async fn cleaned_up(&self, session: &Session) {
        if self.is_cut {
            self.ensemble.session(session.id()).cut();
        }
        soon("it is cleaned up", session.settled()).await;
        pass(SECOND).await;
    }
}

/// Drops a future after each number of polls, until `run` reports that it was ready, which takes more than `least`.
/// After each run both sessions meet, and nothing is left.
async fn at_each_await(least: usize, run: impl AsyncFn(&Case) -> bool) {
    for (layout, is_cut) in CASES {
        for polls in 0.. {
            let what = format!("{layout:?}, cut: {is_cut}, dropped after {polls} polls");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let case = Case {
                layout,
                is_cut,
                polls,
                what,
                ensemble,
                one,
                two,
            };
            let is_ready = run(&case).await;
            let what = &case.what;
            meet(&case.one, &case.two, layout, what).await;
            pass(SECOND).await;
            assert_eq!(left(&case.ensemble, layout), [""; 0], "{what}");
            assert_eq!(case.ensemble.watch_count(), 0, "{what}");
            if is_ready {
                assert!(polls > least, "{what}");
                break;
            }
        }
    }
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
    at_each_await(4, async |case| {
        let barrier = pair(&case.one, case.layout);
        let enter = barrier.enter_timeout(SECOND);
        let is_ready = polled(case.polls, enter).await.is_some();
        case.cleaned_up(&case.one).await;
        pass(SECOND).await;
        assert_eq!(left(&case.ensemble, case.layout), [""; 0], "{}", case.what);
        let alone = pair(&case.two, case.layout).enter_timeout(SECOND).await;
        assert!(alone.is_err(), "{}: passed alone", case.what);
        is_ready
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_enter_that_completes_a_round_holds_up_no_other_member() {
    at_each_await(2, async |case| {
        let three = case.ensemble.connect().await;
        let other = pair(&case.two, case.layout);
        let other = tokio::spawn(async move { other.enter().await });
        pass(SECOND).await;
        let barrier = pair(&case.one, case.layout);
        let dropped = polled(case.polls, barrier.enter()).await;
        let is_ready = dropped.is_some();
        drop(dropped);
        case.cleaned_up(&case.one).await;
        if !other.is_finished() {
            // The round was not opened: one more member completes it.
            let last = pair(&three, case.layout);
            drop(soon(&case.what, last.enter()).await.unwrap());
        }
        let other = soon(&case.what, other).await.unwrap().unwrap();
        soon(&case.what, other.leave()).await.unwrap();
        is_ready
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_late_enter_holds_up_no_other_member() {
    at_each_await(2, async |case| {
        let three = case.ensemble.connect().await;
        let other = pair(&case.two, case.layout);
        let other = tokio::spawn(async move { other.enter().await });
        pass(SECOND).await;
        let opener = pair(&three, case.layout);
        let opener = soon(&case.what, opener.enter()).await.unwrap();
        let other = soon(&case.what, other).await.unwrap().unwrap();
        // The opener is gone, so the late one leaves and waits for the next round.
        drop(opener);
        soon("the opener is gone", three.settled()).await;
        let late = pair(&case.one, case.layout);
        let enter = late.enter_timeout(SECOND);
        let is_ready = polled(case.polls, enter).await.is_some();
        case.cleaned_up(&case.one).await;
        soon(&case.what, other.leave()).await.unwrap();
        is_ready
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_leave_holds_up_no_other_member() {
    for drops_last in [false, true] {
        at_each_await(2, async |case| {
            let barrier = pair(&case.one, case.layout);
            let first = tokio::spawn(async move { barrier.enter().await });
            pass(SECOND).await;
            let opener = pair(&case.two, case.layout).enter().await.unwrap();
            let first = first.await.unwrap().unwrap();
            // The opener stays to the last, or in the recipe the one with the lowest name.
            let is_last = match case.layout {
                Layout::Recipe => first.path() < opener.path(),
                _ => false,
            };
            let (dropped, session, other) = if drops_last == is_last {
                (first, &case.one, opener)
            } else {
                (opener, &case.two, first)
            };
            let leave = dropped.leave_timeout(SECOND);
            let is_ready = polled(case.polls, leave).await.is_some();
            case.cleaned_up(session).await;
            soon(&case.what, other.leave()).await.unwrap();
            soon("it is cleaned up", session.settled()).await;
            is_ready
        })
        .await;
    }
}
