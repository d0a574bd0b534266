//! Tests the fault proxy in front of real servers: each fault on each kind of request, and its effect.

use std::net::SocketAddr;
use std::time::Duration;

use zk_fault_proxy::{Clients, Close, Error, EventKind, FaultProxy, Match, Route};
use zk_harness::Ensemble;

use crate::support::raw::{Broken, NO_NODE, OK, RawClient, Request, request};
use crate::support::{eventually, in_memory};

const SOON: Duration = Duration::from_secs(60);
/// Long enough for a frame that is not held to arrive.
const A_WHILE: Duration = Duration::from_millis(200);

async fn single(version: &str) -> Ensemble {
    in_memory(1)
        .zookeeper(version)
        .proxied(true)
        .start()
        .await
        .unwrap()
}

/// Sends a request directly to the server, and returns the error code.
async fn directly(ensemble: &Ensemble, request: &Request) -> i32 {
    let mut raw = RawClient::open(ensemble.servers()[0].client_address())
        .await
        .unwrap();
    let code = raw.call(request).await.unwrap().code;
    raw.call(&request::close()).await.unwrap();
    code
}

/// A request, and how to check whether the server has processed it.
struct Case {
    name: &'static str,
    /// The node to create first.
    exists: Option<&'static str>,
    request: Request,
    matching: Match,
    /// A direct request and the error code that proves the processing; `None` for a read.
    proof: Option<(Request, i32)>,
}

fn cases() -> Vec<Case> {
    let case = |name, exists, request, matching, proof| Case {
        name,
        exists,
        request,
        matching,
        proof,
    };
    vec![
        case(
            "create",
            None,
            request::create("/c"),
            Match::create("/c"),
            Some((request::exists("/c"), OK)),
        ),
        case(
            "delete",
            Some("/d"),
            request::delete("/d"),
            Match::delete("/*"),
            Some((request::exists("/d"), NO_NODE)),
        ),
        case(
            "set",
            Some("/s"),
            request::set("/s", b"new"),
            Match::set("**"),
            Some((request::delete_version_1("/s"), OK)),
        ),
        case(
            "multi",
            Some("/m"),
            request::create_and_delete("/m1", "/m"),
            Match::multi("/m1"),
            Some((request::exists("/m1"), OK)),
        ),
        case(
            "children",
            Some("/l"),
            request::children("/l", false),
            Match::children("/l"),
            None,
        ),
        case("sync", None, request::sync("/"), Match::sync("/"), None),
        case("ping", None, request::ping(), Match::ping(), None),
        case(
            "close",
            Some("ephemeral /e"),
            request::close(),
            Match::close_session(),
            Some((request::exists("/e"), NO_NODE)),
        ),
    ]
}

/// Opens a session through the proxy and creates the case's node.
async fn prepare(proxy: &FaultProxy, case: &Case) -> RawClient {
    let mut raw = RawClient::open(proxy.address(1).unwrap()).await.unwrap();
    let made = match case.exists {
        None => return raw,
        Some(path) => match path.strip_prefix("ephemeral ") {
            Some(path) => request::create_ephemeral(path),
            None => request::create(path),
        },
    };
    assert_eq!(raw.call(&made).await.unwrap().code, OK, "{}", case.name);
    raw
}

/// Returns whether the server has processed the case's request; `None` for a read.
async fn is_done(ensemble: &Ensemble, case: &Case) -> Option<bool> {
    match &case.proof {
        Some((request, code)) => Some(directly(ensemble, request).await == *code),
        None => None,
    }
}

/// Applies every fault that breaks a connection to every case.
async fn every_cut_has_its_documented_effect(version: &str) {
    let ensemble = single(version).await;
    let proxy = ensemble.proxy().unwrap();
    for close in [Close::Fin, Close::Rst] {
        let expected = match close {
            Close::Rst => Broken::Rst,
            _ => Broken::Fin,
        };
        for fault in ["drop", "forward", "reply"] {
            for case in cases() {
                let about = format!("{} and {fault} by {close}", case.name);
                let mut raw = prepare(&proxy, &case).await;
                let session = raw.session;
                proxy.log().clear();
                let matching = case.matching.clone().session(session);
                let rule = proxy.on(matching.clone()).once().close(close);
                let rule = match fault {
                    "drop" => rule.drop_then_cut(),
                    "forward" => rule.forward_then_cut(),
                    _ => rule.cut_on_reply(),
                };
                assert_eq!(
                    raw.call(&case.request).await.unwrap_err(),
                    expected,
                    "{about}"
                );
                assert_eq!(rule.count(), 1, "{about}");
                let log = proxy.log();
                assert_eq!(log.count(&matching), 1, "{about}\n{log}");
                let forwarded = usize::from(fault != "drop");
                assert_eq!(log.count_forwarded(&matching), forwarded, "{about}\n{log}");
                let answer = matching.reply();
                if fault != "drop" {
                    proxy.wait_for(&answer, 1, SOON).await.unwrap();
                }
                assert_eq!(log.count(&answer), forwarded, "{about}\n{log}");
                assert_eq!(log.count_forwarded(&answer), 0, "{about}: it was delivered");
                if let Some(done) = is_done(&ensemble, &case).await {
                    assert_eq!(done, fault != "drop", "{about}\n{log}");
                }
                clean(&ensemble).await;
            }
        }
    }
    ensemble.down().await.unwrap();
}

/// Deletes the nodes of the cases.
async fn clean(ensemble: &Ensemble) {
    for path in ["/c", "/d", "/s", "/m", "/m1", "/l", "/e"] {
        let code = directly(ensemble, &request::delete(path)).await;
        assert!(matches!(code, OK | NO_NODE), "{path}: {code}");
    }
}

#[tokio::test]
async fn every_cut_has_its_documented_effect_on_3_8() {
    every_cut_has_its_documented_effect("3.8").await;
}

#[tokio::test]
async fn every_cut_has_its_documented_effect_on_3_9() {
    every_cut_has_its_documented_effect("3.9").await;
}

#[tokio::test]
async fn a_held_request_is_processed_after_its_release() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    for case in cases() {
        let mut raw = prepare(&proxy, &case).await;
        let matching = case.matching.clone().session(raw.session);
        let rule = proxy.on(matching.clone()).once().hold();
        raw.send(&case.request).await.unwrap();
        rule.happened(SOON).await.unwrap();
        assert!(raw.is_silent_for(A_WHILE).await, "{}", case.name);
        let done = is_done(&ensemble, &case).await;
        assert_ne!(done, Some(true), "{}", case.name);
        assert_eq!(proxy.log().count_forwarded(&matching), 0, "{}", case.name);
        rule.release();
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer.code, OK, "{}", case.name);
        let done = is_done(&ensemble, &case).await;
        assert_ne!(done, Some(false), "{}", case.name);
        clean(&ensemble).await;
    }
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn later_replies_wait_behind_a_held_reply() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = RawClient::open(proxy.address(1).unwrap()).await.unwrap();
    let rule = proxy.on(Match::create("/a").reply()).once().hold();
    raw.send(&request::create("/a")).await.unwrap();
    raw.send(&request::exists("/a")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    proxy
        .wait_for(&Match::exists("/a").reply(), 1, SOON)
        .await
        .unwrap();
    assert_eq!(directly(&ensemble, &request::exists("/a")).await, OK);
    assert!(raw.is_silent_for(A_WHILE).await);
    rule.remove();
    assert_eq!(raw.receive().await.unwrap().xid, 1);
    assert_eq!(raw.receive().await.unwrap().xid, 2);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn a_held_create_is_processed_after_its_client_closed() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = RawClient::open(proxy.address(1).unwrap()).await.unwrap();
    let rule = proxy.on(Match::create("/late")).once().hold();
    raw.send(&request::create("/late")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    drop(raw);
    assert_eq!(
        directly(&ensemble, &request::exists("/late")).await,
        NO_NODE
    );
    rule.release();
    // The server reads the end of the stream after the request, so it may not reply.
    let deadline = tokio::time::Instant::now() + SOON;
    while directly(&ensemble, &request::exists("/late")).await != OK {
        let now = tokio::time::Instant::now();
        assert!(now < deadline, "it was not created\n{}", proxy.log());
    }
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn both_frames_of_the_handshake_can_be_lost() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let dropped = proxy
        .on(Match::handshake())
        .once()
        .close(Close::Rst)
        .drop_then_cut();
    assert_eq!(RawClient::open(address).await.unwrap_err(), Broken::Rst);
    assert_eq!((dropped.count(), proxy.sessions().len()), (1, 0));
    let lost = proxy.on(Match::handshake()).once().cut_on_reply();
    assert_eq!(RawClient::open(address).await.unwrap_err(), Broken::Fin);
    assert_eq!(lost.count(), 1);
    assert_eq!(
        proxy.sessions().len(),
        1,
        "the server has created a session"
    );
    eventually("the session has no connection", || {
        proxy.sessions()[0].server.is_none()
    });
    let late = proxy.on(Match::handshake()).once().delay(A_WHILE);
    let before = std::time::Instant::now();
    RawClient::open(address).await.unwrap();
    assert!(before.elapsed() >= A_WHILE);
    assert_eq!(late.count(), 1);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn a_black_hole_is_silent_in_both_directions_until_healed() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let mut raw = RawClient::open(address).await.unwrap();
    let mut other = RawClient::open(address).await.unwrap();
    raw.call(&request::children("/", true)).await.unwrap();
    let rule = proxy
        .on(Match::any_frame().session(raw.session))
        .black_hole();
    raw.send(&request::create("/swallowed")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    // The watch fires, and its notification is lost.
    assert_eq!(
        other.call(&request::create("/seen")).await.unwrap().code,
        OK
    );
    proxy
        .wait_for(&Match::notification("/"), 1, SOON)
        .await
        .unwrap();
    assert!(raw.is_silent_for(A_WHILE).await);
    assert_eq!(
        directly(&ensemble, &request::exists("/swallowed")).await,
        NO_NODE
    );
    assert_eq!(rule.count(), 1);
    // The client closes in the second black hole; the server does not notice.
    proxy.heal();
    assert_eq!(raw.broken().await, Broken::Fin);
    let rule = proxy.on(Match::ping().session(other.session)).black_hole();
    other.send(&request::ping()).await.unwrap();
    rule.happened(SOON).await.unwrap();
    drop(other);
    rule.remove();
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn delays_of_several_frames_overlap_and_keep_the_order() {
    // With this many, consecutive delays would take much longer than concurrent ones on a busy machine.
    const COUNT: u32 = 25;
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = RawClient::open(proxy.address(1).unwrap()).await.unwrap();
    let delay = Duration::from_millis(800);
    let rule = proxy.on(Match::sync("/")).delay(delay);
    let before = std::time::Instant::now();
    for _ in 0..COUNT {
        raw.send(&request::sync("/")).await.unwrap();
    }
    raw.send(&request::exists("/")).await.unwrap();
    for xid in 1..=COUNT.cast_signed() + 1 {
        assert_eq!(raw.receive().await.unwrap().xid, xid);
        assert!(before.elapsed() >= delay, "xid {xid} came early");
    }
    assert!(
        before.elapsed() < delay * (COUNT - 1),
        "the delays do not overlap: {:?}",
        before.elapsed()
    );
    assert_eq!(rule.count(), u64::from(COUNT));
    rule.remove();
    // 40 bytes, at 100 bytes a second.
    proxy.on(Match::get("/")).rate(100);
    let before = std::time::Instant::now();
    raw.send(&request::get("/")).await.unwrap();
    raw.send(&request::get("/")).await.unwrap();
    raw.receive().await.unwrap();
    raw.receive().await.unwrap();
    assert!(
        before.elapsed() >= Duration::from_millis(360),
        "{:?}",
        before.elapsed()
    );
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn new_connections_follow_their_routes() {
    let ensemble = in_memory(3).proxied(true).start().await.unwrap();
    let proxy = ensemble.proxy().unwrap();
    let at = |server| proxy.address(server).unwrap();
    let server_of = |session| {
        let sessions = proxy.sessions();
        sessions
            .iter()
            .find(|seen| seen.id == session)
            .unwrap()
            .server
    };
    let first = RawClient::open(at(1)).await.unwrap();
    assert_eq!(server_of(first.session), Some(1));
    proxy.route(Clients::All, Route::To(3)).unwrap();
    assert_eq!(
        server_of(first.session),
        Some(1),
        "an open connection stays"
    );
    let second = RawClient::open(at(1)).await.unwrap();
    assert_eq!(server_of(second.session), Some(3));
    proxy
        .route(Clients::Session(first.session), Route::To(2))
        .unwrap();
    assert_eq!(
        proxy.cut(Clients::Session(first.session), Close::Rst).await,
        1
    );
    assert_eq!(server_of(first.session), None);
    let session = first.session;
    let mut resumed = first.resume(at(1)).await.unwrap();
    assert_eq!(resumed.session, session);
    assert_eq!(server_of(session), Some(2));
    assert_eq!(resumed.call(&request::create("/a")).await.unwrap().code, OK);
    proxy.route(Clients::At(1), Route::Refuse).unwrap();
    assert_eq!(RawClient::open(at(1)).await.unwrap_err(), Broken::Rst);
    let third = RawClient::open(at(2)).await.unwrap();
    assert_eq!(server_of(third.session), Some(3));
    assert!(matches!(
        proxy.route(Clients::All, Route::To(9)),
        Err(Error::NoSuchServer { id: 9, .. })
    ));
    assert_eq!(proxy.cut(Clients::At(3), Close::Fin).await, 2);
    assert_eq!(third.broken().await, Broken::Fin);
    assert_eq!(second.broken().await, Broken::Fin);
    proxy.heal();
    assert_eq!(
        server_of(RawClient::open(at(1)).await.unwrap().session),
        Some(1)
    );
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn addresses_stay_when_a_server_is_restarted() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let connect_string = ensemble.connect_string();
    assert_eq!(connect_string, address.to_string());
    assert_ne!(connect_string, ensemble.direct_connect_string());
    let raw = RawClient::open(address).await.unwrap();
    let session = raw.session;
    let server = &ensemble.servers()[0];
    server.kill().await.unwrap();
    let again = raw.resume(address).await;
    assert_eq!(again.unwrap_err(), Broken::Rst, "the server is down");
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    let mut resumed = raw.resume(address).await.unwrap();
    assert_eq!(resumed.session, session);
    assert_eq!(resumed.call(&request::exists("/")).await.unwrap().code, OK);
    assert_eq!(ensemble.connect_string(), connect_string);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn the_log_shows_that_a_create_was_sent_twice() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let creates = Match::create("/twice");
    proxy.on(creates.clone()).once().cut_on_reply();
    let mut raw = RawClient::open(address).await.unwrap();
    raw.call(&request::create("/twice")).await.unwrap_err();
    let mut raw = raw.resume(address).await.unwrap();
    assert_eq!(
        raw.call(&request::create("/twice")).await.unwrap().code,
        -110
    );
    let log = proxy.log();
    assert_eq!(log.count(&creates), 2, "{log}");
    assert_eq!(log.count(&creates.clone().session(raw.session)), 2);
    assert_eq!(log.count(&creates.clone().reply_code(OK)), 1);
    assert_eq!(log.count(&creates.clone().reply_code(-110)), 1);
    assert_eq!(
        log.count_forwarded(&creates.reply()),
        1,
        "one answer was lost"
    );
    let resumed = log
        .events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Connected { resumed, .. } => Some(resumed),
            _ => None,
        });
    assert_eq!(resumed.collect::<Vec<_>>(), [false, true]);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn words_and_invalid_frames_pass_unchanged() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let srvr = zk_harness::admin::srvr(address, SOON).await.unwrap();
    assert!(ensemble.version().starts_with("3.9") && srvr.version.starts_with("3.9"));
    // The server does not accept this length and closes the connection.
    let mut raw = RawClient::open(address).await.unwrap();
    raw.send_bytes(&[0xff; 20]).await.unwrap();
    raw.broken().await;
    let log = proxy.log();
    assert!(
        log.events()
            .iter()
            .any(|event| matches!(event.kind, EventKind::NotUnderstood { .. })),
        "{log}"
    );
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn large_frames_pass_unchanged() {
    let ensemble = in_memory(1)
        .proxied(true)
        .jvm_flags(["-Djute.maxbuffer=33554432", "-Xmx512m"])
        .start()
        .await
        .unwrap();
    let proxy = ensemble.proxy().unwrap();
    let mut raw = RawClient::open(proxy.address(1).unwrap()).await.unwrap();
    raw.call(&request::create("/big")).await.unwrap();
    for megabytes in [1, 3, 4, 9] {
        let data: Vec<u8> = (0..megabytes << 20)
            .map(|at: u32| at.to_le_bytes()[0])
            .collect();
        assert_eq!(
            raw.call(&request::set("/big", &data)).await.unwrap().code,
            OK
        );
        let read = raw.call(&request::get("/big")).await.unwrap().body;
        assert!(read[4..4 + data.len()] == data, "{megabytes} MiB");
    }
    assert_eq!(raw.call(&request::exists("/big")).await.unwrap().code, OK);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn the_error_without_proxies_states_the_remedy() {
    let ensemble = in_memory(1).start().await.unwrap();
    assert_eq!(
        ensemble.proxy().unwrap_err().to_string(),
        "the ensemble has no fault proxies: start it with `Ensemble::builder().proxied(true)`"
    );
    assert_eq!(ensemble.connect_string(), ensemble.direct_connect_string());
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn proxies_end_with_the_ensemble_and_restart_on_attach() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let connect_string = ensemble.connect_string();
    let address = proxy.address(1).unwrap();
    let raw = RawClient::open(address).await.unwrap();
    assert!(has_thread_of(address));
    let directory = ensemble.detach().unwrap();
    is_gone(address);
    raw.broken().await;

    let mut ensemble = Ensemble::attach(&directory).unwrap();
    assert!(ensemble.proxy().is_err());
    ensemble.start_proxies().unwrap();
    ensemble.start_proxies().unwrap();
    assert_eq!(ensemble.connect_string(), connect_string);
    RawClient::open(address).await.unwrap();
    ensemble.down().await.unwrap();
    is_gone(address);
    proxy.heal();
    let log = proxy.log();
    assert!(log.count(&Match::handshake()) > 0, "the log is empty");
}

#[tokio::test]
async fn a_separate_proxy_ends_with_its_last_handle() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.servers()[0].client_address();
    let proxy = FaultProxy::start([server]).unwrap();
    let address = proxy.address(1).unwrap();
    assert_eq!(proxy.connect_string(), address.to_string());
    let other = proxy.clone();
    drop(proxy);
    let mut raw = RawClient::open(address).await.unwrap();
    assert_eq!(raw.call(&request::exists("/")).await.unwrap().code, OK);
    // A closed port.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_server(1, closed.local_addr().unwrap()).unwrap();
    drop(closed);
    assert_eq!(RawClient::open(address).await.unwrap_err(), Broken::Rst);
    other.set_server(1, server).unwrap();
    RawClient::open(address).await.unwrap();
    drop(other);
    is_gone(address);
    ensemble.down().await.unwrap();
}

/// Asserts that neither the port nor the thread of a proxy is left.
#[track_caller]
fn is_gone(address: SocketAddr) {
    eventually("the port is closed", || {
        std::net::TcpStream::connect(address).is_err()
    });
    drop(std::net::TcpListener::bind(address).unwrap());
    eventually("the thread has ended", || !has_thread_of(address));
}

/// Returns whether the proxy with this first address has a thread in this process.
fn has_thread_of(address: SocketAddr) -> bool {
    let name = format!("zk-proxy-{}\n", address.port());
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")))
        .any(|comm| comm.is_ok_and(|comm| comm == name))
}
