//! Each kind of lock, its events and its removal from outside, on one real server that reaps empty parents at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zk_core::Session;
use zk_fault_proxy::{Clients, Close, Match, Route};
use zk_harness::{DataStore, Ensemble};
use zk_lock::{
    AcquireError, FairLock, Inspector, LockEvent, LockEvents, LockLoss, MultiLock, RaceLock, Reap,
    ReentrantLock, ReleaseError, Removal,
};

use crate::{connect, eventually, names, soon, until_enlisted};

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_lock_works_while_its_parents_vanish() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .container_check_interval(Duration::from_millis(50))
        .proxied(true)
        .start();
    let ensemble = ensemble.await.expect("a server starts");
    tokio::join!(
        reentrant_lock_is_its_owners_until_the_last_release(&ensemble),
        reaping_removes_old_contenders_and_grants_no_lock(&ensemble),
        events_tell_each_grant_release_and_loss(&ensemble),
        a_race_lock_is_one_node_that_excludes_all_others(&ensemble),
        multi_lock_takes_all_or_nothing(&ensemble),
        acquire_outlasts_parents_that_vanish_before_its_node(&ensemble),
        idle_locks_lose_their_parents_and_are_acquired_again(&ensemble),
    );
    ensemble.down().await.expect("the server goes down");
}

async fn reentrant_lock_is_its_owners_until_the_last_release(ensemble: &Ensemble) {
    const PATH: &str = "/reentrant/a";
    let (one, other) = (connect(ensemble).await, connect(ensemble).await);
    let owner = |session| ReentrantLock::new(session, PATH).unwrap();
    let mine = owner(&one);
    let first = mine.acquire().await.unwrap();
    let second = mine.clone().acquire().await.unwrap();
    let third = mine.try_acquire().await.unwrap().expect("it is ours");
    for guard in [&second, &third] {
        assert_eq!(guard.fencing_token(), first.fencing_token());
        assert_eq!(guard.path(), first.path());
    }
    assert_eq!(names(&other, PATH).await.len(), 1, "one node is enough");
    // Another owner of the same session is another contender.
    for theirs in [owner(&one), owner(&other)] {
        assert!(theirs.try_acquire().await.unwrap().is_none());
    }
    let theirs = owner(&other);
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    until_enlisted(&one, PATH, 2).await;
    // Neither the first guard nor the newest releases it, but the last one left.
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(names(&other, PATH).await.len(), 2);
    assert!(second.is_valid() && !waiting.is_finished());
    second.release().await.unwrap();
    let next = soon("the waiter is granted", waiting).await;
    let next = next.unwrap().unwrap();
    assert!(mine.try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();

    let guards = (mine.acquire().await.unwrap(), mine.acquire().await.unwrap());
    other.delete(guards.0.path()).await.unwrap();
    for guard in [&guards.0, &guards.1] {
        let loss = soon("both guards learn of the loss", guard.lost()).await;
        assert_eq!(loss, LockLoss::NodeDeleted);
    }
    let anew = soon("the lock is free", mine.acquire()).await.unwrap();
    assert!(anew.fencing_token() > guards.0.fencing_token());

    end(ensemble, &one).await;
    assert_eq!(soon("the loss", anew.lost()).await, LockLoss::SessionLost);
    let error = mine.acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
    let next = soon("the next owner", owner(&other).acquire()).await;
    next.unwrap().release().await.unwrap();
}

async fn reaping_removes_old_contenders_and_grants_no_lock(ensemble: &Ensemble) {
    const PATH: &str = "/reaped/a";
    let (session, admin) = (connect(ensemble).await, connect(ensemble).await);
    let inspector = Inspector::new(&admin, PATH).unwrap();
    let contender = async |name: &str| {
        let path = format!("{PATH}/{name}");
        let created = session.create(path, "").ephemeral().parents().await;
        created.expect("the name is free");
    };
    let seen = |found: &[zk_lock::Contender]| -> Vec<String> {
        found.iter().map(|one| one.name().to_owned()).collect()
    };
    let age = Duration::from_secs(1);
    let old = ["_c_a-lock-0000000001", "x-0a-0000000002"];
    for name in [old[0], old[1], "0", "config"] {
        contender(name).await;
    }
    eventually("two are old", async || {
        inspector
            .reapable(Reap::OlderThan(age))
            .await
            .unwrap()
            .len()
            == 2
    })
    .await;
    let young = loop {
        let began = Instant::now();
        contender("_c_b-lock-0000000003").await;
        let reapable = inspector.reapable(Reap::OlderThan(age)).await.unwrap();
        if seen(&reapable) == old {
            break "_c_b-lock-0000000003";
        }
        // On a busy machine it may be old by the time it is read.
        assert!(began.elapsed() > age / 2, "{reapable:?}");
        let path = format!("{PATH}/_c_b-lock-0000000003");
        session.delete(path).await.unwrap();
    };
    // A node that replaced the one that was read stays.
    let all = inspector.reapable(Reap::All).await.unwrap();
    let path = format!("{PATH}/{young}");
    session.delete(&path).await.unwrap();
    contender(young).await;
    assert_eq!(inspector.remove(&all[2]).await.unwrap(), Removal::Gone);
    assert!(admin.exists(&path).await.unwrap().is_some());

    // The reply to the first deletion is lost; contenders removed by then are reported.
    let proxy = ensemble.proxy().unwrap();
    let deletes = Match::writes().session(admin.id().as_i64());
    let lost = proxy.on(deletes).once().cut_on_reply();
    let reaped = inspector.reap(Reap::All).await.unwrap();
    assert_eq!(lost.count(), 1);
    assert_eq!(
        seen(&reaped),
        [young, old[1], old[0]],
        "the last comes first"
    );
    let left: BTreeSet<_> = names(&admin, PATH).await.into_iter().collect();
    assert_eq!(left, ["0", "config"].map(str::to_owned).into());

    let lock = FairLock::new(&session, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    let waiting = {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    };
    until_enlisted(&admin, PATH, 4).await;
    // A waiter that watches its own node is notified of its removal before that of the holder.
    let waiter = inspector.reapable(Reap::All).await.unwrap().pop();
    let own = format!("{PATH}/{}", waiter.expect("it waits").name());
    let looks = Match::requests().session(session.id().as_i64()).path(own);
    let looks = looks.reply();
    let looked = proxy.wait_for(&looks, 1, Duration::from_secs(30));
    looked.await.unwrap();
    assert_eq!(inspector.reap(Reap::All).await.unwrap().len(), 2);
    let loss = soon("the holder learns of it", held.lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
    let error = soon("the waiter ends", waiting).await.unwrap();
    let error = error.expect_err("no waiter is granted the lock in passing");
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
}

async fn events_tell_each_grant_release_and_loss(ensemble: &Ensemble) {
    async fn next(events: &mut LockEvents) -> LockEvent {
        soon("an event", events.next()).await.expect("it lives")
    }
    let (session, admin) = (connect(ensemble).await, connect(ensemble).await);
    let lock = FairLock::new(&session, "/events/a").unwrap();
    let (mut one, mut other) = (lock.events(), lock.clone().events());
    for is_dropped in [false, true] {
        let guard = lock.acquire().await.unwrap();
        let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        for events in [&mut one, &mut other] {
            let path = path.clone();
            let acquired = LockEvent::Acquired {
                path: path.clone(),
                fencing_token,
            };
            assert_eq!(next(events).await, acquired);
            assert_eq!(
                next(events).await,
                LockEvent::Released {
                    path,
                    fencing_token
                }
            );
        }
    }
    for expected in [LockLoss::NodeDeleted, LockLoss::SessionLost] {
        let guard = lock.acquire().await.unwrap();
        let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
        if expected == LockLoss::NodeDeleted {
            admin.delete(&path).await.unwrap();
        } else {
            // No event is received now, which delays nothing: 64 of them are kept.
            guard.release().await.unwrap();
            for _ in 0..40 {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
            assert!(matches!(next(&mut one).await, LockEvent::Missed { .. }));
            let guard = lock.acquire().await.unwrap();
            let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
            end(ensemble, &session).await;
            let lost = LockEvent::Lost {
                path,
                fencing_token,
                loss: expected,
            };
            while next(&mut one).await != lost {}
            break;
        }
        next(&mut one).await;
        let lost = LockEvent::Lost {
            path,
            fencing_token,
            loss: expected,
        };
        assert_eq!(next(&mut one).await, lost);
    }
    drop(lock);
    assert_eq!(soon("the end", one.next()).await, None);
}

async fn a_race_lock_is_one_node_that_excludes_all_others(ensemble: &Ensemble) {
    const PATH: &str = "/race";
    let (one, other) = (connect(ensemble).await, connect(ensemble).await);
    let race = |session| RaceLock::new(session, PATH).unwrap();
    // The reply is lost: the existing node is our own.
    let proxy = ensemble.proxy().unwrap();
    let its = Match::create(PATH).session(one.id().as_i64());
    let lost = proxy.on(its).once().cut_on_reply();
    let held = soon("it finds its node", race(&one).acquire()).await;
    let mut held = held.unwrap();
    assert_eq!((lost.count(), held.path().as_str()), (1, PATH));
    for session in [&one, &other] {
        assert!(race(session).try_acquire().await.unwrap().is_none());
    }
    // A release wakes all, and one of them gets it.
    let (grant, mut granted) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = tokio::task::JoinSet::new();
    for session in [&one, &other, &one, &other] {
        let (lock, grant) = (race(session), grant.clone());
        waiting.spawn(async move { grant.send(lock.acquire().await.unwrap()) });
    }
    for _ in 0..4 {
        assert!(granted.try_recv().is_err(), "somebody holds it");
        let token = held.fencing_token();
        held.release().await.unwrap();
        held = soon("one of them gets it", granted.recv()).await.unwrap();
        assert!(held.fencing_token() > token);
    }
    soon("all had it", waiting.join_all()).await;

    // Another client's node in its place is another client's lock.
    let admin = connect(ensemble).await;
    admin.delete(PATH).await.unwrap();
    let theirs = soon("it is free", race(&admin).acquire()).await.unwrap();
    let error = held.release().await.unwrap_err();
    let is_gone = matches!(
        error,
        ReleaseError::Lost {
            loss: LockLoss::NodeDeleted,
            ..
        }
    );
    assert!(is_gone, "{error:?}");
    assert!(theirs.is_valid());
    assert!(one.exists(PATH).await.unwrap().is_some(), "theirs stays");

    let next = race(&one);
    let next = tokio::spawn(async move { next.acquire().await });
    end(ensemble, &admin).await;
    let next = soon("a session that ends gives it up", next).await;
    assert_eq!(soon("the loss", theirs.lost()).await, LockLoss::SessionLost);
    next.unwrap().unwrap().release().await.unwrap();
    assert_eq!(one.exists(PATH).await.unwrap(), None);
}

async fn multi_lock_takes_all_or_nothing(ensemble: &Ensemble) {
    const PATHS: [&str; 3] = ["/multi/a", "/multi/b", "/multi/c"];
    let sessions = [
        connect(ensemble).await,
        connect(ensemble).await,
        connect(ensemble).await,
    ];
    let [one, other, admin] = &sessions;
    let fair = |session, path| FairLock::new(session, path).unwrap();
    let multi = |session, order: [usize; 3]| {
        MultiLock::new(order.map(|at| fair(session, PATHS[at]))).unwrap()
    };
    let all = |session| multi(session, [2, 0, 1]);
    // Locks given in different orders do not deadlock.
    let mut tasks = tokio::task::JoinSet::new();
    for (session, order) in sessions.iter().zip([[0, 1, 2], [2, 1, 0], [1, 2, 0]]) {
        let lock = multi(session, order);
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(guard.guards().len(), 3);
                guard.release().await.unwrap();
            }
        });
    }
    soon("everyone gets on", tasks.join_all()).await;

    // A failed attempt and an acquire that times out release what they acquired.
    let held = fair(one, PATHS[2]).acquire().await.unwrap();
    assert!(all(other).try_acquire().await.unwrap().is_none());
    // Long enough to get as far as the one that is held.
    let limit = Duration::from_secs(10);
    let error = all(other).acquire_timeout(limit).await.unwrap_err();
    assert!(error.is_timed_out());
    let AcquireError::TimedOut(timed_out) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(timed_out.path().as_str(), PATHS[2]);
    soon("it gives back what it had", other.settled()).await;
    for path in &PATHS[..2] {
        assert_eq!(names(admin, path).await, [""; 0]);
    }
    // One that is lost while the next is waited for ends the wait.
    let waiter = all(other);
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_enlisted(admin, PATHS[2], 2).await;
    let name = names(admin, PATHS[0]).await.remove(0);
    let first = format!("{}/{name}", PATHS[0]);
    admin.delete(first).await.unwrap();
    let error = soon("the wait ends", waiting).await.unwrap().unwrap_err();
    let is_lost = matches!(
        error,
        AcquireError::Lost {
            loss: LockLoss::NodeDeleted,
            ..
        }
    );
    assert!(is_lost, "{error:?}");
    held.release().await.unwrap();

    // The second reply is lost; the loss of one is the loss of all.
    let proxy = ensemble.proxy().unwrap();
    let creates = Match::create("/multi/*/**").session(other.id().as_i64());
    let cut = proxy.on(creates).nth(2).cut_on_reply();
    let guard = soon("it is free", all(other).acquire()).await.unwrap();
    assert_eq!(cut.count(), 1);
    guard
        .txn()
        .unwrap()
        .create("/done", "")
        .commit()
        .await
        .unwrap();
    admin
        .delete(guard.guards()[1].paths().next().unwrap())
        .await
        .unwrap();
    let loss = soon("it is lost", guard.lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
    let refused = guard.txn().unwrap().create("/no", "").commit().await;
    assert_eq!(refused.unwrap_err().failed_part(), Some(1));
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { .. }), "{error:?}");
    for path in PATHS {
        assert_eq!(names(admin, path).await, [""; 0], "nothing is left");
    }
    let guard = soon("it is free", all(one).acquire()).await.unwrap();
    end(ensemble, one).await;
    assert_eq!(soon("the loss", guard.lost()).await, LockLoss::SessionLost);
}

/// The parent is deleted again and again after its creation and before that of the lock's node.
async fn acquire_outlasts_parents_that_vanish_before_its_node(ensemble: &Ensemble) {
    const PATH: &str = "/vanishing/a";
    let (session, other) = (connect(ensemble).await, connect(ensemble).await);
    // It stays: its own create would wait behind the frame that is held.
    other.create("/vanishing", "").await.unwrap();
    let proxy = ensemble.proxy().unwrap();
    let creates = || Match::create(format!("{PATH}/*")).session(session.id().as_i64());
    // A frame that one rule takes does not count for those after it: these take the second, third and fourth create.
    let rules = [(); 3].map(|()| proxy.on(creates()).nth(2).hold());
    let lock = FairLock::new(&session, PATH).unwrap();
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    for rule in &rules {
        rule.happened(Duration::from_secs(30)).await.unwrap();
        // The creates of the parent and the node are sent together.
        eventually("the parent is there", async || {
            other.exists(PATH).await.unwrap().is_some()
        })
        .await;
        // A container is reaped when its last child goes, and not before it has had one.
        other.create(format!("{PATH}/x"), "").await.unwrap();
        other.delete(format!("{PATH}/x")).await.unwrap();
        eventually("the parent is reaped", async || {
            other.exists(PATH).await.unwrap().is_none()
        })
        .await;
        rule.release();
    }
    let guard = soon("the lock is granted", acquiring).await;
    let guard = guard.unwrap().unwrap();
    assert_eq!(names(&other, PATH).await, [guard.path().name().unwrap()]);
    guard.release().await.unwrap();
}

/// Between two holdings the server reaps the parent, or begins to: the next acquire is granted at any moment.
async fn idle_locks_lose_their_parents_and_are_acquired_again(ensemble: &Ensemble) {
    const TIMES: usize = 25;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let session = connect(ensemble).await;
        let path = format!("/idle/{number}");
        tasks.spawn(async move {
            let lock = FairLock::new(&session, path.as_str()).unwrap();
            let mut random = fastrand::Rng::with_seed(number);
            let mut parents = BTreeSet::new();
            while parents.len() < TIMES {
                let guard = lock.acquire().await.unwrap();
                let parent = session.stat(path.as_str()).await.unwrap();
                parents.insert(parent.czxid);
                guard.release().await.unwrap();
                zk_sim::wait::pass(Duration::from_millis(random.u64(0..120))).await;
            }
        });
    }
    soon("each parent vanishes often", tasks.join_all()).await;
}

/// Ends a session from outside while it has no connection, so that it only learns of its end afterwards.
async fn end(ensemble: &Ensemble, session: &Session) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let its = Clients::Session(session.id().as_i64());
    proxy.route(its, Route::Refuse).expect("the route is set");
    proxy.cut(its, Close::Rst).await;
    let ended = ensemble.expire(session.id().as_i64()).await;
    ended.expect("the session ends");
    proxy
        .route(its, Route::SameServer)
        .expect("the route is set");
}
