//! What servers know of a session and of their tree, and servers that do not say it.

use std::collections::BTreeSet;

use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::ErrorKind;
use zk_core::Identity;
use zk_core::Permissions;
use zk_sim::Ensemble;

// covers: C14
#[tokio::test(start_paused = true)]
async fn answers_concern_the_session_and_its_part_of_the_tree() {
    let sim = Ensemble::new(3);
    let raw = sim.connect().await;
    for path in ["/app", "/app/a", "/apple", "/app/space"] {
        raw.create(path, "").await.unwrap();
    }
    let chrooted = sim.connect().digest("user", "secret").chroot("/app").await;
    let space = chrooted.with_namespace("/space").unwrap();
    for (session, path) in [
        (&chrooted, "/a/e"),
        (&chrooted, "/ab"),
        (&space, "/e"),
        (&raw, "/app/a/other"),
    ] {
        session.create(path, "").ephemeral().await.unwrap();
    }
    for (session, at, expected) in [
        (&chrooted, "/", vec!["/a/e", "/ab", "/space/e"]),
        (&chrooted, "/a", vec!["/a/e"]),
        (&chrooted, "/ab", vec!["/ab"]),
        (&chrooted, "/no", vec![]),
        (&space, "/", vec!["/e"]),
        (&raw, "/", vec!["/app/a/other"]),
    ] {
        let found = session.ephemerals(at).await.unwrap();
        let found: BTreeSet<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{at}");
    }
    assert_eq!(chrooted.descendant_count("/").await.unwrap(), 6);
    assert_eq!(chrooted.descendant_count("/a").await.unwrap(), 2);
    assert_eq!(space.descendant_count("/e").await.unwrap(), 0);
    let missing = space.descendant_count("/no").await.unwrap_err();
    let expected = "count the nodes below /no: the node does not exist";
    assert_eq!(missing.to_string(), expected);
    let closed = Acl::new([AclEntry::new(Permissions::WRITE, "world", "anyone")]);
    raw.create("/closed", "").acl(closed).await.unwrap();
    let refused = raw.descendant_count("/closed").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoAuth);
    let user = Identity::new("digest", "user");
    assert_eq!(space.whoami().await.unwrap(), [user]);
    assert_eq!(space.config().await.unwrap().text(), "");
}

// covers: C14
#[tokio::test(start_paused = true)]
async fn servers_before_3_6_are_said_not_to_know_the_requests() {
    let sim = Ensemble::builder().without_persistent_watches().build();
    let session = sim.connect().await;
    for (error, expected) in [
        (
            session.whoami().await.unwrap_err(),
            "whoami: the server does not support it",
        ),
        (
            session.ephemerals("/a").await.unwrap_err(),
            "list the ephemeral nodes at /a: the server does not support it",
        ),
        (
            session.descendant_count("/a").await.unwrap_err(),
            "count the nodes below /a: the server does not support it",
        ),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), expected);
    }
}
