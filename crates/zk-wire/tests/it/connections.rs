//! What a session survives, and what ends it.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zk_fault_proxy::{Clients, Close, Event, EventKind, FaultProxy, Match, Route};
use zk_harness::{Server, admin};
use zk_wire::proto::DecodeError;
use zk_wire::{
    Client, Config, ConnectionState, CreateMode, Host, Loss, Reply, Request, RequestErrorKind,
    SessionEnd, SubmitError, WatchEventKind,
};

use crate::{connect, epoch_after, expected, hosts, node, path, request, start};

#[tokio::test(flavor = "multi_thread")]
async fn another_server_serves_within_100_ms_after_a_cut() {
    let ensemble = start(3, true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    let sync = Request::Sync { path: path("/") };
    let mut fastest = Duration::MAX;
    let mut epoch = 1;
    for _ in 0..20 {
        proxy.cut(Clients::All, Close::Rst).await;
        let cut = Instant::now();
        epoch = epoch_after(&client, epoch).await;
        request(&client, sync.clone())
            .await
            .expect("the new connection serves");
        fastest = fastest.min(cut.elapsed());
    }
    // A busy machine delays some of them by more than the client could.
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    client.close().await;
    ensemble.down().await.expect("the servers go down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_dialed_again_and_again() {
    let ensemble = start(1, true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let client = connect(&ensemble, Duration::from_secs(60)).await;
    let sync = Request::Sync { path: path("/") };
    for epoch in 1..4 {
        proxy
            .route(Clients::All, Route::Refuse)
            .expect("it is a route");
        proxy.cut(Clients::All, Close::Rst).await;
        proxy.log().clear();
        // Pauses that went on growing would leave time for fewer.
        expected("twelve dials", refused(&proxy, 12)).await;
        proxy.heal();
        epoch_after(&client, epoch).await;
        request(&client, sync.clone()).await.expect("it serves");
    }
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

/// Waits until a proxy has refused this many connections.
async fn refused(proxy: &FaultProxy, count: usize) {
    let mut pauses = tokio::time::interval(Duration::from_millis(10));
    let is_refused = |event: &Event| event.kind == EventKind::Refused;
    while proxy
        .log()
        .events()
        .iter()
        .filter(|event| is_refused(event))
        .count()
        < count
    {
        pauses.tick().await;
    }
}

/// So many that some dial a server in its first moments, in which it may leave a connection without an answer for ever.
const CLIENTS: usize = 16;
const RESTARTS: u64 = 5;
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a server answers `srvr` as one that serves.
async fn serves(server: &Server) {
    let soon = Duration::from_millis(100);
    let answers = async {
        while admin::srvr(server.client_address(), soon).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    expected("a server that serves", answers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_waits_for_the_answer_that_a_restarted_server_owes() {
    let ensemble = start(1, false).await;
    let [server] = ensemble.servers() else {
        panic!("one server expected");
    };
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&ensemble, SESSION_TIMEOUT).await);
    }
    let mut slowest = Vec::new();
    for epoch in 1..=RESTARTS {
        server.kill().await.expect("it is killed");
        server.start().expect("it starts");
        serves(server).await;
        let back = Instant::now();
        let mut waits = JoinSet::new();
        for client in &clients {
            let client = client.clone();
            waits.spawn(async move {
                epoch_after(&client, epoch).await;
                let path = path("/");
                let sync = request(&client, Request::Sync { path }).await;
                sync.expect("the new connection serves");
                back.elapsed()
            });
        }
        slowest.extend(waits.join_all().await.into_iter().max());
    }
    // A handshake that the server owes is given up after a second.
    let is_soon = |waited: &Duration| *waited < SESSION_TIMEOUT / 4;
    assert!(slowest.iter().all(is_soon), "{slowest:?}");
    for client in clients {
        client.close().await;
    }
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_unknown_and_an_unsent_request_is_done() {
    let ensemble = start(1, true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    // It shows that the servers know the request.
    let first = Request::Create2(node("/first", "", CreateMode::Persistent));
    request(&client, first).await.expect("it is created");
    let lost = proxy.on(Match::create("/lost")).once().cut_on_reply();
    let create = Request::Create2(node("/lost", "", CreateMode::Persistent));
    let error = request(&client, create.clone())
        .await
        .expect_err("its reply is lost");
    assert!(
        matches!(
            error.kind,
            RequestErrorKind::Unknown {
                epoch: 1,
                why: Loss::Broken(_)
            }
        ),
        "{error:?}"
    );
    expected("the cut", lost.happened(crate::MAX_WAIT))
        .await
        .expect("the rule applies");
    // This one is submitted without a connection, or over the new one.
    let error = request(&client, create)
        .await
        .expect_err("the server has created it");
    assert!(
        matches!(error.kind, RequestErrorKind::Refused { epoch: 2, .. }),
        "{error:?}"
    );
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_beyond_the_limits_have_errors_of_their_own() {
    let ensemble = start(1, false).await;
    let timeout = Duration::from_secs(10);
    let mut config = Config::new(timeout);
    config.max_reply = 2000;
    let client = Client::new(hosts(&ensemble), config);
    let mut large = node("/large", "", CreateMode::Persistent);
    large.data = vec![7; 1 << 20].into();
    let error = request(&client, Request::Create(large.clone())).await;
    let error = error
        .expect_err("no server accepts a request of one MiB")
        .kind;
    assert!(
        matches!(
            error,
            RequestErrorKind::Submit(SubmitError::TooLong {
                limit: 0xf_ffff,
                ..
            })
        ),
        "{error}"
    );
    large.data = vec![7; 3000].into();
    request(&client, Request::Create(large))
        .await
        .expect("servers accept this");
    let get = Request::GetData {
        path: path("/large"),
        watch: false,
    };
    let error = request(&client, get).await;
    let error = error.expect_err("the reply is too long").kind;
    let too_long = DecodeError::TooLong {
        len: 3088,
        limit: 2000,
    };
    assert!(
        matches!(&error, RequestErrorKind::Unreadable { why, epoch: 1, .. } if *why == too_long),
        "{error}"
    );
    // The connection stays.
    let sync = Request::Sync { path: path("/") };
    assert_eq!(request(&client, sync).await.expect("it is served").epoch, 1);
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_bytes_of_watches_survive_a_reconnect() {
    let ensemble = start(1, true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let client = connect(&ensemble, Duration::from_secs(20)).await;
    let long_path = |number: usize| path(&format!("/{number:0>3999}"));
    let mut watches = Vec::new();
    for number in 0..263 {
        let (path, watch) = (long_path(number), true);
        let missing = request(&client, Request::Exists { path, watch }).await;
        let missing = missing.expect_err("there is no node");
        watches.push(missing.watch.expect("it sets a watch"));
    }
    // As one request, this is more than a server accepts.
    let bytes = |number| long_path(number).as_str().len();
    let bytes: usize = (0..263).map(bytes).sum();
    assert!(bytes > 1 << 20);
    for epoch in 1..3 {
        proxy.cut(Clients::All, Close::Rst).await;
        epoch_after(&client, epoch).await;
    }
    for (number, watch) in watches.iter_mut().enumerate() {
        let path = long_path(number);
        let create = Request::Create(node(path.as_str(), "", CreateMode::Persistent));
        request(&client, create).await.expect("the node is created");
        let event = expected("the creation", watch.next()).await;
        let event = event.expect("the watch fires");
        assert_eq!(
            (event.path, event.kind),
            (path, Some(WatchEventKind::Created))
        );
    }
    let states = client.states();
    let is_kept = matches!(
        *states.borrow(),
        ConnectionState::Connected { epoch: 3, .. }
    );
    assert!(is_kept, "{:?}", states.borrow());
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_closes_the_session() {
    let ensemble = start(1, false).await;
    let client = connect(&ensemble, Duration::from_secs(60)).await;
    let other = connect(&ensemble, Duration::from_secs(60)).await;
    request(
        &client,
        Request::Create(node("/e", "", CreateMode::Ephemeral)),
    )
    .await
    .expect("the node is created");
    let (path, watch) = (path("/e"), true);
    let seen = request(&other, Request::Exists { path, watch })
        .await
        .expect("it is there");
    assert!(matches!(seen.reply, Reply::Stat(_)));
    drop(client);
    let mut watch = seen.watch.expect("it was asked for");
    let event = expected("the deletion", watch.next())
        .await
        .expect("it fires");
    assert_eq!(event.kind, Some(WatchEventKind::Deleted));
    other.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[test]
fn calls_end_with_the_runtime_of_the_client() {
    let nowhere = vec![Host {
        name: "127.0.0.1".to_owned(),
        port: 1,
    }];
    let theirs = tokio::runtime::Runtime::new().expect("a runtime starts");
    let client =
        theirs.block_on(async { Client::new(nowhere, Config::new(Duration::from_secs(10))) });
    let ours = tokio::runtime::Runtime::new().expect("a runtime starts");
    let caller = client.clone();
    let waiting = ours.spawn(async move {
        let path = path("/");
        caller.request(&Request::Sync { path }).await
    });
    theirs.shutdown_background();
    let error = ours.block_on(expected("the outcome", waiting));
    let error = error
        .expect("the call does not panic")
        .expect_err("there is no server");
    let end = SessionEnd::RuntimeEnded;
    assert!(
        matches!(
            error.kind,
            RequestErrorKind::NotSent(why) | RequestErrorKind::Submit(SubmitError::Over(why)) if why == end
        ),
        "{error:?}"
    );
    assert_eq!(ours.block_on(client.connected()), Err(end));
    assert_eq!(ours.block_on(client.close()), end);
}

#[test]
fn a_session_whose_task_never_ran_is_over() {
    let nowhere = Host {
        name: "127.0.0.1".to_owned(),
        port: 1,
    };
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let theirs = runtime().expect("a runtime starts");
    let config = Config::new(Duration::from_secs(10));
    let client = theirs.block_on(async { Client::new(vec![nowhere], config) });
    drop(theirs);
    let ours = runtime().expect("a runtime starts");
    let connected = ours.block_on(expected("the end", client.connected()));
    assert_eq!(connected, Err(SessionEnd::RuntimeEnded));
}

#[tokio::test]
async fn the_task_of_a_closed_session_ends() {
    let ensemble = start(1, false).await;
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let with_client = tasks();
    client.close().await;
    let ended = async {
        while tasks() >= with_client {
            tokio::task::yield_now().await;
        }
    };
    expected("the end of the task", ended).await;
    ensemble.down().await.expect("the server goes down");
}
