//! Missing permissions and other refusals of the server.

use std::time::Duration;

use zk_core::{Acl, AclEntry, ErrorClass, ErrorKind, Permissions, Session};
use zk_lock::{AcquireError, FairLock, LockOptions, ReleaseError};

use crate::{connect, names, soon, until_enlisted, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_an_error_that_names_it() {
    with_ensemble(async |ensemble| {
        let admin = Session::builder(ensemble.connect_string())
            .digest_auth("admin", "secret")
            .connect()
            .await
            .unwrap();
        let session = connect(ensemble).await;
        let of = |permissions| {
            Acl::new([
                AclEntry::new(Permissions::ALL, "auth", ""),
                AclEntry::new(permissions, "world", "anyone"),
            ])
        };
        for (path, open, message) in [
            ("/no-create", Permissions::READ | Permissions::DELETE,
             "create /no-create/lock-: not permitted; it needs CREATE on the parent"),
            ("/no-read", Permissions::CREATE | Permissions::DELETE,
             "list /no-read: not permitted; it needs READ on the node"),
        ] {
            admin.create(path, "").acl(of(open)).await.unwrap();
            let lock = FairLock::new(&session, path).unwrap();
            let error = lock.acquire().await.unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(error.class(), ErrorClass::Outcome);
            soon("nothing is left", session.settled()).await;
            assert!(names(&admin, path).await.is_empty());
        }

        // A session without DELETE finds out on release, and the lock stays until the session ends.
        let open = of(Permissions::CREATE | Permissions::READ);
        admin.create("/no-delete", "").acl(open).await.unwrap();
        let guard = FairLock::new(&session, "/no-delete").unwrap().acquire().await.unwrap();
        let error = guard.release().await.unwrap_err();
        assert!(matches!(&error, ReleaseError::Refused { source, .. } if source.kind() == ErrorKind::NoAuth), "{error:?}");
        assert_eq!(names(&admin, "/no-delete").await.len(), 1);
        session.close().await.unwrap();
        assert!(names(&admin, "/no-delete").await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_read_on_its_predecessor_is_woken() {
    with_ensemble(async |ensemble| {
        let holder = Session::builder(ensemble.connect_string())
            .digest_auth("holder", "secret")
            .connect()
            .await
            .unwrap();
        let session = connect(ensemble).await;
        session.create("/a", "").await.unwrap();
        let options = LockOptions::default().with_acl(Acl::creator_only());
        let held = FairLock::with_options(&holder, "/a", options)
            .unwrap()
            .acquire()
            .await
            .unwrap();

        let lock = FairLock::new(&session, "/a").unwrap();
        let error = lock
            // Long enough to read who is ahead.
            .acquire_timeout(Duration::from_secs(10))
            .await
            .unwrap_err();
        let AcquireError::TimedOut(timed_out) = &error else {
            panic!("{error:?}")
        };
        let ahead = timed_out.ahead().unwrap();
        assert_eq!((ahead.count(), ahead.predecessor()), (1, None));
        let error = lock.inspector().contenders().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoAuth);

        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        until_enlisted(&session, "/a", 2).await;
        held.release().await.unwrap();
        soon("the waiter is granted the lock", waiting)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_works_at_the_root_and_in_a_namespace() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let inside = session.with_namespace("/app/one").unwrap();
        let guard = FairLock::new(&inside, "/a")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        assert!(guard.path().as_str().starts_with("/a/_c_"), "{guard:?}");
        assert_eq!(names(&session, "/app/one/a").await.len(), 1);
        let other = FairLock::new(&session, "/app/one/a").unwrap();
        assert!(other.try_acquire().await.unwrap().is_none());
        guard.txn().create("/a-result", "").commit().await.unwrap();
        guard.release().await.unwrap();
        assert!(session.exists("/app/one/a-result").await.unwrap().is_some());

        let guard = FairLock::new(&session, "/")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        assert_eq!(guard.path().parent().unwrap().as_str(), "/");
        assert!(
            FairLock::new(&session, "/")
                .unwrap()
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        guard.release().await.unwrap();
    })
    .await;
}
