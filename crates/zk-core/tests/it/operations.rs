//! Each operation and each way it can be refused.

use std::time::{Duration, SystemTime};

use zk_core::{ErrorKind, NodePath};

use crate::{connect, until, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn data_goes_in_and_comes_out_with_its_stat() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let (path, created) = session.create("/a", b"one".as_slice()).await.unwrap();
        assert_eq!(path.as_str(), "/a");
        assert_eq!(
            (
                created.version,
                created.data_length,
                created.ephemeral_owner
            ),
            (0, 3, None)
        );
        let age = SystemTime::now()
            .duration_since(created.ctime)
            .unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{age:?}");

        let changed = session.set(&path, "second").version(0).await.unwrap();
        assert_eq!(
            (changed.version, changed.czxid, changed.data_length),
            (1, created.czxid, 6)
        );
        assert!(changed.mzxid > created.mzxid);
        assert_eq!(
            session.get(&path).await.unwrap(),
            ("second".into(), changed)
        );
        assert_eq!(session.stat(&path).await.unwrap(), changed);
        assert_eq!(session.exists(&path).await.unwrap(), Some(changed));

        session.create("/a/x", "").await.unwrap();
        session.create("/a/y", vec![0, 255]).await.unwrap();
        let (mut names, stat) = session.list("/a").await.unwrap();
        names.sort();
        assert_eq!(
            (names, stat.num_children, stat.cversion),
            (vec!["x".to_owned(), "y".to_owned()], 2, 2)
        );
        assert_eq!(session.get("/a/y").await.unwrap().0, [0, 255][..]);

        session.sync("/a").with_quorum().await.unwrap();
        session.delete("/a/y").version(0).await.unwrap();
        assert_eq!(session.exists("/a/y").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_their_kind_and_name_operation_and_path() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session.create("/a/b", "").parents().await.unwrap();
        session.create("/e", "").ephemeral().await.unwrap();
        let refusals = [
            (
                session.get("/no").await.unwrap_err(),
                ErrorKind::NoNode,
                "get /no: the node does not exist",
            ),
            (
                session.stat("/no").await.unwrap_err(),
                ErrorKind::NoNode,
                "stat /no: the node does not exist",
            ),
            (
                session.list("/no").await.unwrap_err(),
                ErrorKind::NoNode,
                "list /no: the node does not exist",
            ),
            (
                session.delete("/no").await.unwrap_err(),
                ErrorKind::NoNode,
                "delete /no: the node does not exist",
            ),
            (
                session.set("/no", "").await.unwrap_err(),
                ErrorKind::NoNode,
                "set /no: the node does not exist",
            ),
            (
                session.create("/no/x", "").await.unwrap_err(),
                ErrorKind::NoNode,
                "create /no/x: the parent node does not exist",
            ),
            (
                session.create("/a", "").await.unwrap_err(),
                ErrorKind::NodeExists,
                "create /a: the node already exists",
            ),
            (
                session.delete("/a").await.unwrap_err(),
                ErrorKind::NotEmpty,
                "delete /a: the node has children",
            ),
            (
                session.set("/a", "").version(9).await.unwrap_err(),
                ErrorKind::BadVersion,
                "set /a: the node has another version",
            ),
            (
                session.delete("/a/b").version(9).await.unwrap_err(),
                ErrorKind::BadVersion,
                "delete /a/b: the node has another version",
            ),
            (
                session.create("/e/x", "").await.unwrap_err(),
                ErrorKind::ParentIsEphemeral,
                "create /e/x: the parent is ephemeral and cannot have children",
            ),
        ];
        for (error, kind, message) in refusals {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
            assert_eq!(error.attempts(), 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_node_can_be_made() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let (first, _) = session
            .create("/p/s-", "")
            .sequential()
            .parents()
            .await
            .unwrap();
        let (second, stat) = session
            .create("/p/s-", "")
            .sequential()
            .ephemeral()
            .await
            .unwrap();
        assert_eq!(
            (first.as_str(), second.as_str()),
            ("/p/s-0000000000", "/p/s-0000000001")
        );
        assert_eq!(stat.ephemeral_owner, Some(session.id()));
        let (_, container) = session.create("/c", "").container().await.unwrap();
        assert_eq!(container.ephemeral_owner, None);
        session
            .create("/t", "")
            .ttl(Duration::from_millis(1))
            .await
            .unwrap();
        let (lasting, _) = session
            .create("/t-", "")
            .ttl(Duration::from_secs(3600))
            .sequential()
            .await
            .unwrap();
        until("the time to live of /t has ended", async || {
            session.exists("/t").await.unwrap().is_none()
        })
        .await;
        assert!(session.exists(&lasting).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_up_to_the_limit_fits_and_more_is_refused_unsent() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let error = session
            .create("/big", vec![b'x'; 1 << 20])
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::TooLarge, 0));
        // 64 for the frame, 23 for the acl entry, 4 for the path.
        let most = 0xf_ffff - 64 - 23 - 4;
        session.create("/big", vec![b'x'; most]).await.unwrap();
        assert_eq!(session.get("/big").await.unwrap().0.len(), most);
        assert_eq!(
            session
                .create("/bi2", vec![b'x'; most + 1])
                .await
                .unwrap_err()
                .kind(),
            ErrorKind::TooLarge
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_delete_takes_the_whole_tree_and_nothing_else() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        for outer in 0..20 {
            for inner in 0..10 {
                session
                    .create(format!("/tree/{outer}/deep/{inner}"), "")
                    .parents()
                    .await
                    .unwrap();
            }
        }
        session.create("/tree2", "").await.unwrap();
        session.delete("/tree").recursive().await.unwrap();
        assert_eq!(session.exists("/tree").await.unwrap(), None);
        assert!(session.exists("/tree2").await.unwrap().is_some());
        assert!(
            session
                .delete("/tree")
                .recursive()
                .await
                .unwrap_err()
                .is_no_node()
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_deletes_and_creates_may_race() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        for round in 0..20 {
            let path: NodePath = format!("/race/{round}/x").parse().unwrap();
            one.create(&path, "").parents().await.unwrap();
            let delete =
                |session: &zk_core::Session| session.delete("/race").recursive().into_future();
            let create = other
                .create(path.join("y").unwrap(), "")
                .parents()
                .into_future();
            let (a, b, c) = tokio::join!(delete(&one), delete(&other), create);
            for (result, what) in [(a, "one"), (b, "other"), (c.map(drop), "create")] {
                let error = result.err();
                assert!(
                    error.as_ref().is_none_or(zk_core::Error::is_no_node),
                    "{round} {what}: {error:?}"
                );
            }
        }
    })
    .await;
}
