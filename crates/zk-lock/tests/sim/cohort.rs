//! Tasks of one process that share a place in the queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_core::Session;
use zk_lock::{
    AcquireError, CohortLimits, CohortLock, CohortToken, LockLoss, LockOptions, ReleaseError,
};
use zk_sim::{Ensemble, matching};

use crate::chaos::Trial;
use crate::{OURS, PATH, left, lock, pass, polled, soon};

const LIMITS: (u64, Duration) = (50, Duration::from_millis(40));

fn cohort(session: &Session, limits: (u64, Duration)) -> CohortLock {
    let limits = CohortLimits::default()
        .with_handovers(limits.0)
        .with_time(limits.1);
    CohortLock::with_options(session, PATH, LockOptions::default(), limits).expect("a good path")
}

/// Tasks that acquire, hold and release until they are aborted, and their grants.
struct Crowd {
    tasks: Vec<JoinHandle<()>>,
    tokens: Arc<Mutex<Vec<(usize, CohortToken)>>>,
}

impl Crowd {
    fn of(lock: &CohortLock, tasks: usize, hold: Duration) -> Self {
        let tokens: Arc<Mutex<Vec<_>>> = Arc::default();
        let tasks = (0..tasks)
            .map(|me| {
                let (lock, tokens) = (lock.clone(), Arc::clone(&tokens));
                tokio::spawn(async move {
                    loop {
                        let guard = lock.acquire().await.unwrap();
                        assert!(guard.is_valid());
                        tokens.lock().unwrap().push((me, guard.fencing_token()));
                        pass(hold).await;
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        Self { tasks, tokens }
    }

    fn tokens(&self) -> Vec<(usize, CohortToken)> {
        self.tokens.lock().unwrap().clone()
    }

    async fn end(self) -> Vec<(usize, CohortToken)> {
        for task in &self.tasks {
            task.abort();
        }
        for task in self.tasks {
            drop(task.await);
        }
        let tokens = self.tokens.lock().unwrap().clone();
        assert!(tokens.is_sorted_by(|(_, one), (_, other)| one < other));
        tokens
    }
}

async fn nothing_is_left(ensemble: &Ensemble) {
    pass(Duration::from_secs(3)).await;
    assert_eq!(left(ensemble), [""; 0]);
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cohort_alone_acquires_once_for_any_number_of_handovers() {
    let ensemble = Ensemble::new(3);
    let lock = cohort(&ensemble.connect().await, LIMITS);
    let crowd = Crowd::of(&lock, 20, Duration::from_millis(1));
    pass(Duration::from_millis(100)).await;
    let requests = ensemble.arrived(matching::exists(OURS))
        + ensemble.arrived(matching::lists(PATH))
        + ensemble.arrived(matching::writes());
    pass(Duration::from_secs(1)).await;
    let later = ensemble.arrived(matching::exists(OURS))
        + ensemble.arrived(matching::lists(PATH))
        + ensemble.arrived(matching::writes());
    let (tokens, nodes) = (crowd.tokens(), left(&ensemble).len());
    // Besides the proofs of the session no request is sent, even far beyond the limits.
    assert!(later - requests <= 2, "{}", later - requests);
    assert_eq!(nodes, 1);
    assert!(tokens.len() > 900, "{}", tokens.len());
    let first = tokens[0].1.place_token();
    assert!(tokens.iter().all(|(_, token)| token.place_token() == first));
    let turns = tokens.iter().map(|(_, token)| token.turn());
    assert!(turns.eq(0..tokens.len() as u64));
    crowd.end().await;
    nothing_is_left(&ensemble).await;
}

#[tokio::test(start_paused = true)]
async fn among_the_tasks_of_a_cohort_first_come_is_first_served() {
    let ensemble = Ensemble::new(3);
    let lock = cohort(&ensemble.connect().await, LIMITS);
    let crowd = Crowd::of(&lock, 7, Duration::from_millis(1));
    pass(Duration::from_secs(2)).await;
    let order: Vec<usize> = crowd.end().await.into_iter().map(|(me, _)| me).collect();
    assert!(order.len() > 500, "{}", order.len());
    for (at, me) in order.iter().enumerate() {
        assert_eq!(*me, at % 7, "turn {at}");
    }
}

/// The limits: another contender gets the lock after that time or that many handovers, plus one more task's work.
#[tokio::test(start_paused = true)]
async fn another_process_waits_no_longer_than_the_bound() {
    let millis = Duration::from_millis;
    for (limits, hold, longest) in [
        ((u64::MAX, millis(40)), millis(1), millis(41)),
        ((u64::MAX, millis(40)), millis(15), millis(55)),
        ((50, Duration::MAX), millis(1), millis(51)),
        ((0, Duration::MAX), millis(5), millis(5)),
        ((9, Duration::ZERO), millis(5), millis(5)),
    ] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let crowd = Crowd::of(&cohort(&one, limits), 20, hold);
        pass(millis(500)).await;
        let turns = || crowd.tokens().len();
        assert!(turns() > 20);
        for wait in 0..10 {
            let what = format!("{limits:?}, {hold:?}, {wait}");
            let (started, before) = (Instant::now(), turns());
            let guard = soon(&what, lock(&other).acquire()).await.unwrap();
            // A few round trips are needed to join the queue and to be notified.
            let (waited, passed) = (started.elapsed(), (turns() - before) as u64);
            assert!(waited <= longest + millis(10), "{what}: {waited:?}");
            let most = limits.0.saturating_add(12);
            assert!(passed <= most, "{what}: {passed} hand-overs");
            pass(millis(3 * wait)).await;
            guard.release().await.unwrap();
            pass(millis(7 * wait)).await;
        }
        // The cohort does not starve either.
        let places = crowd.end().await;
        let mut nodes: Vec<_> = places
            .iter()
            .map(|(_, token)| token.place_token())
            .collect();
        nodes.dedup();
        assert!(nodes.len() >= 10, "{}", nodes.len());
        nothing_is_left(&ensemble).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_cohorts_take_turns() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let crowds = [&one, &other]
        .map(|session| Crowd::of(&cohort(session, LIMITS), 10, Duration::from_millis(1)));
    pass(Duration::from_secs(5)).await;
    let mut all = Vec::new();
    for (at, crowd) in crowds.into_iter().enumerate() {
        let tokens = crowd.end().await;
        assert!(tokens.len() > 1000, "{}", tokens.len());
        all.extend(
            tokens
                .into_iter()
                .map(|(_, token)| (token.place_token(), at)),
        );
    }
    all.sort();
    all.dedup();
    assert!(
        all.windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1)
    );
    assert!(all.len() > 80, "{}", all.len());
    nothing_is_left(&ensemble).await;
}

#[tokio::test(start_paused = true)]
async fn the_bound_holds_while_it_is_not_known_who_else_waits() {
    for looks in [0, 1] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        drop(lock(&other).acquire().await.unwrap());
        other.settled().await;
        let lists = ensemble.on(matching::lists(PATH)).session(one.id());
        // The first list is that of the queue, the second one that of the others.
        let held = lists.from(2 + looks).hold();
        let crowd = Crowd::of(&cohort(&one, LIMITS), 20, Duration::from_millis(1));
        pass(Duration::from_millis(30)).await;
        let guard = soon("it is granted", lock(&other).acquire()).await.unwrap();
        let turns = crowd.tokens().len();
        assert!(turns <= 100, "{turns}");
        held.release();
        guard.release().await.unwrap();
        crowd.end().await;
        nothing_is_left(&ensemble).await;
    }
}

/// A contender that tried and left is no reason to give the lock back.
#[tokio::test(start_paused = true)]
async fn a_contender_that_left_does_not_end_the_grant() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let crowd = Crowd::of(&cohort(&one, LIMITS), 5, Duration::from_millis(1));
    for _ in 0..20 {
        pass(Duration::from_millis(50)).await;
        assert!(lock(&other).try_acquire().await.unwrap().is_none());
    }
    pass(Duration::from_millis(500)).await;
    let tokens = crowd.end().await;
    let first = tokens[0].1.place_token();
    assert!(tokens.len() > 500, "{}", tokens.len());
    assert!(tokens.iter().all(|(_, token)| token.place_token() == first));
}

#[tokio::test(start_paused = true)]
async fn waiters_may_go_in_any_order_and_at_any_await() {
    for polls in 0..12 {
        for gone in 0..1_u32 << 4 {
            let what = format!("after {polls} polls, {gone:b}");
            let ensemble = Ensemble::new(3);
            let lock = cohort(&ensemble.connect().await, LIMITS);
            let tasks: Vec<_> = (0..4)
                .map(|me| {
                    let lock = lock.clone();
                    tokio::spawn(async move {
                        if gone & (1 << me) != 0 {
                            let act = async {
                                let guard = lock.acquire().await.unwrap();
                                pass(Duration::from_millis(2)).await;
                                guard.release().await.unwrap();
                            };
                            polled(polls, act).await;
                        } else {
                            let guard = lock.acquire().await.unwrap();
                            pass(Duration::from_millis(5)).await;
                            guard.release().await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                soon(&what, task).await.unwrap();
            }
            pass(Duration::from_secs(3)).await;
            assert_eq!(left(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            // The handle is still usable.
            drop(soon(&what, lock.acquire()).await.unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_waiter_gives_up_the_place_in_the_queue() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = lock(&other).acquire().await.unwrap();
    let lock = cohort(&one, LIMITS);
    let waiting: Vec<_> = (0..3)
        .map(|at| {
            let lock = lock.clone();
            let limit = Duration::from_millis(100 * (at + 1));
            tokio::spawn(async move { lock.acquire_timeout(limit).await.unwrap_err().to_string() })
        })
        .collect();
    pass(Duration::from_millis(250)).await;
    assert_eq!(left(&ensemble).len(), 2);
    pass(Duration::from_millis(150)).await;
    assert_eq!(left(&ensemble).len(), 1);
    for (at, waiter) in waiting.into_iter().enumerate() {
        let error = waiter.await.unwrap();
        let expected = format!("{PATH} not acquired within {}00ms: 1 ahead", at + 1);
        assert_eq!(error, expected);
    }
    held.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_loss_notifies_the_holder_and_all_waiters() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = cohort(&session, LIMITS);
    let held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    pass(Duration::from_millis(100)).await;
    ensemble.expire(session.id());
    assert_eq!(
        soon("the holder is notified", held.lost()).await,
        LockLoss::SessionLost
    );
    for waiter in waiting {
        // Although the holder still has its guard.
        let error = soon("the waiter is notified", waiter)
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            matches!(error, AcquireError::SessionLost { .. }),
            "{error:?}"
        );
    }
    let late = soon("the later one is notified", lock.acquire())
        .await
        .unwrap_err();
    assert!(matches!(late, AcquireError::SessionLost { .. }), "{late:?}");
    let error = held.release().await.unwrap_err();
    assert!(
        matches!(
            error,
            ReleaseError::Lost {
                loss: LockLoss::SessionLost,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(lock.try_acquire().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_or_lost_lock_is_not_handed_over() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let lock = cohort(&session, LIMITS);
    let held = lock.acquire().await.unwrap();
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    pass(Duration::from_millis(100)).await;
    admin.delete(held.path()).await.unwrap();
    assert_eq!(
        soon("the holder is notified", held.lost()).await,
        LockLoss::NodeDeleted
    );
    assert!(!held.is_valid());
    let token = held.fencing_token();
    assert!(held.release().await.is_err());
    let held = soon("the next one gets a lock of its own", waiting)
        .await
        .unwrap();
    assert!(held.fencing_token().place_token() > token.place_token() && held.is_valid());

    // Cut off until the proof has run out.
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    ensemble.session(session.id()).partition();
    assert_eq!(
        soon("the holder is notified", held.lost()).await,
        LockLoss::SessionLeaseExpired
    );
    drop(held);
    pass(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    ensemble.session(session.id()).heal();
    match soon("the waiter ends", waiting).await.unwrap() {
        Ok(guard) => assert!(guard.is_valid()),
        Err(error) => assert!(
            matches!(error, AcquireError::SessionLost { .. }),
            "{error:?}"
        ),
    }
    nothing_is_left(&ensemble).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_panics_or_forgets_to_release_hands_over() {
    let ensemble = Ensemble::new(3);
    let lock = cohort(&ensemble.connect().await, LIMITS);
    let mut tasks = Vec::new();
    for panics in [true, false, true] {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let lost = guard.lost();
            pass(Duration::from_millis(10)).await;
            assert!(!panics, "the holder's own trouble");
            drop(guard);
            assert_eq!(lost.await, LockLoss::Released);
        }));
    }
    pass(Duration::from_millis(5)).await;
    let guard = soon("the last one gets it", lock.acquire()).await.unwrap();
    assert_eq!(guard.fencing_token().turn(), 3);
    for (at, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.is_err(), at != 1);
    }
    guard.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

#[tokio::test(start_paused = true)]
async fn try_acquire_takes_only_what_is_free() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let lock = cohort(&one, LIMITS);
    let held = lock.try_acquire().await.unwrap().expect("it is free");
    assert!(lock.clone().try_acquire().await.unwrap().is_none());
    let stranger = cohort(&other, LIMITS);
    assert!(stranger.try_acquire().await.unwrap().is_none());
    let waiter = stranger.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    pass(Duration::from_millis(100)).await;
    assert!(stranger.try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    let guard = soon("the waiter gets it", waiting).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    drop(guard);
    other.settled().await;
    drop(lock.try_acquire().await.unwrap().expect("it is free again"));
    nothing_is_left(&ensemble).await;
}

/// Two tasks share each place in the queue.
#[test]
fn under_random_faults_no_two_cohort_guards_are_valid() {
    let trial = Trial {
        seeds: 600,
        sessions: 3,
        rounds: 12,
        lasting: Duration::from_secs(3),
    };
    let tasks = |session: &Session| {
        let lock = cohort(session, (4, Duration::from_millis(60)));
        [lock.clone(), lock]
    };
    trial.run(tasks, &[("grants", 20)]);
}
