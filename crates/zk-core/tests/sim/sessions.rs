//! One session after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{
    ConnectError, ErrorKind, RetryPolicy, RunError, Session, SessionBound, SessionEnd, Sessions,
    SessionsEnd,
};
use zk_sim::Ensemble;
use zk_sim::matching::{anything, exists};
use zk_sim::wait::{pass, polled, soon, until};

fn sessions(sim: &Ensemble, reopening: RetryPolicy) -> Sessions {
    let sim = sim.clone();
    let connect = move || {
        let connecting = sim.connect();
        async move { Ok(connecting.await) }
    };
    Sessions::with_connector(connect, reopening)
}

async fn lose(sim: &Ensemble, session: Session) {
    sim.expire(session.id());
    let end = soon("the session is lost", session.lost()).await;
    assert_eq!(end, SessionEnd::Expired);
}

async fn next(sessions: &Sessions) -> Session {
    let session = soon("there is a session", sessions.session()).await;
    session.expect("there will be one")
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_followed_by_another_one() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    assert!(sessions.current().is_none());
    let first = next(&sessions).await;
    assert_eq!(sessions.current().map(|one| one.id()), Some(first.id()));
    lose(&sim, first.clone()).await;
    assert!(sessions.current().is_none());
    let second = next(&sessions).await;
    assert_ne!(second.id(), first.id());
    assert_eq!(first.state().end(), Some(SessionEnd::Expired));
}

#[tokio::test(start_paused = true)]
async fn body_is_dropped_with_its_session_and_runs_with_the_next() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let running = Arc::new(());
    let runs = AtomicUsize::new(0);
    let body = |session: Session| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        let (sim, running) = (&sim, Arc::clone(&running));
        async move {
            // This one and the first.
            assert_eq!(Arc::strong_count(&running), 2);
            match run {
                0 => {
                    sim.expire(session.id());
                    std::future::pending::<()>().await;
                }
                1 => {
                    sim.expire(session.id());
                    session.lost().await;
                }
                _ => return Ok(session.id()),
            }
            Err(run)
        }
    };
    let last = soon("the body ends", sessions.run(body)).await.unwrap();
    assert_eq!(sessions.current().map(|one| one.id()), Some(last));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    let failed = sessions.run(async |_| Err::<(), _>("its own")).await;
    assert!(matches!(failed, Err(RunError::Body("its own"))));
}

#[tokio::test(start_paused = true)]
async fn all_handles_see_that_the_sessions_are_closed() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let session = next(&sessions).await;
    let other = sessions.clone();
    let waiting = tokio::spawn(async move {
        let body = async |session: Session| {
            session.lost().await;
            Err::<(), _>("closed")
        };
        (other.run(body).await, other.session().await)
    });
    pass(Duration::from_millis(1)).await;
    sessions.close().await.unwrap();
    assert_eq!(session.lost().await, SessionEnd::Closed);
    let (ran, session) = soon("the other handle ends", waiting).await.unwrap();
    assert!(matches!(ran, Err(RunError::Body("closed"))), "{ran:?}");
    assert!(matches!(session, Err(SessionsEnd::Closed)), "{session:?}");
    sessions.close().await.unwrap();
    pass(Duration::from_secs(60)).await;
    assert!(sim.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn session_that_opens_while_they_are_closed_is_closed() {
    for polls in 0..20 {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        drop(polled(polls, sessions.session()).await);
        sessions.close().await.unwrap();
        let ended = sessions.session().await;
        assert!(matches!(ended, Err(SessionsEnd::Closed)), "{ended:?}");
        until("no session is left", async || sim.sessions().is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn session_ends_with_the_last_handle() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let other = sessions.clone();
    drop(next(&sessions).await);
    drop(sessions);
    pass(Duration::from_secs(1)).await;
    assert_eq!(sim.sessions().len(), 1);
    drop(other);
    until("no session is left", async || sim.sessions().is_empty()).await;
    pass(Duration::from_secs(60)).await;
    assert!(sim.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn policy_decides_how_often_a_lost_session_is_followed() {
    let sim = Ensemble::new(3);
    let policy = RetryPolicy::constant(Duration::from_secs(1)).at_most(1);
    let sessions = sessions(&sim, policy);
    for _ in 0..2 {
        lose(&sim, next(&sessions).await).await;
    }
    let ended = soon("there is none", sessions.session()).await;
    assert!(matches!(ended, Err(SessionsEnd::Lost)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_ends_them_only_before_the_first_session() {
    let sim = Ensemble::new(3);
    let attempts = Arc::new(AtomicUsize::new(0));
    let refused_at = |refused: &'static [usize]| {
        let (sim, attempts) = (sim.clone(), Arc::clone(&attempts));
        attempts.store(0, Ordering::SeqCst);
        let connect = move || {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst);
            let sim = sim.clone();
            async move {
                if refused.contains(&attempt) {
                    return Err(ConnectError::AuthFailed);
                }
                Ok(sim.connect().await)
            }
        };
        Sessions::with_connector(connect, RetryPolicy::default())
    };
    let ended = soon("there is none", refused_at(&[0]).session()).await;
    let is_refused = matches!(ended, Err(SessionsEnd::Connect(ConnectError::AuthFailed)));
    assert!(is_refused, "{ended:?}");
    assert_eq!(attempts.load(Ordering::SeqCst), 1);

    let sessions = refused_at(&[1, 2]);
    lose(&sim, next(&sessions).await).await;
    next(&sessions).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 4);
}

/// An ephemeral node, lost when it is deleted.
struct Presence {
    session: Session,
    path: &'static str,
}

impl SessionBound for Presence {
    type Loss = &'static str;

    async fn lost(&self) -> &'static str {
        self.session.wait_for_deletion(self.path).await.ok();
        "the node is gone"
    }
}

#[tokio::test(start_paused = true)]
async fn kept_value_is_made_again_after_each_loss() {
    let sim = Ensemble::new(3);
    let observer = sim.connect().await;
    let sessions = sim.open_sessions();
    let kept = sessions.keep(async |session: Session| {
        let path = "/presence";
        session.create(path, "").ephemeral().await?;
        Ok::<_, zk_core::Error>(Presence { session, path })
    });
    assert!(kept.current().is_none() && kept.problem().is_none());
    let first = soon("it is made", kept.ready()).await.unwrap();

    // Its session ends.
    lose(&sim, first.session.clone()).await;
    let second = soon("it is made again", kept.next_after(&first)).await;
    let second = second.unwrap();
    assert_ne!(second.session.id(), first.session.id());

    // Another client deletes the node, and keeps the name for a while.
    observer.delete("/presence").await.unwrap();
    observer.create("/presence", "").await.unwrap();
    until("the loss is seen", async || kept.current().is_none()).await;
    assert_eq!(kept.problem().as_deref(), Some("the node is gone"));
    until("an attempt has failed", async || {
        kept.problem().is_some_and(|why| why.contains("exist"))
    })
    .await;
    observer.delete("/presence").await.unwrap();
    let third = soon("it is made again", kept.ready()).await.unwrap();
    assert_eq!(third.session.id(), second.session.id());
    assert_eq!(kept.problem(), None);

    sessions.close().await.unwrap();
    until("the end is seen", async || kept.current().is_none()).await;
    assert!(matches!(kept.ready().await, Err(SessionsEnd::Closed)));
}

#[tokio::test(start_paused = true)]
async fn attempt_that_ends_its_session_is_followed_by_one_with_the_next_session() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let first = next(&sessions).await;
    // The attempt hears of the end from its reply, before anything else does.
    sim.session(first.id()).delay_end(Duration::from_secs(1));
    let expired = TransportError::Ended(SessionEnd::Expired);
    sim.on(exists("/presence")).refuse(expired);
    let attempts = AtomicUsize::new(0);
    let kept = sessions.keep(move |session: Session| {
        let number = attempts.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < 10,
            "one attempt after the other with a lost session"
        );
        async move {
            let path = "/presence";
            session.exists(path).await?;
            session.create(path, "").ephemeral().await?;
            Ok::<_, zk_core::Error>(Presence { session, path })
        }
    });
    let made = soon("it is made", kept.ready()).await.unwrap();
    assert_ne!(made.session.id(), first.id());
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_makes_no_further_value() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let running = Arc::new(());
    let attempt = Arc::clone(&running);
    let kept = sessions.keep(move |_| {
        let attempt = Arc::clone(&attempt);
        async move {
            let never = std::future::pending::<Result<Presence, &str>>().await;
            drop(attempt);
            never
        }
    });
    let other = kept.clone();
    until("the attempt runs", async || {
        Arc::strong_count(&running) == 3
    })
    .await;
    drop(kept);
    pass(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&running), 3);
    drop(other);
    until("it is dropped", async || Arc::strong_count(&running) == 1).await;
}

/// The servers grant a session to a client that they refuse afterwards.
#[tokio::test(start_paused = true)]
async fn sessions_end_with_a_first_one_that_is_not_authenticated() {
    let refused = TransportError::Refused(ErrorKind::AuthRequired, None);
    for is_first in [true, false] {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        let mut session = next(&sessions).await;
        if !is_first {
            lose(&sim, session).await;
            session = next(&sessions).await;
        }
        sim.on(anything())
            .session(session.id())
            .refuse(refused.clone());
        let error = session.stat("/").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthRequired);
        assert_eq!(session.state().end(), Some(SessionEnd::AuthRequired));
        let ended = soon("there is another one, or an end", sessions.session()).await;
        if is_first {
            let why = ended.unwrap_err();
            assert!(
                matches!(why, SessionsEnd::Connect(ConnectError::AuthRequired)),
                "{why:?}"
            );
        } else {
            assert_ne!(ended.unwrap().id(), session.id());
        }
    }
}
