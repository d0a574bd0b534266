//! Servers of 3.4, which do not know every operation that sessions use; `docs/compatibility.md` says what works.

use std::time::Duration;

use zk_core::{ErrorKind, Session};
use zk_harness::Ensemble;
use zk_wire::{Acl, Client, Config, CreateMode, NewNode, Reply, Request};

use crate::lock::answered;

/// How long a test waits for what it expects.
const MAX_WAIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_3_4_reads_writes_and_notifies() {
    reads_writes_and_notifies(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_of_3_4_read_write_and_notify() {
    reads_writes_and_notifies(3).await;
}

async fn reads_writes_and_notifies(servers: usize) {
    let ensemble = Ensemble::builder().servers(servers).zookeeper("3.4");
    let ensemble = ensemble.start().await.expect("the servers start");
    assert!(
        ensemble.version().starts_with("3.4."),
        "{}",
        ensemble.version()
    );
    for server in ensemble.servers() {
        let srvr = answered(async || server.srvr().await).await;
        assert_eq!(srvr.version, ensemble.version());
        let mntr = answered(async || server.mntr().await).await;
        assert!(mntr.watches().is_some());
        let wchs = answered(async || server.wchs().await).await;
        assert_eq!(wchs.watches, 0);
        answered(async || server.cons().await).await;
    }
    let client = Client::from_connect_string(&ensemble.connect_string(), Config::new(MAX_WAIT));
    let client = client.expect("it is a connect string");
    create(&client, "/a", CreateMode::Persistent).await;
    create(&client, "/a/one", CreateMode::Ephemeral).await;
    create(&client, "/a/two", CreateMode::PersistentSequential).await;

    let session = Session::builder(ensemble.connect_string());
    let unset = session.clone();
    let session = session.assume_release(3, 4).connect().await;
    let session = session.expect("a session is granted");
    session.sync("/a").await.unwrap();
    let (names, stat) = session.list("/a").await.unwrap();
    assert_eq!((names.len(), stat.num_children), (2, 2), "{names:?}");
    let (_, before) = session.get("/a").await.unwrap();
    let changed = session
        .set("/a", "new")
        .version(before.version)
        .await
        .unwrap();
    assert_eq!(session.get("/a").await.unwrap(), ("new".into(), changed));
    let error = session
        .set("/a", "x")
        .version(before.version)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadVersion, "{error}");
    assert_eq!(session.exists("/none").await.unwrap(), None);

    let mut changes = session.subscribe("/a").await.unwrap();
    session.set("/a", "newer").await.unwrap();
    let change = tokio::time::timeout(MAX_WAIT, changes.next()).await;
    assert!(change.expect("the change is notified").is_some());

    let (path, stat) = session.create("/b", "").await.unwrap();
    assert_eq!(session.exists(&path).await.unwrap(), Some(stat));
    session.delete(&path).await.unwrap();
    assert_eq!(session.exists("/b").await.unwrap(), None);
    assert_eq!(session.counters().connection_losses, 0);
    session.close().await.unwrap();

    let session = unset.connect().await.expect("a session is granted");
    let error = session.create("/b", "").await.unwrap_err();
    assert!(error.to_string().contains("assume_release"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    session.close().await.unwrap();
    client.close().await;
    ensemble.down().await.expect("the servers go down");
}

async fn create(client: &Client, path: &str, mode: CreateMode) {
    let request = Request::Create(NewNode {
        path: path.parse().expect("it is a path"),
        data: b"data"[..].into(),
        acl: Acl::open(),
        mode,
    });
    let answer = tokio::time::timeout(MAX_WAIT, client.request(&request)).await;
    let answer = answer.unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {path} is created"));
    let Reply::Created {
        path: created,
        stat,
    } = answer.expect("it is created").reply
    else {
        panic!("a create returns what it created");
    };
    assert!(created.as_str().starts_with(path), "{created}");
    assert_eq!(stat, None, "only newer creates return one");
}
