//! Retries and deadlines of calls, and the end of connections and sessions.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use zk_core::transport::{Request, TransportError};
use zk_core::{
    ConnectionState, Error, ErrorClass, ErrorKind, Jitter, RetryPolicy, Session, SessionEnd,
};
use zk_sim::Ensemble;
use zk_sim::matching::{self, gets, sets};
use zk_sim::wait::polled;

use crate::{pass, server_error};

/// An error with its sources.
fn chain(error: &Error) -> String {
    let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let texts = sources.map(ToString::to_string);
    let texts: Vec<_> = std::iter::once(error.to_string()).chain(texts).collect();
    texts.join(": ")
}

#[tokio::test(start_paused = true)]
async fn read_is_repeated_until_it_is_answered() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "data").await.unwrap();
    sim.on(gets("/a")).nth(1).lose_request();
    sim.on(gets("/a")).nth(2).lose_reply();
    let later = TransportError::Later(ErrorKind::Throttled);
    sim.on(gets("/a")).nth(3).refuse(later);
    sim.on(gets("/a")).nth(4).refuse(server_error());
    let (data, _) = session.get("/a").await.unwrap();
    assert_eq!((&*data, sim.request_count()), (&b"data"[..], 6));
}

#[tokio::test(start_paused = true)]
async fn write_the_server_did_not_take_is_repeated() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    let moved = TransportError::Later(ErrorKind::SessionMoved);
    let moved = sim.on(matching::deletes("/a")).refuse(moved);
    session.delete("/a").await.unwrap();
    assert_eq!((moved.count(), sim.request_count()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn read_ends_at_the_deadline_with_the_last_fault() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let session = session.with_retry(RetryPolicy::default().jitter(Jitter::None));
    let lost = sim.on(gets("/a")).every().because("connection reset");
    lost.lose_request();
    let start = Instant::now();
    let get = session.get("/a").timeout(Duration::from_secs(3));
    let error = get.await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(
        (error.kind(), error.class()),
        (ErrorKind::ConnectionLost, ErrorClass::Recoverable)
    );
    assert_eq!(error.attempts() as usize, sim.request_count());
    assert_eq!(
        chain(&error),
        "get /a: the connection broke after 8 attempts: connection reset"
    );
    assert!(!error.is_outcome_unknown());
}

#[tokio::test(start_paused = true)]
async fn each_call_has_a_fresh_budget_of_retries() {
    let sim = Ensemble::new(3);
    let policy = RetryPolicy::constant(Duration::from_millis(100)).at_most(2);
    let session = sim.connect().await.with_retry(policy);
    sim.on(gets("/a")).every().refuse(server_error());
    for _ in 0..2 {
        let start = Instant::now();
        let error = session.get("/a").await.unwrap_err();
        let took = start.elapsed().as_millis();
        // Two pauses and three round trips.
        assert_eq!((error.attempts(), took), (3, 206));
    }
    assert_eq!(session.counters().retries, 4);
}

#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_read_at_the_deadline() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    sim.on(matching::lists("/a")).hold();
    let error = session.list("/a").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "list /a: no reply in time (waited 10s for the reply)"
    );
}

#[tokio::test(start_paused = true)]
async fn definite_answers_are_not_repeated() {
    for kind in [
        ErrorKind::NoNode,
        ErrorKind::NodeExists,
        ErrorKind::BadVersion,
        ErrorKind::NotEmpty,
        ErrorKind::ParentIsEphemeral,
        ErrorKind::NoAuth,
        ErrorKind::InvalidAcl,
        ErrorKind::QuotaExceeded,
        ErrorKind::ReadOnlyServer,
        ErrorKind::Unsupported,
        ErrorKind::InvalidArgument,
    ] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let refusal = TransportError::Refused(kind, None);
        sim.on(matching::anything()).every().refuse(refusal);
        let read = session.get("/a").await.unwrap_err();
        let write = session.set("/a", "").await.unwrap_err();
        assert_eq!((read.kind(), write.kind()), (kind, kind));
        assert_eq!(sim.request_count(), 2);
        let class = match kind {
            ErrorKind::ReadOnlyServer => ErrorClass::Recoverable,
            _ => ErrorClass::Outcome,
        };
        assert_eq!(read.class(), class);
        assert!(!write.is_outcome_unknown());
    }
}

/// Servers may close the connection at a request that they do not know, and again at each repetition.
#[tokio::test(start_paused = true)]
async fn a_request_that_servers_may_not_know_is_repeated_once() {
    for what in ["whoami", "create", "protected"] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let too_old = TransportError::MaybeTooOld {
            needs: "3.5.0".to_owned(),
            why: "closed".to_owned(),
        };
        let is_new = |request: &Request| matches!(request, Request::Create2(_) | Request::WhoAmI);
        let refused = sim.on(is_new).every().refuse(too_old);
        let create = session.create("/a", "").ephemeral();
        let (error, kind) = match what {
            "whoami" => (session.whoami().await.err(), ErrorKind::ConnectionLost),
            "create" => (create.await.err(), ErrorKind::OutcomeUnknown),
            _ => {
                let protected = create.sequential().protected().await;
                (protected.err(), ErrorKind::OutcomeUnknown)
            }
        };
        let error = error.expect("no server knows it");
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains("servers before ZooKeeper 3.5.0"), "{text}");
        assert!(text.contains("assume_release"), "{text}");
        assert_eq!(refused.count(), 2, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_session_is_not_connected() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    sim.session(session.id()).partition();
    let start = Instant::now();
    let create = session.create("/a", "").timeout(Duration::from_secs(2));
    let error = create.await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(
        (error.kind(), error.attempts()),
        (ErrorKind::NotConnected, 0)
    );
    assert!(!error.is_outcome_unknown());
    assert_eq!(
        error.to_string(),
        "create /a: not sent, the session was not connected (waited 2s for a connection to simulated:2181)"
    );
    let error = session.get("/a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(12),
        "the session's default bounds the second call"
    );
    assert_eq!(sim.request_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_deadline() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let set = session.set("/a", "x").timeout(Duration::ZERO);
    let write = set.await.unwrap_err();
    let read = session.get("/a").timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(sim.request_count(), 0);
    for error in [&write, &read] {
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::TimedOut, 0));
        assert!(!error.is_outcome_unknown());
    }
    assert_eq!(
        write.to_string(),
        "set /a: no reply in time (not sent within 0ns)"
    );
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_fatal_and_says_whether_a_write_was_in_flight() {
    for (end, kind) in [
        (SessionEnd::Expired, ErrorKind::SessionExpired),
        (SessionEnd::AuthFailed, ErrorKind::AuthFailed),
        (SessionEnd::AuthRequired, ErrorKind::AuthRequired),
        (SessionEnd::Closed, ErrorKind::SessionClosed),
        (SessionEnd::RuntimeEnded, ErrorKind::SessionClosed),
    ] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let delay = Duration::from_secs(1);
        sim.session(session.id()).delay_end(delay);
        sim.on(sets("/a")).refuse(TransportError::Ended(end));
        let in_flight = session.set("/a", "x").await.unwrap_err();
        let read = session.get("/a").await.unwrap_err();
        // A client that is closed may be so because of another handle; the other ends are final at once.
        let is_final = !matches!(end, SessionEnd::Closed | SessionEnd::RuntimeEnded);
        assert_eq!(sim.request_count(), if is_final { 1 } else { 2 });
        pass(delay * 2).await;
        let later = session.set("/a", "x").await.unwrap_err();
        assert_eq!((session.lost().await, later.attempts()), (end, 0));
        let unknown = [&in_flight, &read, &later].map(Error::is_outcome_unknown);
        assert_eq!(unknown, [true, false, false]);
        for error in [in_flight, read, later] {
            assert_eq!((error.kind(), error.class()), (kind, ErrorClass::Fatal));
        }
        assert_eq!(session.close().await.is_ok(), end == SessionEnd::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn caller_that_sees_the_session_end_finds_it_lost() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let delay = Duration::from_secs(1);
    sim.session(session.id()).delay_end(delay);
    let ended = TransportError::Ended(SessionEnd::Expired);
    sim.on(gets("/a")).refuse(ended);
    let mut changes = session.state_changes();
    assert_eq!(changes.next().await, Some(ConnectionState::Connected));
    assert!(session.get("/a").await.unwrap_err().is_fatal());
    // The transport has not updated the link.
    let lost = ConnectionState::Lost(SessionEnd::Expired);
    assert_eq!(session.state(), lost);
    assert_eq!(session.lost().now_or_never(), Some(SessionEnd::Expired));
    let later: Vec<_> = session.state_changes().into_stream().collect().await;
    assert_eq!(later, [lost]);
    assert_eq!(changes.next().await, Some(lost));
    pass(delay * 2).await;
    assert_eq!(changes.next().await, None);
    assert_eq!(session.valid_until(), None);
    let error = session.set("/a", "").await.unwrap_err();
    assert_eq!((error.is_fatal(), error.attempts()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn pause_ends_after_its_time_or_with_the_session() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let pause = Duration::from_secs(60);
    let start = Instant::now();
    assert_eq!(session.pause(pause).await, None);
    assert_eq!(start.elapsed(), pause);
    let (end, ()) = tokio::join!(session.pause(pause), async {
        pass(Duration::from_secs(1)).await;
        sim.expire(session.id());
    });
    assert_eq!(end, Some(SessionEnd::Expired));
    assert!(start.elapsed() < pause * 2, "it did not wait");
    // Other tasks run, also between the attempts of a loop without another await.
    assert_eq!(polled(1, session.pause(pause)).await, None);
    let over = polled(2, session.pause(pause)).await;
    assert_eq!(over, Some(Some(SessionEnd::Expired)));
}

#[tokio::test(start_paused = true)]
async fn refused_write_has_a_known_outcome_when_the_session_ends() {
    let sim = Ensemble::new(3);
    let policy = RetryPolicy::constant(Duration::from_secs(1));
    let session = sim.connect().await.with_retry(policy);
    let later = TransportError::Later(ErrorKind::Throttled);
    let refused = sim.on(sets("/a")).refuse(later);
    let error = crate::meanwhile(refused, session.set("/a", "x"), async || {
        sim.expire(session.id());
    });
    let error = error.await.unwrap_err();
    assert_eq!(
        (error.kind(), sim.request_count()),
        (ErrorKind::SessionExpired, 1)
    );
    assert!(!error.is_outcome_unknown(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn close_without_a_reply_ends_at_the_deadline_and_calls_with_it() {
    for is_partitioned in [false, true] {
        let sim = Ensemble::new(1);
        let session = sim.connect().await;
        if is_partitioned {
            sim.session(session.id()).partition();
        } else {
            sim.server(1).pause();
        }
        let start = Instant::now();
        let error = session.close().await.unwrap_err();
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert_eq!(
            error.to_string(),
            "close: no reply in time (no reply from simulated:2181 to closing session 0x100000000000001 within 10s)"
        );
        let error = session.get("/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionClosed);
        assert_eq!(start.elapsed(), Duration::from_secs(10), "it did not wait");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_while_the_session_ends_was_not_sent() {
    let sim = Ensemble::builder().reconnect_after(MINUTE).build();
    let session = sim.connect().timeout(MINUTE * 2).await;
    session.create("/a", "").await.unwrap();
    let waits = sim.on(sets("/a")).postpone();
    let set = session.set("/a", "x").timeout(MINUTE);
    let error = crate::meanwhile(waits, set, async || sim.expire(session.id())).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    assert!(!error.is_outcome_unknown(), "{error}");
    assert_eq!(sim.tree().node("/a").unwrap().data(), b"");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_until_its_deadline_is_taken_back() {
    let sim = Ensemble::builder().reconnect_after(MINUTE / 4).build();
    let session = sim.connect().timeout(MINUTE * 2).await;
    session.create("/a", "").await.unwrap();
    sim.on(sets("/a")).postpone();
    let start = Instant::now();
    let allowed = Duration::from_secs(2);
    let error = session.set("/a", "x").timeout(allowed).await.unwrap_err();
    assert_eq!(start.elapsed(), allowed);
    let is_unknown = error.is_outcome_unknown();
    assert_eq!((error.kind(), is_unknown), (ErrorKind::NotConnected, false));
    assert_eq!(error.attempts(), 0);
    let (data, _) = session.get("/a").timeout(MINUTE).await.unwrap();
    assert_eq!(data, "", "it is not sent on the next connection");
}

#[tokio::test]
async fn a_write_behind_others_without_replies_is_taken_back() {
    let sim = Ensemble::new(1);
    let servers = sim.listen().await.unwrap();
    let builder = Session::builder(servers.connect_string()).session_timeout(MINUTE);
    let session = builder.connect().await.unwrap();
    session.create("/a", "").await.unwrap();
    sim.session(session.id()).silence();
    // As many as the client lets wait for replies at once.
    let others = (0..1_000).map(|_| session.set("/a", "other").timeout(MINUTE));
    let mut others: FuturesUnordered<_> = others.map(IntoFuture::into_future).collect();
    let allowed = Duration::from_secs(1);
    let behind = session.set("/a", "behind").timeout(allowed);
    let error = tokio::select! {
        biased;
        _ = others.next() => unreachable!("the server is silent"),
        behind = behind => behind.unwrap_err(),
    };
    let is_unknown = error.is_outcome_unknown();
    assert_eq!((error.kind(), is_unknown), (ErrorKind::TimedOut, false));
    assert_eq!(
        error.to_string(),
        "set /a: no reply in time (not sent within 1s)"
    );
    sim.session(session.id()).heal();
    assert_eq!(others.count().await, 1_000);
    let (data, stat) = session.get("/a").await.unwrap();
    assert_eq!((&*data, stat.version), (&b"other"[..], 1_000));
}

const MINUTE: Duration = Duration::from_secs(60);
