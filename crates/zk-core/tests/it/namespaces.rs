//! Views of a session: namespaces, access rules and timeouts of their own; and the parents they make.

use std::time::{Duration, Instant};

use zk_core::{Acl, AclEntry, ErrorKind, Permissions, RetryPolicy, Session};

use crate::{connect, until, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn namespace_is_a_tree_of_its_own_below_the_real_one() {
    with_ensemble(async |ensemble| {
        let raw = connect(ensemble).await;
        let session = raw
            .with_namespace("/apps")
            .unwrap()
            .with_namespace("/one")
            .unwrap();
        assert_eq!(session.namespace().as_str(), "/apps/one");
        assert_eq!(
            session.exists("/").await.unwrap(),
            None,
            "nothing made it yet"
        );

        let (path, _) = session
            .create("/dir/n-", "x")
            .sequential()
            .parents()
            .await
            .unwrap();
        assert_eq!(path.as_str(), "/dir/n-0000000000");
        assert_eq!(raw.get("/apps/one/dir/n-0000000000").await.unwrap().0, "x");
        assert_eq!(session.list("/").await.unwrap().0, ["dir"]);
        assert_eq!(session.list("/dir").await.unwrap().0, ["n-0000000000"]);
        session.set(&path, "y").await.unwrap();
        session.set_acl(&path, Acl::open()).await.unwrap();
        assert_eq!(session.acl(&path).await.unwrap().0, Acl::open());
        session.sync("/").with_quorum().await.unwrap();
        assert_eq!(raw.get("/apps/one/dir/n-0000000000").await.unwrap().0, "y");
        // A name that only begins like the namespace is another one.
        raw.create("/apps/one-more", "").await.unwrap();
        assert_eq!(
            session.exists("-more").await.unwrap_err().kind(),
            ErrorKind::InvalidPath
        );

        let error = session.create("/no/where", "").await.unwrap_err();
        assert_eq!(error.path().unwrap().as_str(), "/no/where");
        session.delete("/dir").recursive().await.unwrap();
        assert_eq!(raw.list("/apps").await.unwrap().0.len(), 2);
        assert!(raw.list("/apps/one").await.unwrap().0.is_empty());
        assert_eq!(
            session.delete("/").recursive().await.unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "a view does not remove its own root"
        );
        assert!(raw.with_namespace("no-slash").is_err());
        assert_eq!(session.id(), raw.id());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parents_have_the_access_rules_of_the_node_and_of_the_view() {
    with_ensemble(async |ensemble| {
        let connect_as = async |user: &str| {
            let builder = Session::builder(ensemble.connect_string());
            builder
                .digest_auth(user, "hunter2")
                .connect()
                .await
                .unwrap()
        };
        let (alice, bob) = (connect_as("alice").await, connect_as("bob").await);
        let private = alice.with_acl(Acl::creator_only());
        private
            .create("/private/dir/a", "")
            .parents()
            .await
            .unwrap();
        let own = alice.create("/own/dir/a", "").acl(Acl::creator_only());
        own.container_parents().await.unwrap();
        for path in [
            "/private",
            "/private/dir",
            "/private/dir/a",
            "/own",
            "/own/dir",
        ] {
            let (acl, _) = alice.acl(path).await.unwrap();
            assert!(
                acl.entries().len() == 1 && acl.entries()[0].id().starts_with("alice:"),
                "{path}: {acl:?}"
            );
        }
        let refusals = [
            (
                bob.create("/private/x/y", "").parents().await.unwrap_err(),
                "/private/x",
                "create /private/x: not permitted; it needs CREATE on the parent",
            ),
            (
                bob.list("/private").await.unwrap_err(),
                "/private",
                "list /private: not permitted; it needs READ on the node",
            ),
            (
                bob.delete("/private/dir").await.unwrap_err(),
                "/private/dir",
                "delete /private/dir: not permitted; it needs DELETE on the parent",
            ),
            (
                bob.acl("/private").await.unwrap_err(),
                "/private",
                "get the acl of /private: not permitted; it needs READ or ADMIN on the node",
            ),
            (
                bob.set_acl("/private", Acl::open()).await.unwrap_err(),
                "/private",
                "set the acl of /private: not permitted; it needs ADMIN on the node",
            ),
            (
                bob.transaction()
                    .set("/private", "")
                    .commit()
                    .await
                    .unwrap_err(),
                "/private",
                "transaction /private: not permitted; it needs WRITE on the node (part 1 of 1)",
            ),
        ];
        for (error, path, message) in refusals {
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::NoAuth, message)
            );
            assert_eq!(error.path().unwrap().as_str(), path);
        }
        // A client may create nodes below an ancestor that it cannot read.
        let closed = Acl::new([
            AclEntry::new(Permissions::READ, "world", "anyone"),
            AclEntry::new(Permissions::ALL, "auth", ""),
        ]);
        alice.create("/closed", "").acl(closed).await.unwrap();
        alice.create("/closed/open", "").await.unwrap();
        bob.create("/closed/open/a/b/c", "")
            .parents()
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn container_parents_go_with_their_last_child_others_stay() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session
            .create("/c/d/x", "")
            .container_parents()
            .await
            .unwrap();
        session.create("/p/d/x", "").parents().await.unwrap();
        session.delete("/c/d/x").await.unwrap();
        session.delete("/p/d/x").await.unwrap();
        until("the containers are gone", async || {
            session.exists("/c").await.unwrap().is_none()
        })
        .await;
        assert!(session.exists("/p/d").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_have_timeouts_and_retries_of_their_own() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let quick = session.with_operation_timeout(Duration::from_millis(300));
        let strict = session.with_retry(RetryPolicy::never());
        assert_eq!(quick.operation_timeout(), Duration::from_millis(300));
        assert_eq!(session.operation_timeout(), Duration::from_secs(10));
        ensemble.server(1).unwrap().kill().await.unwrap();
        let start = Instant::now();
        let errors = tokio::join!(
            quick.get("/").into_future(),
            quick.transaction().check("/").commit(),
            quick.create("/a", "").owned().into_future(),
            strict
                .get("/")
                .timeout(Duration::from_millis(400))
                .into_future(),
        );
        let classes = [
            errors.0.unwrap_err().class(),
            errors.1.unwrap_err().class(),
            errors.2.unwrap_err().class(),
            errors.3.unwrap_err().class(),
        ];
        assert_eq!(classes, [zk_core::ErrorClass::Recoverable; 4]);
        // Each was given up at its own deadline, and not at the session's.
        let took = start.elapsed();
        assert!(took < session.operation_timeout(), "took {took:?}");
    })
    .await;
}
