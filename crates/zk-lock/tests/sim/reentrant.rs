//! The reentrant lock.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zk_core::Session;
use zk_lock::{AcquireError, FencingToken, LockLoss, ReentrantGuard, ReentrantLock, ReleaseError};
use zk_sim::{Ensemble, matching};

use crate::cancellation::{Other, all_dropped_everywhere};
use crate::chaos::{Attempt, Held, Judged, Record, Trial};
use crate::{OURS, PATH, left, lock, pass, polled, soon};

fn owner(session: &Session) -> ReentrantLock {
    ReentrantLock::new(session, PATH).expect("a good path")
}

/// An acquire that is given time to join the queue.
async fn waiting(
    lock: &ReentrantLock,
) -> tokio::task::JoinHandle<Result<ReentrantGuard, AcquireError>> {
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pass(Duration::from_millis(100)).await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn an_owner_acquires_again_at_once_and_the_last_guard_releases() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let mine = owner(&one);
    let first = mine.acquire().await.unwrap();
    let requests = ensemble.requests().len();
    let again = mine.clone();
    let second = soon("it is ours", again.acquire()).await.unwrap();
    let third = mine.try_acquire().await.unwrap().expect("it is ours");
    let fourth = mine.acquire_timeout(Duration::ZERO).await.unwrap();
    assert_eq!(ensemble.requests().len(), requests, "it sent a request");
    assert_eq!(left(&ensemble).len(), 1);
    for guard in [&second, &third, &fourth] {
        assert_eq!(guard.fencing_token(), first.fencing_token());
        assert_eq!(guard.path(), first.path());
        assert!(guard.is_valid());
    }
    // Another owner of the same session is another contender.
    let theirs = [owner(&one), owner(&other)];
    for lock in &theirs {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    let waiter = waiting(&theirs[0]).await;
    // Neither the first guard nor the newest releases it, but the last one left.
    let lost = third.lost();
    first.release().await.unwrap();
    drop(fourth);
    third.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(second.is_valid() && !waiter.is_finished());
    second.release().await.unwrap();
    assert_eq!(lost.await, LockLoss::Released);
    let next = soon("it is free", waiter).await.unwrap().unwrap();
    assert!(mine.try_acquire().await.unwrap().is_none());
    drop(next);
    drop(soon("it is free", mine.acquire()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn concurrent_clones_share_a_place_and_one_may_give_up() {
    for gives_up in 0..2 {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = lock(&other).acquire().await.unwrap();
        let mine = owner(&one);
        let mut tasks = vec![waiting(&mine).await, waiting(&mine).await];
        assert_eq!(left(&ensemble).len(), 2, "the holder and one of ours");
        let tried = soon("a try does not wait", mine.try_acquire()).await;
        assert!(tried.unwrap().is_none());
        let place = left(&ensemble);
        tasks.remove(gives_up).abort();
        pass(Duration::from_secs(1)).await;
        assert_eq!(left(&ensemble), place, "the place is kept");
        let third = waiting(&mine).await;
        let limit = Duration::from_millis(100);
        let error = mine.acquire_timeout(limit).await.unwrap_err();
        assert!(error.to_string().contains(": held by _c_"), "{error}");
        assert_eq!(left(&ensemble), place, "the place is kept");
        held.release().await.unwrap();
        let guard = soon("one continues", tasks.remove(0))
            .await
            .unwrap()
            .unwrap();
        let nested = soon("so does the other", third).await.unwrap().unwrap();
        assert_eq!(guard.fencing_token(), nested.fencing_token());
        assert!(place.contains(&guard.path().name().unwrap().to_owned()));
        guard.release().await.unwrap();
        assert!(nested.is_valid());
        nested.release().await.unwrap();
        assert!(left(&ensemble).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_reusable_after_all_clones_give_up() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = lock(&other).acquire().await.unwrap();
    let mine = owner(&one);
    for _ in 0..3 {
        let (a, b) = (waiting(&mine).await, waiting(&mine).await);
        a.abort();
        b.abort();
        pass(Duration::from_millis(100)).await;
        soon("they are deleted", one.settled()).await;
        assert_eq!(left(&ensemble), [held.path().name().unwrap()]);
        assert!(mine.try_acquire().await.unwrap().is_none());
    }
    held.release().await.unwrap();
    let guard = soon("it is free", mine.acquire()).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_harms_no_clone() {
    let a_while = Duration::from_millis(200);
    for other in [Other::Nobody, Other::Holds(a_while)] {
        all_dropped_everywhere(other, async |session| {
            let mine = owner(&session);
            let outer = mine.acquire().await.unwrap();
            let inner = mine.acquire().await.unwrap();
            outer.release().await.unwrap();
            inner.release().await.unwrap();
        })
        .await;
        all_dropped_everywhere(other, async |session| {
            let mine = owner(&session);
            drop(mine.try_acquire().await.unwrap());
            drop(mine.acquire_timeout(a_while / 2).await);
        })
        .await;
    }
    for polls in 0..8 {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = lock(&other).acquire().await.unwrap();
        let mine = owner(&one);
        let dropped = mine.clone();
        // The first poll of the first caller starts the attempt.
        let dropping = tokio::spawn(async move { polled(polls, dropped.acquire()).await });
        let task = waiting(&mine).await;
        held.release().await.unwrap();
        let guard = soon("its clone continues", task).await.unwrap().unwrap();
        drop(dropping.await.unwrap());
        assert!(guard.is_valid(), "{polls} polls");
        guard.release().await.unwrap();
        soon("nothing is left to do", one.settled()).await;
        assert!(left(&ensemble).is_empty(), "{polls} polls");
    }
}

/// An acquire during a `try_acquire` of its clone does not queue behind it.
#[tokio::test(start_paused = true)]
async fn an_acquire_during_a_try_shares_it_or_continues_alone() {
    for is_free in [true, false] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = lock(&other).acquire().await.unwrap();
        if is_free {
            held.release().await.unwrap();
        } else {
            tokio::spawn(async move {
                pass(Duration::from_millis(500)).await;
                held.release().await.unwrap();
            });
        }
        let mine = owner(&one);
        let (tried, acquired) = soon("both end", async {
            tokio::join!(mine.try_acquire(), mine.acquire())
        })
        .await;
        let (tried, acquired) = (tried.unwrap(), acquired.unwrap());
        assert_eq!(tried.is_some(), is_free);
        if let Some(tried) = tried {
            assert_eq!(tried.path(), acquired.path());
        }
        assert_eq!(left(&ensemble).len(), 1);
    }
}

/// The last guard is being released while a clone acquires: it gets a holding of its own.
#[tokio::test(start_paused = true)]
async fn an_acquire_during_the_release_gets_a_new_holding() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let mine = owner(&session);
    let guard = mine.acquire().await.unwrap();
    let token = guard.fencing_token();
    let (released, acquired) = soon("both end", async {
        tokio::join!(guard.release(), mine.acquire())
    })
    .await;
    released.unwrap();
    let acquired = acquired.unwrap();
    assert!(acquired.is_valid() && acquired.fencing_token() > token);
    assert_eq!(left(&ensemble), [acquired.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn all_guards_see_a_loss_and_the_owner_may_acquire_again() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let mine = owner(&one);
    let (outer, inner) = (mine.acquire().await.unwrap(), mine.acquire().await.unwrap());
    other.delete(outer.path()).await.unwrap();
    for guard in [&outer, &inner] {
        assert_eq!(
            soon("it is notified", guard.lost()).await,
            LockLoss::NodeDeleted
        );
        assert!(!guard.is_valid());
    }
    let anew = soon("it is free", mine.acquire()).await.unwrap();
    assert!(anew.is_valid() && anew.fencing_token() > outer.fencing_token());
    for guard in [inner, outer] {
        let error = guard.release().await.unwrap_err();
        assert!(
            matches!(
                error,
                ReleaseError::Lost {
                    loss: LockLoss::NodeDeleted,
                    ..
                }
            ),
            "{error:?}"
        );
    }
    assert!(anew.is_valid());
    let again = mine.acquire().await.unwrap();
    assert_eq!(again.path(), anew.path());

    ensemble.expire(one.id());
    for guard in [&anew, &again] {
        assert_eq!(
            soon("it is notified", guard.lost()).await,
            LockLoss::SessionLost
        );
    }
    let error = mine.acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
    let error = again.release().await.unwrap_err();
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
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_all_who_joined_and_no_later_caller() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    lock(&session)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let creates = || ensemble.arrived(matching::creates(OURS));
    let before = creates();
    let quick = session.with_operation_timeout(Duration::from_millis(300));
    let mine = owner(&quick);
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    // One that joins and is then not polled for a while.
    let mut late = Box::pin(mine.acquire());
    assert!(futures_util::poll!(&mut late).is_pending());
    let (one, other) = tokio::join!(mine.acquire(), mine.acquire());
    for failed in [one, other] {
        assert!(matches!(failed, Err(AcquireError::Failed(_))), "{failed:?}");
    }
    pass(Duration::from_secs(2)).await;
    let guard = mine.acquire().await.unwrap();
    let failed = late.await;
    assert!(matches!(failed, Err(AcquireError::Failed(_))), "{failed:?}");
    soon("nothing is left to do", session.settled()).await;
    assert_eq!(left(&ensemble), [guard.path().name().unwrap()]);
    assert_eq!(creates() - before, 1);
}

/// An owner, whose clones do not exclude each other.
struct Owner(ReentrantLock);

impl Judged for Owner {
    type Guard = ReentrantGuard;
    /// The highest token that a fenced resource has seen, and whose it is.
    type Seen = Option<(FencingToken, usize)>;

    const NESTS: bool = true;

    async fn attempt(&self, random: &mut Rng) -> Result<Option<ReentrantGuard>, AcquireError> {
        Attempt::draw(random).at(&self.0).await
    }

    fn check(
        record: &mut Record<Self::Seen>,
        granted: &Held<ReentrantGuard>,
        valid: &[Arc<Held<ReentrantGuard>>],
    ) {
        let token = granted.guard.fencing_token();
        for held in valid {
            if held.session == granted.session {
                assert_eq!(held.guard.fencing_token(), token);
            } else {
                assert!(!granted.guard.is_valid(), "{held:?} and {granted:?}");
            }
        }
        let is_nested = |held: &Arc<Held<_>>| held.session == granted.session;
        record.count("nested", usize::from(valid.iter().any(is_nested)));
        let last = Some((token, granted.session));
        if granted.guard.is_valid() && last != record.seen {
            let is_higher = record.seen.is_none_or(|(highest, _)| token > highest);
            assert!(is_higher, "{:?}, then {granted:?}", record.seen);
            record.seen = last;
        }
    }
}

#[test]
fn under_random_faults_no_two_owners_have_valid_guards() {
    let trial = Trial {
        seeds: 250,
        sessions: 3,
        lasting: Duration::from_secs(4),
        ..Trial::default()
    };
    let owner_in_three_tasks = |session: &Session| {
        let mine = owner(session);
        [mine.clone(), mine.clone(), mine].map(Owner)
    };
    trial.run(owner_in_three_tasks, &[("grants", 20), ("nested", 5)]);
}
