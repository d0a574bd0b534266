//! Sessions on the transport over `zk-wire`.

use zk_core::transport::{Request, Response, WatchNotification};
use zk_core::{Acl, AclEntry, ErrorKind, MultiResult, NodePath, Permissions, Session, WatchEvent};
use zk_fault_proxy::{Clients, Close, Match};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, with_ensemble, with_three, within};

/// Starts one server behind a proxy.
async fn proxied() -> Ensemble {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    ensemble.start().await.expect("a server starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_below_a_chroot_are_those_of_the_other_client() {
    with_ensemble(async |ensemble| {
        let raw = connect(ensemble).await;
        raw.create("/app", "").await.unwrap();
        let below = format!("{}/app", ensemble.connect_string());
        let session = Session::builder(below).digest_auth("user", "secret");
        let session = session.connect().await.unwrap();

        let (path, _) = session
            .create("/dir/n-", "one")
            .sequential()
            .container_parents()
            .await
            .unwrap();
        assert_eq!(path.as_str(), "/dir/n-0000000000");
        let outer = "/app/dir/n-0000000000";
        assert_eq!(raw.get(outer).await.unwrap().0, "one");
        let stat = session.set(&path, "two").version(0).await.unwrap();
        assert_eq!(raw.stat(outer).await.unwrap(), stat);
        let error = session.set(&path, "x").version(0).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::BadVersion, Some(&path))
        );
        assert_eq!(session.exists("/no").await.unwrap(), None);
        assert_eq!(session.list("/dir").await.unwrap().0, ["n-0000000000"]);

        let digest = AclEntry::new(Permissions::ALL, "auth", "");
        session.set_acl(&path, Acl::new([digest])).await.unwrap();
        let (rules, _) = session.acl(&path).await.unwrap();
        assert_eq!(rules.entries()[0].scheme(), "digest");
        assert_eq!(
            raw.set(outer, "x").await.unwrap_err().kind(),
            ErrorKind::NoAuth
        );

        let both = session
            .transaction()
            .check("/dir")
            .create("/dir/a", "")
            .set(&path, "three");
        let results = both.commit().await.unwrap();
        let MultiResult::Created { path: made, stat } = &results[1] else {
            panic!("{results:?}");
        };
        assert_eq!(made.as_str(), "/dir/a");
        // ZOOKEEPER-4026.
        assert_eq!(stat.is_none(), ensemble.version() == "3.8.0");
        let refused = session
            .transaction()
            .check("/dir")
            .delete("/no")
            .commit()
            .await;
        assert_eq!(refused.unwrap_err().failed_part(), Some(1));
        let large = session.set(&path, vec![7; 1 << 20]).await.unwrap_err();
        assert_eq!(large.kind(), ErrorKind::TooLarge);
        session.delete("/dir").recursive().await.unwrap();
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_is_done_once_although_its_reply_is_lost() {
    let ensemble = proxied().await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let session = Session::builder(ensemble.connect_string());
    let session = session.connect().await.unwrap();
    for cut in [false, true] {
        let request = proxy.on(Match::create("/**")).once();
        let lost = if cut {
            request.drop_then_cut()
        } else {
            request.cut_on_reply()
        };
        let create = session
            .create("/n-", "x")
            .sequential()
            .ephemeral()
            .protected();
        let created = within(MAX_WAIT, "the create", create.into_future()).await;
        created.expect("the session finds out what became of it");
        lost.happened(MAX_WAIT).await.expect("the rule applies");
    }
    let children = session.list("/").await.unwrap().0;
    assert_eq!(
        children.iter().filter(|name| name.contains("n-")).count(),
        2
    );
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_shot_watches_outlive_a_link_and_persistent_ones_end_with_it() {
    let ensemble = proxied().await;
    let proxy = ensemble.proxy().expect("it has a proxy");
    let other = connect(&ensemble).await;
    let transport = Session::builder(ensemble.connect_string());
    let transport = transport.transport().await.unwrap();
    let path = || NodePath::parse("/a").unwrap();
    let exists = Request::Exists {
        path: path(),
        watch: true,
    };
    let Ok(Response::Stat {
        stat: None,
        watch: Some(watch),
    }) = transport.submit(exists).await.result
    else {
        panic!("the watch is not set");
    };
    let all = Request::AddWatch {
        path: NodePath::root(),
        recursive: true,
    };
    let Ok(Response::Watching(mut watching)) = transport.submit(all).await.result else {
        panic!("the persistent watch is not set");
    };
    other.create("/b", "").await.unwrap();
    let change = within(MAX_WAIT, "the creation", watching.next()).await;
    assert!(
        matches!(change, Some(WatchNotification::Changed { path, .. }) if path.as_str() == "/b")
    );
    proxy.cut(Clients::All, Close::Rst).await;
    let lost = within(MAX_WAIT, "the end of the link", watching.next()).await;
    assert_eq!(lost, Some(WatchNotification::LinkLost));
    assert_eq!(watching.next().await, None);
    other.create("/a", "").await.unwrap();
    assert_eq!(
        within(MAX_WAIT, "the other creation", watch).await,
        WatchEvent::Created
    );
    transport.close();
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_rebalances_keeps_what_it_has() {
    with_three(async |ensemble| {
        let session = connect(ensemble).await;
        let node = session.create("/own", "").ephemeral().await.unwrap().0;
        let mut watch = session.get("/own").watched().await.unwrap().2;
        within(MAX_WAIT, "a move to another server", async {
            while session.counters().connection_losses == 0 {
                session.rebalance();
                session.get(&node).await.unwrap();
            }
        })
        .await;
        session.connected().await.unwrap();
        session.set(&node, "changed").await.unwrap();
        let event = within(MAX_WAIT, "the event", watch.changed()).await;
        assert_eq!(event, WatchEvent::DataChanged);
        session.close().await.unwrap();
    })
    .await;
}
