//! Scripted failures, each with its effect on the client and on the servers.

use std::pin::Pin;
use std::time::Duration;

use zk_core::transport::{
    CreateMode, NewNode, NodeData, Phase, Request, Response, Transport, TransportError,
};
use zk_core::{ErrorKind, NodePath};
use zk_sim::{Ensemble, RequestOutcome, SimTransport, matching};

fn path(path: &str) -> NodePath {
    path.parse().unwrap()
}

fn create(at: &str) -> Request {
    Request::Create2(NewNode {
        path: path(at),
        data: NodeData::default(),
        mode: CreateMode::EphemeralSequential,
        acl: zk_core::Acl::open(),
    })
}

fn list(at: &str) -> Request {
    Request::GetChildren2 {
        path: path(at),
        watch: false,
    }
}

fn sync() -> Request {
    Request::Sync { path: path("/") }
}

/// Submits a request, for its result alone.
fn submit(
    transport: &SimTransport,
    request: Request,
) -> Pin<Box<dyn Future<Output = Result<Response, TransportError>> + Send>> {
    let reply = transport.submit(request);
    Box::pin(async move { reply.await.result })
}

async fn names(transport: &SimTransport) -> usize {
    match submit(transport, list("/")).await.unwrap() {
        // The server's own node also exists.
        Response::Children { names, .. } => names.len() - 1,
        other => unreachable!("{other:?}"),
    }
}

async fn back(transport: &SimTransport) {
    let mut link = transport.link();
    let up = link.wait_for(|link| link.phase == Phase::Up);
    tokio::time::timeout(Duration::from_secs(5), up)
        .await
        .expect("waited for the link to come back")
        .unwrap();
}

fn outcomes(sim: &Ensemble) -> Vec<RequestOutcome> {
    let requests = sim.requests();
    requests.into_iter().map(|seen| seen.outcome).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_applied_and_one_with_a_lost_reply_is() {
    for reply in [false, true] {
        let sim = Ensemble::new(3);
        let session = sim.connect().transport().await;
        let script = sim.on(matching::creates("/n-")).because("gone");
        let script = if reply {
            script.lose_reply()
        } else {
            script.lose_request()
        };
        let fault = submit(&session, create("/n-")).await.unwrap_err();
        assert_eq!(fault, TransportError::Lost("gone".to_owned()));
        assert_eq!(script.count(), 1);
        assert_eq!(sim.tree().paths().len(), usize::from(reply));
        let seen = sim.requests().pop().unwrap();
        assert_eq!((seen.is_carried_out(), seen.answered), (reply, false));
        assert_eq!(seen.has_arrived(), reply);
        assert_eq!(session.link().now().breaks, 1);
        back(&session).await;
        assert_eq!(sim.session(session.session_id()).server(), Some(2));
        // Only the first request matched.
        submit(&session, create("/n-")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_postponed_request_goes_out_on_the_next_link() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(1).transport().await;
    let script = sim.on(matching::creates("/b")).postpone();
    let (before, postponed, after) = tokio::join!(
        submit(&session, create("/a")),
        submit(&session, create("/b")),
        submit(&session, create("/c"))
    );
    assert!(matches!(before, Err(TransportError::Lost(_))), "{before:?}");
    assert!(
        postponed.is_ok() && after.is_ok(),
        "{postponed:?} {after:?}"
    );
    assert_eq!((script.count(), session.link().now().breaks), (1, 1));
    let servers: Vec<_> = sim.requests().iter().map(|seen| seen.server).collect();
    assert_eq!(servers, [1, 2, 2]);
    assert_eq!(sim.tree().paths().len(), 2, "each was sent once");
}

#[tokio::test(start_paused = true)]
async fn requests_around_a_lost_one_keep_their_order() {
    let sim = Ensemble::new(3);
    let session = sim.connect().transport().await;
    sim.on(matching::creates("/b")).lose_reply();
    let (first, second, third) = tokio::join!(
        submit(&session, create("/a")),
        submit(&session, create("/b")),
        submit(&session, create("/c"))
    );
    assert!(first.is_ok() && second.is_err() && third.is_err());
    let [first, second, third] = outcomes(&sim).try_into().unwrap();
    assert!(matches!(first, RequestOutcome::CarriedOut { .. }));
    assert!(matches!(second, RequestOutcome::CarriedOut { .. }));
    assert_eq!(third, RequestOutcome::NeverArrived);
}

#[tokio::test(start_paused = true)]
async fn only_the_selected_request_fails() {
    let sim = Ensemble::new(1);
    let one = sim.connect().transport().await;
    let two = sim.connect().transport().await;
    let script = sim
        .on(matching::creates("/n-"))
        .session(two.session_id())
        .nth(2)
        .refuse(TransportError::Later(ErrorKind::Throttled));
    for (session, is_matched) in [(&one, false), (&two, false), (&two, true), (&two, false)] {
        assert_eq!(submit(session, create("/n-")).await.is_err(), is_matched);
    }
    assert_eq!(script.count(), 1);
    assert_eq!(sim.tree().paths().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_misreported_write_is_applied() {
    let sim = Ensemble::new(1);
    let session = sim.connect().transport().await;
    let fault = TransportError::Server("runtime inconsistency".to_owned());
    sim.on(matching::writes()).misreport(fault.clone());
    assert_eq!(submit(&session, create("/n-")).await.unwrap_err(), fault);
    assert_eq!(sim.tree().paths().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_moved_session_sees_its_stalled_create_only_after_a_sync() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(1).transport().await;
    let script = sim.on(matching::creates("/n-")).stall_then_move(2);
    assert!(submit(&session, create("/n-")).await.is_err());
    script.happened().await;
    back(&session).await;
    assert_eq!(sim.session(session.session_id()).server(), Some(2));
    assert_eq!(sim.tree().paths().len(), 1, "committed");
    assert_eq!(names(&session).await, 0, "the new server does not show it");
    submit(&session, sync()).await.unwrap();
    assert_eq!(names(&session).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_stuck_until_the_session_has_moved_is_never_applied() {
    let sim = Ensemble::new(3);
    let session = sim.connect().transport().await;
    let script = sim.on(matching::creates("/n-")).stall();
    assert!(submit(&session, create("/n-")).await.is_err());
    back(&session).await;
    submit(&session, sync()).await.unwrap();
    assert_eq!(names(&session).await, 0);
    script.release();
    submit(&session, sync()).await.unwrap();
    assert_eq!(names(&session).await, 0);
    assert_eq!(outcomes(&sim)[0], RequestOutcome::Fenced);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_write_released_before_the_session_moves_is_applied() {
    let sim = Ensemble::new(3);
    let session = sim.connect().transport().await;
    let script = sim.on(matching::creates("/n-")).stall();
    assert!(submit(&session, create("/n-")).await.is_err());
    script.release();
    back(&session).await;
    assert_eq!(names(&session).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_write_precedes_a_reconnection_to_the_same_server() {
    let sim = Ensemble::new(1);
    let session = sim.connect().transport().await;
    sim.on(matching::creates("/n-")).stall();
    assert!(submit(&session, create("/n-")).await.is_err());
    assert!(sim.tree().paths().is_empty());
    back(&session).await;
    assert_eq!(names(&session).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_reply_holds_up_what_comes_after_it_until_it_is_released() {
    let sim = Ensemble::new(1);
    let session = sim.connect().transport().await;
    let script = sim.on(matching::creates("/n-")).hold();
    let (created, read, ()) = tokio::join!(
        submit(&session, create("/n-")),
        submit(&session, list("/")),
        async {
            script.happened().await;
            assert_eq!(sim.tree().paths().len(), 1);
            tokio::time::advance(Duration::from_secs(3)).await;
            assert!(sim.requests().iter().all(|seen| !seen.answered));
            script.release();
        }
    );
    created.unwrap();
    read.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_held_reply_is_lost_with_the_link() {
    let sim = Ensemble::new(1);
    let session = sim.connect().transport().await;
    let script = sim.on(matching::creates("/n-")).hold();
    let (created, ()) = tokio::join!(submit(&session, create("/n-")), async {
        script.happened().await;
        sim.session(session.session_id()).cut();
    });
    assert!(matches!(created, Err(TransportError::Lost(_))));
    script.release();
    back(&session).await;
    assert_eq!(names(&session).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_wait_for_a_server_that_lags() {
    let sim = Ensemble::new(2);
    let session = sim.connect().server(2).transport().await;
    sim.server(2).lag();
    sim.on(matching::creates("/n-")).lose_reply();
    let lost = tokio::time::timeout(Duration::from_secs(1), submit(&session, create("/n-")));
    assert!(matches!(lost.await, Ok(Err(TransportError::Lost(_)))));
    assert_eq!(sim.tree().paths().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_behind_what_a_session_has_seen_sends_it_on() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(1).transport().await;
    sim.server(2).lag();
    submit(&session, create("/n-")).await.unwrap();
    sim.session(session.session_id()).move_to(2);
    back(&session).await;
    assert_eq!(sim.session(session.session_id()).server(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_request_made_without_a_link_waits_and_is_sent_when_it_is_back() {
    let sim = Ensemble::new(3);
    let session = sim.connect().transport().await;
    sim.session(session.session_id())
        .cut_for(Duration::from_secs(2));
    let begin = tokio::time::Instant::now();
    let mut dropped = submit(&session, create("/dropped"));
    let first = std::future::poll_fn(|context| {
        std::task::Poll::Ready(dropped.as_mut().poll(context).is_pending())
    });
    assert!(first.await);
    drop(dropped);
    submit(&session, create("/kept")).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(2002));
    assert_eq!(sim.tree().paths().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_protected_create_leaves_one_node_whatever_happens_to_it() {
    for fault in 0..5 {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let on = sim.on(matching::creates("/**"));
        let script = match fault {
            0 => on.lose_request(),
            1 => on.lose_reply(),
            2 => on.stall_then_move(2),
            3 => on.stall(),
            _ => on.refuse(TransportError::Later(ErrorKind::SessionMoved)),
        };
        let (path, _) = session
            .create("/n-", "")
            .ephemeral()
            .sequential()
            .protected()
            .await
            .unwrap();
        script.release();
        session.sync("/").await.unwrap();
        assert_eq!(script.count(), 1);
        assert_eq!(sim.tree().paths(), [path.as_str()], "fault {fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_script_gives_the_same_log() {
    let mut records = Vec::new();
    for _ in 0..2 {
        let sim = Ensemble::new(3);
        let one = sim.connect().transport().await;
        let two = sim.connect().transport().await;
        sim.on(matching::creates("/n-")).nth(3).lose_reply();
        sim.on(matching::lists("/")).nth(2).lose_request();
        for _ in 0..4 {
            let _all = tokio::join!(
                submit(&one, create("/n-")),
                submit(&two, create("/n-")),
                submit(&one, list("/")),
                submit(&two, sync())
            );
        }
        records.push((sim.requests(), sim.tree()));
    }
    assert_eq!(records[0], records[1]);
}

#[tokio::test(start_paused = true)]
async fn an_exact_deletion_finds_a_node_that_its_server_does_not_show_yet() {
    let ensemble = Ensemble::new(3);
    let (near, far) = (
        ensemble.connect().server(1).await,
        ensemble.connect().server(2).await,
    );
    near.create("/seen", "").await.unwrap();
    far.sync("/seen").await.unwrap();
    ensemble.server(2).lag_for(Duration::from_millis(500));
    let (made, stat) = near.create("/a", "").await.unwrap();
    assert!(far.exists(made.as_str()).await.unwrap().is_none());
    far.delete(made.as_str())
        .created_by(stat.czxid)
        .await
        .unwrap();
    assert!(near.exists(made.as_str()).await.unwrap().is_none());
    let gone = far.delete(made.as_str()).created_by(stat.czxid).await;
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NoNode);
}
