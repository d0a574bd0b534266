//! The fault proxy in front of real servers: each fault at each kind of request, and what the ensemble then holds.

use std::net::SocketAddr;
use std::time::Duration;

use zk_fault_proxy::Clients;
use zk_fault_proxy::Close;
use zk_fault_proxy::Error;
use zk_fault_proxy::FaultProxy;
use zk_fault_proxy::Match;
use zk_fault_proxy::Steer;
use zk_fault_proxy::What;
use zk_harness::Ensemble;

use crate::support::eventually;
use crate::support::in_memory;
use crate::support::raw::Ask;
use crate::support::raw::Broken;
use crate::support::raw::NO_NODE;
use crate::support::raw::OK;
use crate::support::raw::Raw;
use crate::support::raw::ask;

const SOON: Duration = Duration::from_secs(10);
/// Long enough that what is held back would have arrived.
const A_WHILE: Duration = Duration::from_millis(200);

async fn single(version: &str) -> Ensemble {
    in_memory(1)
        .zookeeper(version)
        .proxied(true)
        .start()
        .await
        .unwrap()
}

/// Asks a server past the proxy.
async fn directly(ensemble: &Ensemble, ask: &Ask) -> i32 {
    let mut raw = Raw::open(ensemble.servers()[0].client_address())
        .await
        .unwrap();
    let code = raw.ask(ask).await.unwrap().code;
    raw.ask(&ask::close()).await.unwrap();
    code
}

/// What each case of the table does, and how one sees that the server has carried it out.
struct Case {
    name: &'static str,
    /// Made before.
    exists: Option<&'static str>,
    ask: Ask,
    matching: Match,
    /// Asked directly: this answer means that it has been carried out; nothing if it changes nothing.
    proof: Option<(Ask, i32)>,
}

fn cases() -> Vec<Case> {
    let case = |name, exists, ask, matching, proof| Case {
        name,
        exists,
        ask,
        matching,
        proof,
    };
    vec![
        case(
            "create",
            None,
            ask::create("/c"),
            Match::create("/c"),
            Some((ask::exists("/c"), OK)),
        ),
        case(
            "delete",
            Some("/d"),
            ask::delete("/d"),
            Match::delete("/*"),
            Some((ask::exists("/d"), NO_NODE)),
        ),
        case(
            "set",
            Some("/s"),
            ask::set("/s", b"new"),
            Match::set("**"),
            Some((ask::delete_version_1("/s"), OK)),
        ),
        case(
            "multi",
            Some("/m"),
            ask::create_and_delete("/m1", "/m"),
            Match::multi("/m1"),
            Some((ask::exists("/m1"), OK)),
        ),
        case(
            "children",
            Some("/l"),
            ask::children("/l", false),
            Match::children("/l"),
            None,
        ),
        case("sync", None, ask::sync("/"), Match::sync("/"), None),
        case("ping", None, ask::ping(), Match::ping(), None),
        case(
            "close",
            Some("ephemeral /e"),
            ask::close(),
            Match::close_session(),
            Some((ask::exists("/e"), NO_NODE)),
        ),
    ]
}

/// Opens a session through the proxy and prepares the case's node.
async fn prepare(proxy: &FaultProxy, case: &Case) -> Raw {
    let mut raw = Raw::open(proxy.address(1).unwrap()).await.unwrap();
    let made = match case.exists {
        None => return raw,
        Some(path) => match path.strip_prefix("ephemeral ") {
            Some(path) => ask::create_ephemeral(path),
            None => ask::create(path),
        },
    };
    assert_eq!(raw.ask(&made).await.unwrap().code, OK, "{}", case.name);
    raw
}

/// Whether the server has carried out the case's request.
async fn is_done(ensemble: &Ensemble, case: &Case) -> Option<bool> {
    match &case.proof {
        Some((ask, code)) => Some(directly(ensemble, ask).await == *code),
        None => None,
    }
}

/// The table under every fault that breaks a connection.
async fn breaks_as_told(version: &str) {
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
                assert_eq!(raw.ask(&case.ask).await.unwrap_err(), expected, "{about}");
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
                assert_eq!(
                    log.count_forwarded(&answer),
                    0,
                    "{about}: it was not delivered"
                );
                if let Some(done) = is_done(&ensemble, &case).await {
                    assert_eq!(done, fault != "drop", "{about}\n{log}");
                }
                clean(&ensemble).await;
            }
        }
    }
    ensemble.down().await.unwrap();
}

/// Removes whatever a case has left. Nodes of sessions that are gone go with them.
async fn clean(ensemble: &Ensemble) {
    for path in ["/c", "/d", "/s", "/m", "/m1", "/l", "/e"] {
        let code = directly(ensemble, &ask::delete(path)).await;
        assert!(matches!(code, OK | NO_NODE), "{path}: {code}");
    }
}

// covers: H7
#[tokio::test]
async fn a_cut_before_after_and_on_the_reply_leaves_what_it_says_on_3_8() {
    breaks_as_told("3.8").await;
}

// covers: H7
#[tokio::test]
async fn a_cut_before_after_and_on_the_reply_leaves_what_it_says_on_3_9() {
    breaks_as_told("3.9").await;
}

// covers: H7
#[tokio::test]
async fn a_held_request_is_carried_out_when_it_is_released() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    for case in cases() {
        let mut raw = prepare(&proxy, &case).await;
        let matching = case.matching.clone().session(raw.session);
        let rule = proxy.on(matching.clone()).once().hold();
        raw.send(&case.ask).await.unwrap();
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

// covers: H7
#[tokio::test]
async fn a_held_reply_is_late_and_what_follows_waits_behind_it() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = Raw::open(proxy.address(1).unwrap()).await.unwrap();
    let rule = proxy.on(Match::create("/a").reply()).once().hold();
    raw.send(&ask::create("/a")).await.unwrap();
    raw.send(&ask::exists("/a")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    proxy
        .wait_for(&Match::exists("/a").reply(), 1, SOON)
        .await
        .unwrap();
    assert_eq!(directly(&ensemble, &ask::exists("/a")).await, OK);
    assert!(raw.is_silent_for(A_WHILE).await);
    rule.remove();
    assert_eq!(raw.receive().await.unwrap().xid, 1);
    assert_eq!(raw.receive().await.unwrap().xid, 2);
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_held_create_lands_after_its_client_is_gone() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = Raw::open(proxy.address(1).unwrap()).await.unwrap();
    let rule = proxy.on(Match::create("/late")).once().hold();
    raw.send(&ask::create("/late")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    drop(raw);
    assert_eq!(directly(&ensemble, &ask::exists("/late")).await, NO_NODE);
    rule.release();
    // The server reads the request and then that its client is gone, so it may not answer.
    let deadline = tokio::time::Instant::now() + SOON;
    while directly(&ensemble, &ask::exists("/late")).await != OK {
        let now = tokio::time::Instant::now();
        assert!(now < deadline, "not there\n{}", proxy.log());
    }
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn the_handshake_can_be_dropped_and_its_answer_lost() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let dropped = proxy
        .on(Match::handshake())
        .once()
        .close(Close::Rst)
        .drop_then_cut();
    assert_eq!(Raw::open(address).await.unwrap_err(), Broken::Rst);
    assert_eq!((dropped.count(), proxy.sessions().len()), (1, 0));
    let lost = proxy.on(Match::handshake()).once().cut_on_reply();
    assert_eq!(Raw::open(address).await.unwrap_err(), Broken::Fin);
    assert_eq!(lost.count(), 1);
    assert_eq!(proxy.sessions().len(), 1, "the server has made a session");
    eventually("it has no connection any more", || {
        proxy.sessions()[0].server.is_none()
    });
    let late = proxy.on(Match::handshake()).once().delay(A_WHILE);
    let before = std::time::Instant::now();
    Raw::open(address).await.unwrap();
    assert!(before.elapsed() >= A_WHILE);
    assert_eq!(late.count(), 1);
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_black_hole_is_silent_in_both_directions_until_it_is_healed() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let mut raw = Raw::open(address).await.unwrap();
    let mut other = Raw::open(address).await.unwrap();
    raw.ask(&ask::children("/", true)).await.unwrap();
    let rule = proxy
        .on(Match::any_frame().session(raw.session))
        .black_hole();
    raw.send(&ask::create("/swallowed")).await.unwrap();
    rule.happened(SOON).await.unwrap();
    // The watch fires, and nobody hears of it.
    assert_eq!(other.ask(&ask::create("/seen")).await.unwrap().code, OK);
    proxy
        .wait_for(&Match::notification("/"), 1, SOON)
        .await
        .unwrap();
    assert!(raw.is_silent_for(A_WHILE).await);
    assert_eq!(
        directly(&ensemble, &ask::exists("/swallowed")).await,
        NO_NODE
    );
    assert_eq!(rule.count(), 1);
    // In the second black hole the client does not even wait: the server still thinks that it is there.
    proxy.heal();
    assert_eq!(raw.broken().await, Broken::Fin);
    let rule = proxy.on(Match::ping().session(other.session)).black_hole();
    other.send(&ask::ping()).await.unwrap();
    rule.happened(SOON).await.unwrap();
    drop(other);
    rule.remove();
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_delay_counts_for_each_frame_and_keeps_the_order() {
    // So many that it takes much longer one after the other than on a busy machine.
    const COUNT: u32 = 25;
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let mut raw = Raw::open(proxy.address(1).unwrap()).await.unwrap();
    let delay = Duration::from_millis(800);
    let rule = proxy.on(Match::sync("/")).delay(delay);
    let before = std::time::Instant::now();
    for _ in 0..COUNT {
        raw.send(&ask::sync("/")).await.unwrap();
    }
    raw.send(&ask::exists("/")).await.unwrap();
    for xid in 1..=COUNT.cast_signed() + 1 {
        assert_eq!(raw.receive().await.unwrap().xid, xid);
        assert!(before.elapsed() >= delay, "xid {xid} came early");
    }
    assert!(
        before.elapsed() < delay * (COUNT - 1),
        "the delays are side by side: {:?}",
        before.elapsed()
    );
    assert_eq!(rule.count(), u64::from(COUNT));
    rule.remove();
    // 40 bytes, at 100 bytes a second.
    proxy.on(Match::get("/")).rate(100);
    let before = std::time::Instant::now();
    raw.send(&ask::get("/")).await.unwrap();
    raw.send(&ask::get("/")).await.unwrap();
    raw.receive().await.unwrap();
    raw.receive().await.unwrap();
    assert!(
        before.elapsed() >= Duration::from_millis(360),
        "{:?}",
        before.elapsed()
    );
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn new_connections_are_led_where_they_are_steered() {
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
    let first = Raw::open(at(1)).await.unwrap();
    assert_eq!(server_of(first.session), Some(1));
    proxy.route(Clients::All, Route::To(3)).unwrap();
    assert_eq!(server_of(first.session), Some(1), "a live connection stays");
    let second = Raw::open(at(1)).await.unwrap();
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
    assert_eq!(resumed.ask(&ask::create("/a")).await.unwrap().code, OK);
    proxy.route(Clients::At(1), Route::Refuse).unwrap();
    assert_eq!(Raw::open(at(1)).await.unwrap_err(), Broken::Rst);
    let third = Raw::open(at(2)).await.unwrap();
    assert_eq!(server_of(third.session), Some(3));
    assert!(matches!(
        proxy.route(Clients::All, Route::To(9)),
        Err(Error::NoSuchServer { id: 9, .. })
    ));
    assert_eq!(proxy.cut(Clients::At(3), Close::Fin).await, 2);
    assert_eq!(third.broken().await, Broken::Fin);
    assert_eq!(second.broken().await, Broken::Fin);
    proxy.heal();
    assert_eq!(server_of(Raw::open(at(1)).await.unwrap().session), Some(1));
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn addresses_stay_when_a_server_is_killed_and_comes_back() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let connect_string = ensemble.connect_string();
    assert_eq!(connect_string, address.to_string());
    assert_ne!(connect_string, ensemble.direct_connect_string());
    let raw = Raw::open(address).await.unwrap();
    let session = raw.session;
    let server = &ensemble.servers()[0];
    server.kill().await.unwrap();
    let again = raw.resume(address).await;
    assert_eq!(again.unwrap_err(), Broken::Rst, "nobody listens");
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    let mut resumed = raw.resume(address).await.unwrap();
    assert_eq!(resumed.session, session);
    assert_eq!(resumed.ask(&ask::exists("/")).await.unwrap().code, OK);
    assert_eq!(ensemble.connect_string(), connect_string);
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn the_log_tells_that_a_create_was_sent_twice() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let creates = Match::create("/twice");
    proxy.on(creates.clone()).once().cut_on_reply();
    let mut raw = Raw::open(address).await.unwrap();
    raw.ask(&ask::create("/twice")).await.unwrap_err();
    let mut raw = raw.resume(address).await.unwrap();
    assert_eq!(raw.ask(&ask::create("/twice")).await.unwrap().code, -110);
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

// covers: H7
#[tokio::test]
async fn words_and_garbage_pass_as_they_are() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let address = proxy.address(1).unwrap();
    let srvr = zk_harness::admin::srvr(address, SOON).await.unwrap();
    assert!(ensemble.version().starts_with("3.9") && srvr.version.starts_with("3.9"));
    // A length that the server does not accept either: it closes the connection.
    let mut raw = Raw::open(address).await.unwrap();
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

// covers: H7
#[tokio::test]
async fn large_frames_pass_whole() {
    let ensemble = in_memory(1)
        .proxied(true)
        .jvm_flags(["-Djute.maxbuffer=33554432", "-Xmx512m"])
        .start()
        .await
        .unwrap();
    let proxy = ensemble.proxy().unwrap();
    let mut raw = Raw::open(proxy.address(1).unwrap()).await.unwrap();
    raw.ask(&ask::create("/big")).await.unwrap();
    for megabytes in [1, 3, 4, 9] {
        let data: Vec<u8> = (0..megabytes << 20)
            .map(|at: u32| at.to_le_bytes()[0])
            .collect();
        assert_eq!(raw.ask(&ask::set("/big", &data)).await.unwrap().code, OK);
        let read = raw.ask(&ask::get("/big")).await.unwrap().body;
        assert!(read[4..4 + data.len()] == data, "{megabytes} MiB");
    }
    assert_eq!(raw.ask(&ask::exists("/big")).await.unwrap().code, OK);
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn an_ensemble_without_proxies_says_how_to_have_them() {
    let ensemble = in_memory(1).start().await.unwrap();
    assert_eq!(
        ensemble.proxy().unwrap_err().to_string(),
        "the ensemble has no fault proxies: start it with `Ensemble::builder().proxied(true)`"
    );
    assert_eq!(ensemble.connect_string(), ensemble.direct_connect_string());
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn the_proxies_end_with_the_ensemble_and_come_back_where_it_is_attached_to() {
    let ensemble = single("3.9").await;
    let proxy = ensemble.proxy().unwrap();
    let connect_string = ensemble.connect_string();
    let address = proxy.address(1).unwrap();
    let raw = Raw::open(address).await.unwrap();
    assert!(has_thread_of(address));
    let directory = ensemble.detach().unwrap();
    is_gone(address);
    raw.broken().await;

    let mut ensemble = Ensemble::attach(&directory).unwrap();
    assert!(ensemble.proxy().is_err());
    ensemble.start_proxies().unwrap();
    ensemble.start_proxies().unwrap();
    assert_eq!(ensemble.connect_string(), connect_string);
    Raw::open(address).await.unwrap();
    ensemble.down().await.unwrap();
    is_gone(address);
    proxy.heal();
    let log = proxy.log();
    assert!(log.count(&Match::handshake()) > 0, "it can still be read");
}

// covers: H7
#[tokio::test]
async fn a_proxy_of_its_own_ends_with_its_last_handle() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.servers()[0].client_address();
    let proxy = FaultProxy::start([server]).unwrap();
    let address = proxy.address(1).unwrap();
    assert_eq!(proxy.connect_string(), address.to_string());
    let other = proxy.clone();
    drop(proxy);
    let mut raw = Raw::open(address).await.unwrap();
    assert_eq!(raw.ask(&ask::exists("/")).await.unwrap().code, OK);
    // Nobody listens there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_server(1, nobody.local_addr().unwrap()).unwrap();
    drop(nobody);
    assert_eq!(Raw::open(address).await.unwrap_err(), Broken::Rst);
    other.set_server(1, server).unwrap();
    Raw::open(address).await.unwrap();
    drop(other);
    is_gone(address);
    ensemble.down().await.unwrap();
}

/// Asserts that nothing of a proxy is left: neither its port nor its thread.
#[track_caller]
fn is_gone(address: SocketAddr) {
    eventually("nobody listens there", || {
        std::net::TcpStream::connect(address).is_err()
    });
    drop(std::net::TcpListener::bind(address).unwrap());
    eventually("the thread is gone", || !has_thread_of(address));
}

/// Whether the proxy with this first address has a thread in this process.
fn has_thread_of(address: SocketAddr) -> bool {
    let name = format!("zk-proxy-{}\n", address.port());
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")))
        .any(|comm| comm.is_ok_and(|comm| comm == name))
}
