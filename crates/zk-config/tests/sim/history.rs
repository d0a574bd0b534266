//! What other clients put into a history, and what becomes of it.

use zk_config::{Expected, HistoryEntry, KeyChange, PublishError, PublishOptions, Publisher};
use zk_core::codec::Text;
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session};
use zk_sim::Ensemble;

use crate::{PATH, data_of, publisher, stat_of, text, with_history};

const DIRECTORY: &str = "/app/_history_/motto";

/// The name of an entry as another client would make it up.
fn entry(revision: i64) -> String {
    format!("{DIRECTORY}/{revision:016x}-7fffffffffffffff-00000000")
}

/// Publishes values one after the other, and returns their revisions.
async fn published(publisher: &Publisher<Text>, values: &[&str]) -> Vec<i64> {
    let mut revisions = Vec::new();
    for value in values {
        let published = publisher.publish(PATH, &text(value)).await.unwrap();
        revisions.push(published.stat.unwrap().mzxid);
    }
    revisions
}

/// Returns the revisions that are verified, and the others.
fn split(history: &[HistoryEntry]) -> (Vec<i64>, Vec<i64>) {
    let (verified, others): (Vec<_>, Vec<_>) = history.iter().partition(|one| one.is_verified);
    let revisions = |entries: Vec<&HistoryEntry>| entries.iter().map(|one| one.revision).collect();
    (revisions(verified), revisions(others))
}

fn restricted(revisions: usize) -> PublishOptions {
    PublishOptions::default()
        .with_history(revisions)
        .with_acl(Acl::creator_only())
}

async fn acl_of(session: &Session, path: &str) -> Acl {
    session.acl(path).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_history_permits_what_its_key_does() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    let publisher = Publisher::with_options(&session, Text, restricted(3));
    published(&publisher, &["one", "two"]).await;
    let acl = acl_of(&session, PATH).await;
    assert_ne!(acl, Acl::open());
    assert_eq!(acl_of(&session, DIRECTORY).await, acl);
    // From the beginning.
    assert_eq!(stat_of(&ensemble, DIRECTORY).aversion, 0);
    let other = ensemble.connect().await;
    let planted = other.create(entry(1), "planted").await.unwrap_err();
    assert_eq!(planted.kind(), ErrorKind::NoAuth);

    // It follows the key.
    let narrower = AclEntry::new(
        Permissions::ALL,
        acl.entries()[0].scheme(),
        acl.entries()[0].id(),
    );
    let reader = AclEntry::new(Permissions::READ, "world", "anyone");
    session
        .set_acl(PATH, Acl::new([narrower, reader]))
        .await
        .unwrap();
    with_history(&session, 3)
        .publish(PATH, &text("three"))
        .await
        .unwrap();
    let acl = acl_of(&session, PATH).await;
    assert_eq!(acl.entries().len(), 2);
    assert_eq!(acl_of(&session, DIRECTORY).await, acl);
    // So does that of a key that is created again.
    publisher.remove(PATH).await.unwrap();
    with_history(&session, 3)
        .publish(PATH, &text("four"))
        .await
        .unwrap();
    assert_eq!(acl_of(&session, DIRECTORY).await, Acl::open());
}

#[tokio::test(start_paused = true)]
async fn histories_are_no_more_open_than_the_node_above() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    session
        .create("/app", "")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    published(&with_history(&session, 3), &["one", "two"]).await;
    let above = acl_of(&session, "/app").await;
    assert_ne!(above, Acl::open());
    assert_eq!(acl_of(&session, "/app/_history_").await, above);
    // An ACL of the session is that of all nodes.
    let chosen = session.with_acl(Acl::read_only());
    session.create("/other", "").await.unwrap();
    let publisher = with_history(&chosen, 3);
    session.create("/other/key", "one").await.unwrap();
    let error = publisher.publish("/other/key", &text("two")).await;
    assert!(error.is_err(), "the directory permits no entries");
    assert_eq!(acl_of(&session, "/other/_history_").await, Acl::read_only());
}

#[tokio::test(start_paused = true)]
async fn a_history_that_another_client_keeps_is_not_written() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    let other = ensemble.connect().digest("eve", "secret").await;
    published(&publisher(&session), &["one"]).await;
    session.set_acl(PATH, Acl::creator_only()).await.unwrap();
    other.create("/app/_history_", "").await.unwrap();
    let open_but_admin = [
        AclEntry::new(Permissions::ALL, "auth", ""),
        AclEntry::new(
            Permissions::READ | Permissions::CREATE | Permissions::DELETE,
            "world",
            "anyone",
        ),
    ];
    other
        .create(DIRECTORY, "")
        .acl(Acl::new(open_but_admin))
        .await
        .unwrap();
    let publish = with_history(&session, 3).publish(PATH, &text("two"));
    let error = publish.await.unwrap_err();
    assert!(
        matches!(&error, PublishError::Operation(error) if error.kind() == ErrorKind::NoAuth),
        "{error:?}"
    );
    assert!(error.to_string().contains(DIRECTORY), "{error}");
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");

    // One that permits it is taken over.
    other.set_acl(DIRECTORY, Acl::open()).await.unwrap();
    published(&with_history(&session, 3), &["two"]).await;
    assert_eq!(
        acl_of(&session, DIRECTORY).await,
        acl_of(&session, PATH).await
    );
}

#[tokio::test(start_paused = true)]
async fn a_planted_entry_is_not_rolled_back_to() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 5);
    let revisions = published(&publisher, &["one", "two", "three"]).await;
    let other = ensemble.connect().await;
    // Beside a genuine one.
    other.create(entry(revisions[0]), "planted").await.unwrap();
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!(verified, [revisions[1], revisions[0]]);
    assert_eq!(others, [revisions[0]]);
    let error = publisher
        .roll_back(PATH, revisions[0], Expected::Any)
        .await
        .unwrap_err();
    let PublishError::AmbiguousRevision { entries, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(entries.len(), 2);
    assert!(error.to_string().contains(&entry(revisions[0])), "{error}");
    let error = publisher
        .roll_back_unverified(PATH, revisions[0], Expected::Any)
        .await;
    assert!(
        matches!(error, Err(PublishError::AmbiguousRevision { .. })),
        "{error:?}"
    );
    session.delete(entry(revisions[0])).await.unwrap();
    let back = publisher.roll_back(PATH, revisions[0], Expected::Any);
    back.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");

    // Of a revision that the key never had.
    for revision in [1, revisions[2] + 1, i64::MAX] {
        other.create(entry(revision), "planted").await.unwrap();
        let error = publisher.roll_back(PATH, revision, Expected::Any).await;
        assert!(
            matches!(&error, Err(PublishError::UnverifiedRevision { entry: found, .. })
                if found.as_str() == entry(revision)),
            "{error:?}"
        );
    }
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
    let asked = publisher.roll_back_unverified(PATH, 1, Expected::Any);
    asked.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "planted");
}

#[tokio::test(start_paused = true)]
async fn a_changed_entry_is_not_rolled_back_to() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 5);
    let revisions = published(&publisher, &["one", "two"]).await;
    let node = publisher.history(PATH).await.unwrap()[0].node.clone();
    ensemble
        .connect()
        .await
        .set(&node, "planted")
        .await
        .unwrap();
    let back = publisher.roll_back(PATH, revisions[0], Expected::Any).await;
    assert!(
        matches!(back, Err(PublishError::UnverifiedRevision { .. })),
        "{back:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_keeps_a_verified_history() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 9);
    let mut revisions = published(&publisher, &["one", "two"]).await;
    publisher.remove(PATH).await.unwrap();
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!((verified.len(), others), (2, vec![]));
    // An entry that another client adds after the removal proves nothing, and refutes nothing.
    ensemble
        .connect()
        .await
        .create(entry(revisions[1] + 1), "planted")
        .await
        .unwrap();
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!(verified, [revisions[1], revisions[0]]);
    assert_eq!(others, [revisions[1] + 1]);
    let back = publisher.roll_back(PATH, revisions[0], Expected::Absent);
    let back = back.await.unwrap();
    assert_eq!(back.change, KeyChange::Created);
    revisions.push(back.stat.unwrap().mzxid);
    published(&publisher, &["three"]).await;
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!(verified, [revisions[2], revisions[1], revisions[0]]);
    assert_eq!(others, [revisions[1] + 1]);
}

#[tokio::test(start_paused = true)]
async fn a_history_is_unverified_after_a_foreign_write() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 9);
    let revisions = published(&publisher, &["one", "two"]).await;
    session.set(PATH, "foreign").await.unwrap();
    let foreign = stat_of(&ensemble, PATH).mzxid;
    published(&publisher, &["three"]).await;
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!((verified, others), (vec![foreign], vec![revisions[0]]));
    let back = publisher.roll_back(PATH, revisions[0], Expected::Any).await;
    assert!(
        matches!(back, Err(PublishError::UnverifiedRevision { .. })),
        "{back:?}"
    );
    // As after a removal by a client that keeps no history.
    session.delete(PATH).await.unwrap();
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!((verified, others), (vec![], vec![foreign, revisions[0]]));
    let back = publisher.roll_back_unverified(PATH, revisions[0], Expected::Absent);
    back.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_never_opens_a_restricted_key() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    let publisher = with_history(&session, 5);
    let revisions = published(&publisher, &["one"]).await;
    session.set_acl(PATH, Acl::creator_only()).await.unwrap();
    published(&publisher, &["two", "three"]).await;
    let acl = acl_of(&session, PATH).await;
    session.delete(PATH).await.unwrap();
    let other = ensemble.connect().await;
    let planted = other.create(entry(i64::MAX), "planted").await;
    assert_eq!(planted.unwrap_err().kind(), ErrorKind::NoAuth);
    // The oldest entry was made while the key was open.
    let back = publisher.roll_back_unverified(PATH, revisions[0], Expected::Absent);
    back.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
    assert_eq!(acl_of(&session, PATH).await, acl);
}

#[tokio::test(start_paused = true)]
async fn planted_entries_displace_no_genuine_ones() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 3);
    let revisions = published(&publisher, &["one", "two"]).await;
    let other = ensemble.connect().await;
    for revision in 0..3 {
        let planted = entry(i64::MAX - revision);
        other.create(&planted, "planted").await.unwrap();
        // A node with children cannot be deleted in the transaction.
        other.create(format!("{planted}/child"), "").await.unwrap();
    }
    published(&publisher, &["three", "four"]).await;
    let (verified, _) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!(verified.last(), Some(&revisions[0]));
    assert_eq!(verified.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_data_that_a_history_reads_is_bounded() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 100);
    published(&publisher, &["one", "two"]).await;
    let large = "x".repeat(400 << 10);
    let other = ensemble.connect().await;
    for revision in 0..30 {
        let planted = entry(i64::MAX - revision);
        other.create(planted, large.clone()).await.unwrap();
    }
    let history = publisher.history(PATH).await.unwrap();
    let read: Vec<_> = history
        .iter()
        .filter_map(|one| one.data.as_deref())
        .collect();
    assert_eq!(read, [b"one"]);
    assert_eq!(
        history.iter().filter(|one| one.size == large.len()).count(),
        30
    );

    // Also if all are genuine.
    for _ in 0..30 {
        publisher.publish(PATH, &large).await.unwrap();
    }
    let history = publisher.history(PATH).await.unwrap();
    let read: Vec<_> = history.iter().filter_map(|one| one.data.as_ref()).collect();
    let bytes: usize = read.iter().map(|data| data.len()).sum();
    assert!(bytes > 7 << 20 && bytes <= 8 << 20, "{bytes}");
    assert!(history.iter().filter(|one| one.is_verified).count() > 30);
}

#[tokio::test(start_paused = true)]
async fn an_imported_history_is_shown_as_unverified() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create(PATH, "now").parents().await.unwrap();
    for revision in [0x2_0000_0001, 0x2_0000_0002] {
        let import = session.create(entry(revision), "imported").parents();
        import.await.unwrap();
    }
    let publisher = with_history(&session, 9);
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!((verified.len(), others.len()), (0, 2));
    let revisions = published(&publisher, &["one", "two"]).await;
    let (verified, others) = split(&publisher.history(PATH).await.unwrap());
    assert_eq!((verified.len(), others.len()), (2, 2));
    assert_eq!(verified[0], revisions[0]);
}
