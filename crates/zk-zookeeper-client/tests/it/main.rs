//! Sessions over `zookeeper-client` on real servers.
//!
//! What they have in common with those of `zk-wire` is compared in the tests of `zk-sim`: random programs, with and
//! without faults.

#![cfg(test)]

use std::time::Duration;

use zk_core::transport::{Answer, Phase, Request, Response, Transport};
use zk_core::{Acl, ConnectError, ErrorKind, NodePath, RetryPolicy, Session, Sessions, WatchEvent};
use zk_fault_proxy::{Clients, Close};
use zk_harness::{DataStore, Ensemble};
use zk_zookeeper_client::Connect;

/// How long a test waits for what it expects.
const MAX_WAIT: Duration = Duration::from_secs(60);

async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(MAX_WAIT, waiting).await;
    waited.unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {what}"))
}

async fn start(proxied: bool) -> Ensemble {
    let ensemble = Ensemble::builder().servers(1).data(DataStore::Memory);
    let ensemble = ensemble.proxied(proxied).start().await;
    ensemble.expect("a server starts")
}

fn to(ensemble: &Ensemble) -> Connect {
    Connect::to(ensemble.connect_string()).session_timeout(MAX_WAIT)
}

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_below_their_chroot() {
    let ensemble = start(false).await;
    let session = to(&ensemble).session().await.expect("it is granted");
    let below = Connect::to(format!("{}/app", ensemble.connect_string()));
    let missing = below.session().await.expect_err("there is no chroot");
    assert!(
        missing
            .to_string()
            .starts_with("the chroot /app does not exist"),
        "{missing}"
    );
    session.create("/app", "").await.unwrap();
    let below = below.session().await.expect("there is one");
    let create = below.create("/n-", "x").sequential();
    let (created, _) = create.await.unwrap();
    assert_eq!(created.as_str(), "/n-0000000000");
    let found = session.exists("/app/n-0000000000").await.unwrap();
    assert!(found.is_some());
    below.close().await.unwrap();
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_reported_in_time() {
    let connect = Connect::to("127.0.0.1:1").connect_timeout(Duration::from_millis(300));
    let error = within("the refusal", connect.session()).await;
    let error = error.expect_err("there is no server").to_string();
    let words = "no server of 127.0.0.1:1 granted a session within 300ms: ";
    assert!(error.starts_with(words), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_fail_the_connect() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .property("DigestAuthenticationProvider.enabled", "false");
    let ensemble = ensemble.start().await.expect("a server starts");
    let connect = to(&ensemble).auth("digest", "user:secret");
    let refused = within("the server's refusal", connect.session()).await;
    let error = refused.expect_err("it is refused");
    assert!(matches!(error, ConnectError::AuthFailed), "{error}");
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_session_lacks_is_refused_and_many_nodes_are_read_one_by_one() {
    let ensemble = start(false).await;
    let session = to(&ensemble).auth("digest", "ann:secret").session().await;
    let session = session.expect("it is granted");
    let unsupported = [
        session.config().await.map(drop),
        session.whoami().await.map(drop),
        session.ephemerals("/").await.map(drop),
        session.descendant_count("/").await.map(drop),
    ];
    for refused in unsupported {
        let error = refused.expect_err("it is not there");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    for name in ["/a", "/b"] {
        let create = session.create(name, name).acl(Acl::creator_only());
        create.await.unwrap();
    }
    let read = session.get_many(["/a", "/none", "/b"]).await.unwrap();
    let read: Vec<_> = read
        .into_iter()
        .map(|result| result.ok().map(|(data, _)| data))
        .collect();
    assert_eq!(read, [Some("/a".into()), None, Some("/b".into())]);
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

/// A reply is never attributed to a later connection than it came over, and its zxid is one that it shows.
#[tokio::test(flavor = "multi_thread")]
async fn each_reply_has_a_header() {
    let ensemble = start(true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let transport = to(&ensemble).transport().await.expect("it is granted");
    let exists = |at: &str| Request::Exists {
        path: path(at),
        watch: false,
    };
    for breaks in 0..5 {
        let set = Request::SetData {
            path: path("/"),
            data: b"x".as_slice().into(),
            version: None,
        };
        let Answer { result, header } = transport.submit(set).await;
        let Ok(Response::Set(stat)) = result else {
            panic!("{result:?}");
        };
        let header = header.expect("there was a reply");
        assert_eq!((header.zxid, header.breaks), (stat.mzxid, breaks));
        let config = transport.submit(exists("/zookeeper/config")).await;
        let header = config.header.expect("there was a reply");
        assert_eq!((header.zxid, header.breaks), (0, breaks));
        // The state is not looked at between the break and the reply.
        proxy.cut(Clients::All, Close::Rst).await;
        let sent = within("a reply", async {
            loop {
                let answer = transport.submit(exists("/")).await;
                match answer.header {
                    None => assert!(answer.result.is_err(), "{:?}", answer.result),
                    Some(header) => break header,
                }
            }
        })
        .await;
        let now = transport.link().now();
        assert_eq!((now.phase, now.breaks), (Phase::Up, breaks + 1));
        assert!(sent.breaks <= now.breaks);
    }
    transport.close();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_proved_at_once_and_again_after_a_break() {
    let ensemble = start(true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let connect = to(&ensemble).session_timeout(Duration::from_secs(10));
    let session = connect.session().await.expect("it is granted");
    let lease = session.keep_lease();
    assert!(lease.is_valid(), "the session was just opened");
    let first = lease.valid_until().expect("it is not over");
    for _ in 0..2 {
        proxy.cut(Clients::All, Close::Rst).await;
        within("a proof", lease.renewed(MAX_WAIT)).await.unwrap();
    }
    within("a later end", async {
        while lease.valid_until().is_some_and(|until| until <= first) {
            session.set("/", "").timeout(MAX_WAIT).await.unwrap();
        }
    })
    .await;
    drop(lease);
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_survive_a_break() {
    let ensemble = start(true).await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let session = to(&ensemble).session().await.expect("it is granted");
    let other = Session::builder(ensemble.connect_string()).connect().await;
    let other = other.expect("it is granted");
    let mut subscription = session.subscribe("/").recursive().await.unwrap();
    let mut watch = session.exists("/a").watched().await.unwrap().1;
    proxy.cut(Clients::All, Close::Rst).await;
    within("the break is noticed", subscription.next()).await;
    let create = other.create("/a", "").timeout(MAX_WAIT);
    create.await.unwrap();
    let fired = within("the watch fires", watch.changed()).await;
    assert_eq!(fired, WatchEvent::Created);
    // The subscription has its consumer read again, and goes on.
    let set = async {
        loop {
            other.set("/a", "x").timeout(MAX_WAIT).await.unwrap();
            let told = tokio::time::timeout(Duration::from_millis(200), subscription.next()).await;
            if format!("{told:?}").contains("DataChanged") {
                break;
            }
        }
    };
    within("the subscription goes on", set).await;
    session.close().await.unwrap();
    other.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_watches_are_set_than_can_be_set_again() {
    let ensemble = start(false).await;
    let session = to(&ensemble).session().await.expect("it is granted");
    let name = |number: usize| format!("/{number:01023}");
    let mut watches = Vec::new();
    for number in 0..110 {
        watches.push(session.exists(name(number)).watched().await.unwrap().1);
    }
    let server = ensemble.server(1).unwrap();
    server.restart().await.unwrap();
    let create = session.create(name(7), "").timeout(MAX_WAIT);
    create.await.unwrap();
    let fired = within("the watch fires", watches[7].changed()).await;
    assert_eq!(fired, WatchEvent::Created);

    let error = loop {
        match session.exists(name(watches.len())).watched().await {
            Ok((_, watch)) => watches.push(watch),
            Err(error) => break error,
        }
    };
    assert!(
        watches.len() < 128,
        "the client could not set so many again"
    );
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error
            .to_string()
            .contains("drop watches, or use another session"),
        "{error}"
    );
    session.create(name(8), "").await.unwrap();
    let fired = within("the watch fires", watches[8].changed()).await;
    assert_eq!(fired, WatchEvent::Created);
    // What is given back can be taken again.
    watches.truncate(10);
    session.exists(name(1000)).watched().await.unwrap();
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_follow_each_other_are_opened_over_the_client() {
    let ensemble = start(false).await;
    let connect = to(&ensemble);
    let connector = move || {
        let connect = connect.clone();
        async move { connect.session().await }
    };
    let sessions = Sessions::with_connector(connector, RetryPolicy::default());
    let session = within("a session", sessions.session()).await.unwrap();
    let refused = session.whoami().await.expect_err("it is not there");
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    within("the end", sessions.close()).await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

/// Creates are sent with an operation of 3.5, and subscriptions with one of 3.6.
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_3_4_are_read_and_written_but_refuse_creates_and_subscriptions() {
    let ensemble = Ensemble::builder().servers(1).zookeeper("3.4");
    let ensemble = ensemble.start().await.expect("a server starts");
    let session = to(&ensemble).session().await.expect("it is granted");
    let (_, before) = session.get("/").await.unwrap();
    let changed = session.set("/", "new").version(before.version).await;
    let changed = changed.unwrap();
    assert_eq!(session.get("/").await.unwrap(), ("new".into(), changed));
    let (_, _, mut watch) = session.get("/").watched().await.unwrap();
    session.set("/", "newer").await.unwrap();
    let fired = within("the change", watch.changed()).await;
    assert_eq!(fired, WatchEvent::DataChanged);
    let created = session.create("/a", "").await.map(drop);
    let subscribed = session.subscribe("/").await.map(drop);
    for refused in [created, subscribed] {
        let error = refused.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}
