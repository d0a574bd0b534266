//! Several changes at once, or none.

use zk_core::{Acl, AclEntry, CreateMode, ErrorKind, MultiResult, NodePath, Permissions, Session};

use crate::{connect, with_ensemble};

const SEQUENTIAL: CreateMode = CreateMode::PersistentSequential;

#[tokio::test(flavor = "multi_thread")]
async fn transaction_answers_what_each_part_did_without_the_namespace() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        outer.create("/ns/config", "1").parents().await.unwrap();
        outer.create("/ns/old", "").await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();
        let done = session
            .transaction()
            .check("/config")
            .check_version("/config", 0)
            .create("/history", "")
            .create_as("/history/n-", "1", SEQUENTIAL, None)
            .create_ephemeral("/here", "")
            .set_version("/config", "2", 0)
            .delete("/old")
            .commit()
            .await
            .unwrap();
        let [
            MultiResult::Checked,
            MultiResult::Checked,
            MultiResult::Created { path: history, .. },
            MultiResult::Created { path: entry, stat },
            MultiResult::Created { path: here, .. },
            MultiResult::Set(set),
            MultiResult::Deleted,
        ] = &done[..]
        else {
            panic!("other answers: {done:?}");
        };
        assert_eq!(
            [history, entry, here].map(NodePath::as_str),
            ["/history", "/history/n-0000000000", "/here"]
        );
        assert_eq!((set.version, set.data_length), (1, 1));
        let is_left_out = ensemble.version().starts_with("3.8.0");
        assert_eq!(stat.is_none(), is_left_out, "{stat:?}");

        assert_eq!(outer.get("/ns/history/n-0000000000").await.unwrap().0, "1");
        assert_eq!(outer.get("/ns/config").await.unwrap(), ("2".into(), *set));
        let here = outer.stat("/ns/here").await.unwrap();
        assert_eq!(here.ephemeral_owner, Some(session.id()));
        assert_eq!(here.czxid, set.mzxid, "it is one transaction");
        assert_eq!(outer.exists("/ns/old").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_transaction_changes_nothing_and_names_the_part() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        outer.create("/ns/a", "").parents().await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();
        let begin = || session.transaction().create("/new", "").set("/a", "x");
        for (transaction, kind, path, message) in [
            (
                begin().check("/no"),
                ErrorKind::NoNode,
                "/no",
                "transaction /no: the node does not exist (part 3 of 3)",
            ),
            (
                begin().check_version("/a", 0),
                ErrorKind::BadVersion,
                "/a",
                "transaction /a: the node has another version (part 3 of 3)",
            ),
            (
                begin().create("/a", ""),
                ErrorKind::NodeExists,
                "/a",
                "transaction /a: the node already exists (part 3 of 3)",
            ),
            (
                begin().create("/new/x", "").delete("/new"),
                ErrorKind::NotEmpty,
                "/new",
                "transaction /new: the node has children (part 4 of 4)",
            ),
            (
                begin().create_ephemeral("/e", "").create("/e/x", ""),
                ErrorKind::ParentIsEphemeral,
                "/e/x",
                "transaction /e/x: the parent is ephemeral and cannot have children (part 4 of 4)",
            ),
        ] {
            let error = transaction.commit().await.unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
            assert_eq!(error.path().map(NodePath::as_str), Some(path));
            assert!(error.failed_part() >= Some(2) && !error.is_outcome_unknown());
        }
        assert_eq!(outer.list("/ns").await.unwrap().0, ["a"]);
        assert_eq!(outer.stat("/ns/a").await.unwrap().version, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_transaction_names_the_right_that_is_missing() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let none = Acl::new([AclEntry::new(Permissions::ADMIN, "world", "anyone")]);
        session.create("/closed", "").await.unwrap();
        session
            .create("/closed/a", "")
            .acl(none.clone())
            .await
            .unwrap();
        session.set_acl("/closed", none).await.unwrap();
        let begin = || session.transaction().create("/new", "");
        for (transaction, message) in [
            (
                begin().check("/closed/a"),
                "transaction /closed/a: not permitted; it needs READ on the node (part 2 of 2)",
            ),
            (
                begin().set("/closed/a", ""),
                "transaction /closed/a: not permitted; it needs WRITE on the node (part 2 of 2)",
            ),
            (
                begin().create("/closed/b", ""),
                "transaction /closed/b: not permitted; it needs CREATE on the parent (part 2 of 2)",
            ),
            (
                begin().delete("/closed/a"),
                "transaction /closed/a: not permitted; it needs DELETE on the parent (part 2 of 2)",
            ),
            (
                begin().create("/missing/b", ""),
                "transaction /missing/b: the parent node does not exist (part 2 of 2)",
            ),
        ] {
            assert_eq!(transaction.commit().await.unwrap_err().to_string(), message);
        }
        assert_eq!(session.exists("/new").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_transaction_over_the_limit_is_refused_unsent() {
    with_ensemble(async |ensemble| {
        // A long chroot is sent with every part.
        let chroot = format!("/{}", "c".repeat(200));
        let outer = connect(ensemble).await;
        outer.create(chroot.as_str(), "").await.unwrap();
        let servers = format!("{}{chroot}", ensemble.connect_string());
        let session = Session::builder(servers).connect().await.unwrap();
        session.create("/a", "").await.unwrap();
        let of_parts = |count: usize| {
            (0..count).fold(session.transaction(), |transaction, _| {
                transaction.set("/a", "x")
            })
        };
        let (mut fits, mut refused) = (1, 40_000);
        while refused - fits > 100 {
            let middle = usize::midpoint(fits, refused);
            match of_parts(middle).commit().await {
                Ok(done) => {
                    assert_eq!(done.len(), middle);
                    fits = middle;
                }
                Err(error) => {
                    assert_eq!(
                        (error.kind(), error.attempts()),
                        (ErrorKind::TooLarge, 0),
                        "{middle} parts: {error}"
                    );
                    refused = middle;
                }
            }
        }
        assert!(fits > 3000, "the bound is far too low: {fits}");
        assert_eq!(session.counters().connection_losses, 0);
    })
    .await;
}
