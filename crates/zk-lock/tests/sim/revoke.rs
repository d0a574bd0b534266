//! Requests to release a lock.

use std::time::Duration;

use zk_core::{Acl, Session};
use zk_lock::{
    AcquireError, CohortLock, Contender, FairLock, Guard, Inspector, LockLoss, LockOptions,
    OwnerInfo, Revocation, Revoke, RevokeError, Semaphore,
};
use zk_sim::{Ensemble, matching};

use crate::{OURS, PATH, left, lock, pass, polled, soon};

/// Three sessions, and the lock held by the first one.
struct Scene {
    ensemble: Ensemble,
    holder: Session,
    admin: Session,
    guard: Guard,
    contender: Contender,
    owner: Vec<u8>,
}

impl Scene {
    async fn new() -> Self {
        Self::of(Ensemble::new(3)).await
    }

    async fn of(ensemble: Ensemble) -> Self {
        let holder: Session = ensemble.connect().server(1).await;
        let admin: Session = ensemble.connect().server(2).await;
        let guard = lock(&holder).acquire().await.unwrap();
        let (owner, _) = holder.get(guard.path()).await.unwrap();
        let snapshot = inspector(&admin).snapshot().await.unwrap();
        let contender = snapshot.contenders()[0].contender().clone();
        Self {
            ensemble,
            holder,
            admin,
            guard,
            contender,
            owner: owner.into(),
        }
    }

    fn revoke(&self) -> Revoke {
        let asker = OwnerInfo::new("ops1", 17);
        inspector(&self.admin)
            .revoke(&self.contender)
            .by(asker)
            .reason("a rolling restart")
            .limit(Duration::from_secs(5))
    }

    /// The data of the holder's node on the leader.
    fn data(&self) -> Vec<u8> {
        let tree = self.ensemble.tree();
        let node = tree.node(self.guard.path().as_str());
        node.expect("the node is there").data().to_vec()
    }
}

fn inspector(session: &Session) -> Inspector {
    Inspector::new(session, PATH).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_holder_receives_requester_and_reason_and_releases() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    let asked = soon("it is asked", scene.guard.revocation_requested());
    let asked = asked.await.unwrap();
    assert_eq!(asked.by(), Some("ops1/17"));
    assert_eq!(asked.reason(), Some("a rolling restart"));
    let left = asked.deadline().unwrap() - tokio::time::Instant::now().into_std();
    assert!(left > Duration::from_secs(4) && left <= Duration::from_secs(5));
    // The owner can still be parsed meanwhile.
    let seen = inspector(&scene.admin).snapshot().await.unwrap();
    let owner = seen.contenders()[0].contender().owner_info();
    assert_eq!(owner, OwnerInfo::parse(&scene.owner));
    asked.accept().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!asking.is_finished(), "it is not released yet");
    scene.guard.release().await.unwrap();
    let ended = soon("the requester is answered", asking)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended, Revocation::Released);
    assert_eq!(scene.ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_prevents_breaking_the_lock() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().then_break().into_future());
    let asked = soon("it is asked", scene.guard.revocation_requested());
    asked
        .await
        .unwrap()
        .refuse("two minutes\nmore")
        .await
        .unwrap();
    let ended = soon("the requester is answered", asking)
        .await
        .unwrap()
        .unwrap();
    let reason = "two minutes\nmore".to_owned();
    assert_eq!(ended, Revocation::Refused { reason });
    // Request and answer are removed.
    pass(Duration::from_secs(1)).await;
    assert_eq!(scene.data(), scene.owner);
    assert!(scene.guard.is_valid());
    scene.guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_keeps_the_lock_unless_it_is_broken() {
    let scene = Scene::new().await;
    let ended = soon("the time is up", scene.revoke().into_future()).await;
    assert_eq!(ended.unwrap(), Revocation::Unanswered);
    pass(Duration::from_secs(1)).await;
    assert_eq!(scene.data(), scene.owner);
    assert!(scene.guard.is_valid());

    let next = lock(&scene.admin);
    let waiting = tokio::spawn(async move { next.acquire().await });
    let ended = soon("the time is up", scene.revoke().then_break().into_future()).await;
    assert_eq!(ended.unwrap(), Revocation::Broken);
    let loss = soon("the loss is reported", scene.guard.lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
    let asked = soon("it ends", scene.guard.revocation_requested()).await;
    assert_eq!(asked.unwrap_err(), LockLoss::NodeDeleted);
    let guard = soon("the next one is granted", waiting).await.unwrap();
    let guard = guard.unwrap();
    // A request for the old node breaks nothing.
    let ended = soon("it is deleted", scene.revoke().then_break().into_future()).await;
    assert_eq!(ended.unwrap(), Revocation::Released);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agreement_without_a_release_differs_from_silence() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    let asked = soon("it is asked", scene.guard.revocation_requested());
    asked.await.unwrap().accept().await.unwrap();
    let ended = soon("the time is up", asking).await.unwrap().unwrap();
    assert_eq!(ended, Revocation::Accepted);
    scene.guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_ask_at_once_and_each_gets_its_answer() {
    let scene = Scene::new().await;
    let asking: Vec<_> = (0..3)
        .map(|at| {
            let asked = scene.revoke().reason(format!("reason {at}"));
            tokio::spawn(asked.into_future())
        })
        .collect();
    for _ in 0..3 {
        let asked = soon("it is asked", scene.guard.revocation_requested());
        let asked = asked.await.unwrap();
        let reason = asked.reason().unwrap().replace("reason", "no to");
        asked.refuse(&reason).await.unwrap();
    }
    for (at, asking) in asking.into_iter().enumerate() {
        let ended = soon("the requester is answered", asking)
            .await
            .unwrap()
            .unwrap();
        let reason = format!("no to {at}");
        assert_eq!(ended, Revocation::Refused { reason });
    }
    pass(Duration::from_secs(1)).await;
    assert_eq!(scene.data(), scene.owner);
    // Each was returned once.
    let again = tokio::time::timeout(Duration::from_secs(5), scene.guard.revocation_requested());
    again.await.unwrap_err();
    scene.guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_returned_once() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    let asked = soon("it is asked", scene.guard.revocation_requested());
    drop(asked.await.unwrap());
    let again = tokio::time::timeout(Duration::from_secs(2), scene.guard.revocation_requested());
    again.await.unwrap_err();
    asking.abort();
    scene.guard.release().await.unwrap();
}

/// Revoking, answering and breaking work whichever request is lost or answered late.
#[tokio::test(start_paused = true)]
async fn a_revocation_survives_every_lost_request_and_reply() {
    for is_refused in [false, true] {
        for nth in 1.. {
            let mut struck = 0;
            for is_reply in [false, true] {
                let what = format!("request {nth}, reply {is_reply}, refused {is_refused}");
                let scene = Scene::new().await;
                let fault = scene
                    .ensemble
                    .on(|request| !matching::paths(request).is_empty())
                    .nth(nth);
                let fault = if is_reply {
                    fault.lose_reply()
                } else {
                    fault.lose_request()
                };
                let asking = tokio::spawn(scene.revoke().into_future());
                let asked = soon(&what, scene.guard.revocation_requested());
                let asked = asked.await.expect(&what);
                if is_refused {
                    soon(&what, asked.refuse("no")).await.expect(&what);
                    let ended = soon(&what, asking).await.unwrap().expect(&what);
                    let reason = "no".to_owned();
                    assert_eq!(ended, Revocation::Refused { reason }, "{what}");
                    pass(Duration::from_secs(2)).await;
                    assert_eq!(scene.data(), scene.owner, "{what}");
                    scene.guard.release().await.expect(&what);
                } else {
                    soon(&what, asked.accept()).await.expect(&what);
                    scene.guard.release().await.expect(&what);
                    let ended = soon(&what, asking).await.unwrap().expect(&what);
                    assert_eq!(ended, Revocation::Released, "{what}");
                }
                struck += fault.count();
                assert!(left(&scene.ensemble).is_empty(), "{what}");
            }
            if struck == 0 {
                assert!(nth > 4, "{nth}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_at_any_await_is_withdrawn() {
    for is_cut in [false, true] {
        for polls in 0.. {
            let what = format!("after {polls} polls, cut {is_cut}");
            let scene = Scene::new().await;
            let revoke = scene.revoke().limit(Duration::from_millis(200));
            let done = soon(&what, polled(polls, revoke.into_future())).await;
            if is_cut {
                scene.ensemble.session(scene.admin.id()).cut();
            }
            pass(Duration::from_secs(3)).await;
            assert_eq!(scene.data(), scene.owner, "{what}");
            assert_eq!(left(&scene.ensemble).len(), 1, "{what}");
            scene.guard.release().await.expect(&what);
            pass(Duration::from_secs(1)).await;
            assert_eq!(scene.ensemble.watch_count(), 0, "{what}");
            if let Some(done) = done {
                assert_eq!(done.unwrap(), Revocation::Unanswered);
                assert!(polls > 4, "{what}");
                break;
            }
        }
    }
}

/// As when `block_on` gives up on a thread without a runtime.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_outside_a_runtime_is_withdrawn() {
    let scene = Scene::new().await;
    let mut asking = Box::pin(scene.revoke().into_future());
    let asked = tokio::time::timeout(Duration::from_secs(1), &mut asking).await;
    assert!(asked.is_err(), "{asked:?}");
    assert_ne!(scene.data(), scene.owner);
    std::thread::spawn(move || drop(asking)).join().unwrap();
    soon("it is withdrawn", scene.admin.settled()).await;
    assert_eq!(scene.data(), scene.owner);
}

#[tokio::test(start_paused = true)]
async fn revocation_requested_dropped_at_any_await_loses_nothing() {
    for polls in 0..6 {
        let scene = Scene::new().await;
        let asking = tokio::spawn(scene.revoke().into_future());
        let told = soon("", polled(polls, scene.guard.revocation_requested())).await;
        pass(Duration::from_millis(100)).await;
        let asked = match told {
            Some(asked) => asked,
            None => soon("it is asked", scene.guard.revocation_requested()).await,
        };
        asked.unwrap().accept().await.unwrap();
        scene.guard.release().await.unwrap();
        let ended = soon("the requester is answered", asking)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(ended, Revocation::Released, "after {polls} polls");
        pass(Duration::from_secs(1)).await;
        assert_eq!(scene.ensemble.watch_count(), 0, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_dropped_at_any_await_are_written_or_not() {
    for polls in 0..12 {
        let scene = Scene::new().await;
        let asking = tokio::spawn(scene.revoke().into_future());
        let asked = soon("it is asked", scene.guard.revocation_requested());
        let asked = asked.await.unwrap();
        soon("", polled(polls, asked.refuse("no"))).await;
        let ended = soon("the requester is answered", asking)
            .await
            .unwrap()
            .unwrap();
        assert!(
            matches!(ended, Revocation::Refused { .. } | Revocation::Unanswered),
            "{ended:?}"
        );
        pass(Duration::from_secs(2)).await;
        assert_eq!(scene.data(), scene.owner, "after {polls} polls");
        scene.guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_requester_without_a_connection_breaks_nothing() {
    let scene = Scene::new().await;
    let link = scene.ensemble.session(scene.admin.id());
    link.partition();
    let revoke = scene.revoke().limit(Duration::from_secs(3)).then_break();
    let asking = tokio::spawn(revoke.into_future());
    pass(Duration::from_millis(3001)).await;
    link.heal();
    let error = soon("the time is up", asking).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, RevokeError::NotDelivered { .. }),
        "{error:?}"
    );
    pass(Duration::from_secs(5)).await;
    assert!(link.is_alive() && scene.guard.is_valid());
    assert_eq!(scene.data(), scene.owner);
    scene.guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sessions_that_end_end_both_sides() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    pass(Duration::from_millis(100)).await;
    scene.ensemble.expire(scene.holder.id());
    let ended = soon("the node is deleted", asking).await.unwrap().unwrap();
    assert_eq!(ended, Revocation::Released);
    let asked = soon("it ends", scene.guard.revocation_requested()).await;
    assert_eq!(asked.unwrap_err(), LockLoss::SessionLost);

    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    pass(Duration::from_millis(100)).await;
    scene.ensemble.expire(scene.admin.id());
    let error = soon("it ends", asking).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, RevokeError::Failed(error) if error.is_fatal()),
        "{error:?}"
    );
    scene.guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_may_be_taken_out_of_the_queue() {
    let scene = Scene::new().await;
    let waiter = lock(&scene.holder);
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    pass(Duration::from_millis(100)).await;
    let inspector = inspector(&scene.admin);
    let snapshot = inspector.snapshot().await.unwrap();
    let waiter = snapshot.waiters().next().unwrap().contender();
    let revoke = inspector.revoke(waiter).limit(Duration::from_secs(1));
    let ended = soon("the time is up", revoke.then_break().into_future()).await;
    assert_eq!(ended.unwrap(), Revocation::Broken);
    scene.guard.release().await.unwrap();
    let error = soon("the waiter is notified", waiting).await.unwrap();
    let error = error.unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn curators_message_is_understood_and_the_owner_written_back() {
    for is_refused in [true, false] {
        let scene = Scene::new().await;
        let listening = scene.guard.revocation_requested();
        let listening = tokio::spawn(listening);
        pass(Duration::from_millis(100)).await;
        let asking = tokio::spawn(scene.revoke().as_curator().into_future());
        let asked = soon("it is asked", listening).await.unwrap().unwrap();
        assert_eq!(scene.data(), b"__REVOKE__");
        assert_eq!((asked.by(), asked.reason()), (None, None));
        if is_refused {
            asked.refuse("too late").await.unwrap();
            assert_eq!(scene.data(), scene.owner);
            let ended = soon("the time is up", asking).await.unwrap().unwrap();
            assert_eq!(ended, Revocation::Unanswered);
            // The next request is a new one.
            scene
                .admin
                .set(scene.guard.path(), "__REVOKE__")
                .await
                .unwrap();
            let asked = soon("it is asked", scene.guard.revocation_requested());
            asked.await.unwrap().refuse("again").await.unwrap();
            assert_eq!(scene.data(), scene.owner);
            scene.guard.release().await.unwrap();
        } else {
            asked.accept().await.unwrap();
            scene.guard.release().await.unwrap();
            let ended = soon("the requester is answered", asking)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(ended, Revocation::Released);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_owner_data_is_overwritten_only_on_request() {
    let ensemble = Ensemble::new(1);
    let (holder, admin) = (ensemble.connect().await, ensemble.connect().await);
    let options = LockOptions::default().with_owner("192.168.1.4");
    let guard = FairLock::with_options(&holder, PATH, options).unwrap();
    let guard = guard.acquire().await.unwrap();
    let inspector = inspector(&admin);
    let seen = inspector.snapshot().await.unwrap().contenders()[0]
        .contender()
        .clone();
    let revoke = inspector.revoke(&seen).limit(Duration::from_secs(2));
    let error = revoke.clone().then_break().await.unwrap_err();
    assert!(
        matches!(error, RevokeError::ForeignData { .. }),
        "{error:?}"
    );
    let data = async || admin.get(guard.path()).await.unwrap().0;
    assert_eq!(data().await, "192.168.1.4");
    assert!(guard.is_valid());
    let ended = soon("the time is up", revoke.as_curator().into_future()).await;
    assert_eq!(ended.unwrap(), Revocation::Unanswered);
    assert_eq!(data().await, "__REVOKE__");
    guard.release().await.unwrap();
}

/// A client without WRITE on the node cannot make a request.
#[tokio::test(start_paused = true)]
async fn the_access_rules_of_the_node_say_who_may_ask() {
    let ensemble = Ensemble::new(1);
    let (holder, admin) = (ensemble.connect().await, ensemble.connect().await);
    let options = LockOptions::default().with_acl(Acl::read_only());
    holder.create(PATH, "").parents().await.unwrap();
    let guard = FairLock::with_options(&holder, PATH, options).unwrap();
    let guard = guard.acquire().await.unwrap();
    let inspector = inspector(&admin);
    let seen = inspector.snapshot().await.unwrap().contenders()[0]
        .contender()
        .clone();
    let error = inspector.revoke(&seen).await.unwrap_err();
    assert!(
        matches!(&error, RevokeError::Failed(error) if error.kind() == zk_core::ErrorKind::NoAuth),
        "{error:?}"
    );
    guard.release().await.unwrap();
}

/// Nothing is left when a request is lost while the node is written to by others.
#[tokio::test(start_paused = true)]
async fn an_overwritten_request_is_made_again() {
    let scene = Scene::new().await;
    let asking = tokio::spawn(scene.revoke().into_future());
    let sets = scene.ensemble.on(matching::sets(OURS)).nth(1).hold();
    soon("it asks", sets.happened()).await;
    sets.release();
    pass(Duration::from_millis(100)).await;
    scene
        .holder
        .set(scene.guard.path(), scene.owner.clone())
        .await
        .unwrap();
    let asked = soon("it is asked", scene.guard.revocation_requested());
    asked.await.unwrap().accept().await.unwrap();
    scene.guard.release().await.unwrap();
    let ended = soon("the requester is answered", asking)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended, Revocation::Released);
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_leases_hears_a_request_for_one_of_them() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    let semaphore = |session| Semaphore::new(session, "/semaphores/a", 2).unwrap();
    let leases = semaphore(&one).with_count(2).acquire().await.unwrap();
    let inspector = semaphore(&admin).inspector();
    let snapshot = inspector.snapshot().await.unwrap();
    let held: Vec<_> = snapshot.holders().collect();
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|one| one.contender().is_shared()));
    let asking = tokio::spawn(inspector.revoke(held[1].contender()).into_future());
    let request = soon("it is asked", leases.revocation_requested()).await;
    request.unwrap().accept().await.unwrap();
    leases.release().await.unwrap();
    let ended = soon("the requester is answered", asking).await.unwrap();
    assert_eq!(ended.unwrap(), Revocation::Released);
}

#[tokio::test(start_paused = true)]
async fn a_cohort_that_accepts_gives_the_lock_back() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    let cohort = CohortLock::new(&one, PATH).unwrap();
    for accepts in [true, false] {
        let first = cohort.acquire().await.unwrap();
        let place = first.fencing_token().place_token();
        let next = tokio::spawn({
            let cohort = cohort.clone();
            async move { cohort.acquire().await.unwrap() }
        });
        let inspector = inspector(&admin);
        let holder = inspector.first_contender().await.unwrap().unwrap();
        let asking = tokio::spawn(inspector.revoke(&holder).into_future());
        let request = soon("it is asked", first.revocation_requested()).await;
        if accepts {
            request.unwrap().accept().await.unwrap();
        } else {
            request.unwrap().refuse("not now").await.unwrap();
        }
        first.release().await.unwrap();
        let ended = soon("the requester is answered", asking).await.unwrap();
        assert_eq!(ended.unwrap() == Revocation::Released, accepts);
        let next = soon("the next task has it", next).await.unwrap();
        let is_same = next.fencing_token().place_token() == place;
        assert_eq!(is_same, !accepts, "the node is the same");
        next.release().await.unwrap();
    }
}
