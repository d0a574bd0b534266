//! The selector in each state, with and without failures.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use zk_leader::{
    LeaderLease, LeadershipLoss, ParticipantEnd, ParticipantState, Rejoin, ResignError,
};
use zk_sim::Ensemble;

use crate::{left, options, pass, selector, selector_with, soon, until_waiting};

/// Falls when the task that has it is dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    async fn runs_forever(self) {
        self.0.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn flag() -> (Arc<AtomicBool>, Flag) {
    let flag: Arc<AtomicBool> = Arc::default();
    (Arc::clone(&flag), Flag(flag))
}

#[tokio::test(start_paused = true)]
async fn a_task_runs_again_each_time_it_leads_until_it_breaks() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let tokens = std::cell::RefCell::new(Vec::new());
    let result = selector(&session).run(async |lease: LeaderLease| {
        assert!(lease.is_valid());
        tokens.borrow_mut().push(lease.fencing_token());
        match tokens.borrow().len() {
            3 => ControlFlow::Break("done"),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(soon("it breaks", result).await.unwrap(), "done");
    assert!(tokens.borrow().is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert!(left(&ensemble).is_empty());
    // The watch on the path is removed in the background.
    pass(Duration::from_secs(1)).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_selectors_that_requeue_take_turns() {
    let ensemble = Ensemble::new(3);
    let turns: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let mut both = Vec::new();
    for me in 0..2 {
        let session = ensemble.connect().await;
        let turns = Arc::clone(&turns);
        let running = selector(&session).run(move |_| {
            let turns = Arc::clone(&turns);
            async move {
                pass(Duration::from_millis(50)).await;
                let mut turns = turns.lock().unwrap();
                turns.push(me);
                if turns.iter().filter(|who| **who == me).count() == 4 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
        });
        both.push(tokio::spawn(running));
        pass(Duration::from_millis(10)).await;
    }
    for one in both {
        soon("it breaks", one).await.unwrap().unwrap();
    }
    assert_eq!(*turns.lock().unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn run_once_answers_what_its_task_does_and_resigns() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let once = selector(&session);
    let handle = once.handle().clone();
    let answer = soon(
        "it runs",
        once.run_once(async |lease: LeaderLease| lease.fencing_token()),
    );
    assert!(answer.await.unwrap().as_u64() > 0);
    assert!(matches!(
        handle.state(),
        ParticipantState::Ended(ParticipantEnd::Left)
    ));
    assert!(left(&ensemble).is_empty());
}

/// The task is dropped before the ensemble lets the next participant lead.
#[tokio::test(start_paused = true)]
async fn a_partitioned_leaders_task_is_dropped_before_the_next_leads() {
    for led_for in [0, 1, 3, 7, 20] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let (is_running, task) = flag();
        let first = selector(&one);
        let handle = first.handle().clone();
        let mut task = Some(task);
        let first = tokio::spawn(first.run(move |_| {
            let task = task.take().expect("it leads once");
            async move {
                task.runs_forever().await;
                ControlFlow::Break(())
            }
        }));
        soon("it leads", handle.leading()).await.unwrap();
        let second = selector(&other);
        let waiting = second.handle().clone();
        let seen = Arc::clone(&is_running);
        let second = tokio::spawn(second.run_once(async move |_| seen.load(Ordering::SeqCst)));
        until_waiting(&waiting).await;
        pass(Duration::from_secs(led_for)).await;
        assert!(is_running.load(Ordering::SeqCst));
        ensemble.session(one.id()).partition();
        let overlapped = soon("the next one leads", second).await.unwrap().unwrap();
        assert!(!overlapped, "after {led_for} s");
        let end = soon("the first one ends", first).await.unwrap();
        assert!(matches!(end, Err(ParticipantEnd::SessionLost)), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_dropped_when_the_session_expires_and_run_says_why() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let (is_running, task) = flag();
    let once = selector(&session);
    let handle = once.handle().clone();
    let once = tokio::spawn(once.run_once(async move |_| task.runs_forever().await));
    soon("it leads", handle.leading()).await.unwrap();
    pass(Duration::from_millis(100)).await;
    assert!(is_running.load(Ordering::SeqCst));
    ensemble.expire(session.id());
    let end = soon("it ends", once).await.unwrap().unwrap_err();
    assert!(matches!(end, ParticipantEnd::SessionLost), "{end:?}");
    assert!(!is_running.load(Ordering::SeqCst));
    assert!(matches!(
        handle.state(),
        ParticipantState::Ended(ParticipantEnd::SessionLost)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_resigning_leader_ends_its_task_before_the_next_one_leads() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let finished = Arc::new(AtomicBool::new(false));
    let first = selector(&one);
    let handle = first.handle().clone();
    let flag = Arc::clone(&finished);
    let first = tokio::spawn(first.run(move |lease: LeaderLease| {
        let flag = Arc::clone(&flag);
        async move {
            lease.asked_to_resign().await;
            assert!(lease.is_valid(), "it leads until it ends");
            pass(Duration::from_secs(3)).await;
            flag.store(true, Ordering::SeqCst);
            ControlFlow::Break(lease.fencing_token())
        }
    }));
    let lease = soon("it leads", handle.leading()).await.unwrap();
    let second = selector(&other);
    let waiting = second.handle().clone();
    let second = tokio::spawn(second.run_once(async move |_| finished.load(Ordering::SeqCst)));
    until_waiting(&waiting).await;
    soon("it resigns", handle.resign()).await.unwrap();
    assert_eq!(left(&ensemble).len(), 1, "its node is gone");
    assert!(soon("the next one leads", second).await.unwrap().unwrap());
    let token = soon("it breaks", first).await.unwrap().unwrap();
    assert_eq!(token, lease.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_resign_is_dropped_after_the_grace() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = options().with_grace(Duration::from_secs(2));
    let deaf = selector_with(&session, &options);
    let handle = deaf.handle().clone();
    let led = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&led);
    let running = tokio::spawn(deaf.run(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<ControlFlow<()>>()
    }));
    let lease = soon("it leads", handle.leading()).await.unwrap();
    let asked = tokio::time::Instant::now();
    soon("it resigns", handle.resign()).await.unwrap();
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(3),
        "{took:?}"
    );
    let again = soon("it leads again", handle.leading()).await.unwrap();
    assert!(again.fencing_token() > lease.fencing_token());
    soon("it leaves", handle.leave()).await;
    let end = soon("it ends", running).await.unwrap().unwrap_err();
    assert!(matches!(end, ParticipantEnd::Left), "{end:?}");
    assert_eq!(led.load(Ordering::SeqCst), 2);
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_leaves_on_request() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let ahead = selector(&one);
    let leading = ahead.handle().clone();
    let ahead = tokio::spawn(ahead.run_once(async |_| std::future::pending::<()>().await));
    soon("it leads", leading.leading()).await.unwrap();
    let waiting = selector(&other);
    let handle = waiting.handle().clone();
    let ran = Cell::new(false);
    let run = waiting.run_once(async |_| ran.set(true));
    let (end, left_it) = soon("it leaves", async {
        tokio::join!(run, async {
            until_waiting(&handle).await;
            assert!(matches!(
                handle.resign().await,
                Err(ResignError::NotLeading)
            ));
            handle.leave().await
        })
    })
    .await;
    assert!(matches!(end, Err(ParticipantEnd::Left)), "{end:?}");
    assert!(matches!(left_it, ParticipantEnd::Left));
    assert!(!ran.get());
    assert_eq!(left(&ensemble).len(), 1);
    ahead.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_to_rejoin_ends_with_the_leadership() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let never = selector_with(&session, &options().with_rejoin(Rejoin::Never));
    let handle = never.handle().clone();
    let run = tokio::spawn(never.run(|_| std::future::pending::<ControlFlow<()>>()));
    let lease = soon("it leads", handle.leading()).await.unwrap();
    admin.delete(lease.path()).await.unwrap();
    let end = soon("it ends", run).await.unwrap().unwrap_err();
    assert!(
        matches!(
            end,
            ParticipantEnd::LeadershipLost(LeadershipLoss::NodeDeleted)
        ),
        "{end:?}"
    );
}

/// A late result is discarded: another participant may have led already.
#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_that_had_lost_its_leadership_is_dropped() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let end = selector(&session).run_once(async |lease: LeaderLease| {
        // So soon that the node is not watched yet.
        admin.delete(lease.path()).await.unwrap();
        "a result"
    });
    let end = soon("it ends", end).await.unwrap_err();
    assert!(
        matches!(
            end,
            ParticipantEnd::LeadershipLost(LeadershipLoss::NodeDeleted)
        ),
        "{end:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_is_never_run_is_seen_to_have_left() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let selector = selector(&session);
    let handle = selector.handle().clone();
    assert!(matches!(
        handle.state(),
        ParticipantState::Joining { error: None }
    ));
    drop(selector);
    assert!(matches!(
        soon("it ended", handle.ended()).await,
        ParticipantEnd::Left
    ));
    assert!(matches!(handle.leading().await, Err(ParticipantEnd::Left)));
    assert_eq!(ensemble.arrived(zk_sim::matching::creates("/**")), 0);
}

/// Counts the nodes of the election when the task that has it is dropped.
struct Counts {
    ensemble: Ensemble,
    nodes: Arc<AtomicUsize>,
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.nodes
            .store(left(&self.ensemble).len(), Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_leader_goes_only_after_its_task() {
    for how in ["asked", "doubted", "dropped", "done"] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let nodes = Arc::new(AtomicUsize::new(usize::MAX));
        let counts = Counts {
            ensemble: ensemble.clone(),
            nodes: Arc::clone(&nodes),
        };
        let options = options().with_grace(Duration::from_secs(1));
        let leader = selector_with(&session, &options);
        let handle = leader.handle().clone();
        let running = tokio::spawn(leader.run_once(async move |_| {
            let _counts = counts;
            pass(Duration::from_secs(if how == "done" { 1 } else { 1000 })).await;
        }));
        soon("it leads", handle.leading()).await.unwrap();
        match how {
            "asked" => soon("it resigns", handle.resign()).await.unwrap(),
            "doubted" => {
                ensemble.session(session.id()).partition();
                let lease = handle.lease().unwrap();
                assert_eq!(
                    soon("the loss is reported", lease.lost()).await,
                    LeadershipLoss::SessionLeaseExpired
                );
                assert!(ensemble.session(session.id()).is_alive());
                ensemble.session(session.id()).heal();
            }
            "dropped" => running.abort(),
            _ => {}
        }
        let end = soon("it ends", handle.ended()).await;
        assert_eq!(nodes.load(Ordering::SeqCst), 1, "{how}: {end:?}");
        soon("its node goes", session.settled()).await;
        assert!(left(&ensemble).is_empty(), "{how}");
    }
}
