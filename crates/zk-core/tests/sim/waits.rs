//! Waiting for a node to come or to go.

use std::time::Duration;

use zk_core::{Acl, ErrorKind, RetryPolicy, Session};
use zk_sim::{Chaos, Check, Ensemble, Release};

use crate::{pass, polled, soon};

async fn nothing_left(sim: &Ensemble, session: &Session) {
    pass(Duration::from_millis(20)).await;
    session.sync("/").await.expect("the server answers");
    assert_eq!(sim.watch_count(), 0, "a watch is left");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_node_comes_or_goes() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await.with_retry(RetryPolicy::never());
    let other = sim.connect().await;
    soon(
        "it is not there",
        session.wait_for_deletion("/a").into_future(),
    )
    .await
    .unwrap();
    nothing_left(&sim, &session).await;
    let come = tokio::spawn(session.wait_for_creation("/a").into_future());
    pass(Duration::from_secs(3600)).await;
    sim.session(session.id()).cut();
    let (_, stat) = other.create("/a", "").await.unwrap();
    assert_eq!(soon("it comes", come).await.unwrap().unwrap(), stat);
    assert_eq!(session.wait_for_creation("/a").await.unwrap(), stat);
    nothing_left(&sim, &session).await;
    let gone = tokio::spawn(session.wait_for_deletion("/a").into_future());
    pass(Duration::from_secs(1)).await;
    other.set("/a", "1").await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!gone.is_finished());
    // Another one in its place does not hide that it went.
    sim.session(session.id()).silence();
    other.delete("/a").await.unwrap();
    other.create("/a", "").await.unwrap();
    sim.session(session.id()).heal();
    soon("it goes", gone).await.unwrap().unwrap();
    nothing_left(&sim, &session).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_or_dropped_leaves_nothing() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let wait = session
        .wait_for_creation("/a")
        .timeout(Duration::from_secs(5));
    let error = soon("the deadline", wait.into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "wait for /a: no reply in time (waited 5s for it to be created)"
    );
    nothing_left(&sim, &session).await;
    for times in 1..6 {
        let wait = session.wait_for_creation("/a").into_future();
        assert!(
            polled(
                times,
                tokio::time::timeout(Duration::from_millis(times as u64), wait)
            )
            .await
            .is_none_or(|it| it.is_err())
        );
        nothing_left(&sim, &session).await;
    }
    session.create("/a", "").await.unwrap();
    let gone = tokio::spawn(session.wait_for_deletion("/a").into_future());
    pass(Duration::from_secs(1)).await;
    sim.expire(session.id());
    let error = soon("the end", gone).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_deletion_ends_when_another_node_replaces_it() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let (_, first) = session.create("/a", "").await.unwrap();
    session.delete("/a").await.unwrap();
    let (_, second) = session.create("/a", "").await.unwrap();
    let wait = |czxid| {
        let wait = session.wait_for_deletion("/a").created_by(czxid);
        wait.timeout(Duration::from_secs(1))
    };
    soon("the first one is gone", wait(first.czxid).into_future())
        .await
        .unwrap();
    let error = wait(second.czxid).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// The session has not seen the node, whose czxid somebody else has told.
#[tokio::test(start_paused = true)]
async fn an_older_node_on_a_lagging_server_does_not_end_a_wait() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(1).await;
    let other = sim.connect().server(3).await;
    other.create("/a", "").await.unwrap();
    session.sync("/a").await.unwrap();
    sim.server(1).lag_by(Duration::from_millis(500));
    let replace = other.transaction().delete("/a").create("/a", "");
    replace.commit().await.unwrap();
    let second = other.stat("/a").await.unwrap();
    let wait = session.wait_for_deletion("/a").created_by(second.czxid);
    let wait = tokio::spawn(wait.into_future());
    pass(Duration::from_secs(5)).await;
    assert!(!wait.is_finished());
    other.delete("/a").await.unwrap();
    soon("it is gone", wait).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_without_a_connection_says_so() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let wait = session
        .wait_for_creation("/a")
        .timeout(Duration::from_secs(2));
    let wait = tokio::spawn(wait.into_future());
    pass(Duration::from_millis(500)).await;
    sim.session(session.id()).partition();
    let error = soon("the deadline", wait).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
    let text = error.to_string();
    assert!(text.contains("waited 2s for it to be created"), "{text}");
}

#[test]
fn every_wait_ends_under_random_faults() {
    Check::new(0..60).run(async |sim, seed| {
        let session = sim.connect().timeout(Duration::from_secs(20)).await;
        let writer = sim.connect().timeout(Duration::from_secs(20)).await;
        let mut random = fastrand::Rng::with_seed(seed);
        let chaos = tokio::spawn(Chaos::default().run(&sim));
        for round in 0..4 {
            let come = tokio::spawn(session.wait_for_creation("/a").into_future());
            pass(Duration::from_millis(random.u64(0..1500))).await;
            while writer
                .create("/a", round.to_string())
                .idempotent()
                .await
                .is_err_and(|it| !it.is_node_exists() && !it.is_fatal())
            {}
            let come = tokio::time::timeout(Duration::from_secs(300), come).await;
            assert!(
                come.is_ok(),
                "no notification of the creation in five minutes"
            );
            match come.unwrap().expect("no panic") {
                Ok(_) => {}
                Err(error) if error.is_fatal() => return Ok(()),
                Err(error) => return Err(error),
            }
            let gone = tokio::spawn(session.wait_for_deletion("/a").into_future());
            pass(Duration::from_millis(random.u64(0..1500))).await;
            while writer
                .delete("/a")
                .await
                .is_err_and(|it| !it.is_no_node() && !it.is_fatal())
            {}
            let gone = tokio::time::timeout(Duration::from_secs(300), gone).await;
            assert!(
                gone.is_ok(),
                "no notification of the deletion in five minutes"
            );
            match gone.unwrap().expect("no panic") {
                Err(error) if !error.is_fatal() => return Err(error),
                _ => {}
            }
            if writer.state().is_lost() {
                return Ok(());
            }
        }
        chaos.await.expect("nothing panics there");
        Ok::<(), zk_core::Error>(())
    });
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_the_right_to_read_is_refused_or_ends_late() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().release(release).build();
        let bob = sim.connect().digest("bob", "secret").await;
        let alice = sim.connect().await;
        let timeout = alice.session_timeout();
        let private = || bob.create("/private", "").acl(Acl::creator_only());
        private().await.unwrap();
        let gone = tokio::spawn(alice.wait_for_deletion("/private").into_future());
        pass(timeout / 2).await;
        bob.delete("/private").await.unwrap();
        let come = tokio::spawn(alice.wait_for_creation("/private").into_future());
        pass(timeout / 2).await;
        let (_, stat) = private().await.unwrap();
        let start = tokio::time::Instant::now();
        let gone = soon("the deletion is seen", gone).await.unwrap();
        let come = soon("the creation is seen", come).await.unwrap();
        assert!(start.elapsed() <= timeout, "{release:?}");
        if release == Release::V3_8 {
            gone.unwrap();
            assert_eq!(come.unwrap(), stat);
        } else {
            assert_eq!(gone.unwrap_err().kind(), ErrorKind::NoAuth);
            assert_eq!(come.unwrap_err().kind(), ErrorKind::NoAuth);
        }
        nothing_left(&sim, &alice).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_notices_that_the_right_to_read_is_gone() {
    let sim = Ensemble::new(3);
    let bob = sim.connect().digest("bob", "secret").await;
    let alice = sim.connect().await;
    bob.create("/a", "").await.unwrap();
    let gone = tokio::spawn(alice.wait_for_deletion("/a").into_future());
    let start = tokio::time::Instant::now();
    pass(Duration::from_secs(1)).await;
    bob.set_acl("/a", Acl::creator_only()).await.unwrap();
    let error = soon("the refusal", gone).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    assert!(start.elapsed() < alice.session_timeout() * 2);
    nothing_left(&sim, &alice).await;
}
