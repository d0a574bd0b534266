//! Publications with a fault at each request, and with concurrent writers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_config::{Expected, KeyChange, PublishError, PublishOptions, Publisher};
use zk_core::codec::Text;
use zk_core::transport::TransportError;
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session, SessionId};
use zk_sim::{Chaos, Check, Ensemble, Proposal, matching};

use crate::{PATH, data_of, pass, polled, publisher, soon, stat_of, text, with_history};

#[tokio::test(start_paused = true)]
async fn a_key_is_created_replaced_left_alone_and_removed() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);

    let made = publisher.publish(PATH, &text("one")).await.unwrap();
    assert_eq!(
        (made.path.as_str(), made.change),
        (PATH, KeyChange::Created)
    );
    assert_eq!(made.stat, Some(stat_of(&ensemble, PATH)));

    let replaced = publisher.publish(PATH, &text("two")).await.unwrap();
    assert_eq!(replaced.change, KeyChange::Replaced);
    assert_eq!(replaced.stat.unwrap().version, 1);
    assert_eq!(replaced.stat, Some(stat_of(&ensemble, PATH)));

    let same = publisher.publish(PATH, &text("two")).only_if_changed();
    let same = same.await.unwrap();
    assert_eq!(
        (same.change, same.stat),
        (KeyChange::Unchanged, replaced.stat)
    );
    assert_eq!(stat_of(&ensemble, PATH).version, 1);

    let removed = publisher.remove(PATH).await.unwrap();
    assert_eq!((removed.change, removed.stat), (KeyChange::Removed, None));
    assert_eq!(data_of(&ensemble, PATH), None);
    let again = publisher.remove(PATH).await.unwrap();
    assert_eq!((again.change, again.stat), (KeyChange::Unchanged, None));
    // Without a history there are no other nodes.
    let paths: Vec<_> = ensemble
        .tree()
        .nodes()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(paths, ["/app"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_unless_the_condition_holds() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    let conflict = async |expected| {
        let publish = publisher.publish(PATH, &text("no")).expecting(expected);
        let error = publish.await.unwrap_err();
        assert!(error.is_conflict(), "{expected:?}: {error:?}");
        error.to_string()
    };
    assert_eq!(
        conflict(Expected::Version(0)).await,
        "/app/motto is not as expected: there is no node"
    );
    let absent = publisher
        .publish(PATH, &text("one"))
        .expecting(Expected::Absent);
    let revision = absent.await.unwrap().stat.unwrap().mzxid;
    conflict(Expected::Absent).await;
    assert_eq!(
        conflict(Expected::Version(7)).await,
        "/app/motto is not as expected: it has version 0, not 7"
    );
    conflict(Expected::Revision(revision + 1)).await;
    let version = publisher
        .publish(PATH, &text("two"))
        .expecting(Expected::Version(0));
    version.await.unwrap();
    conflict(Expected::Revision(revision)).await;

    // A node that was created again has the same version and another revision.
    session.delete(PATH).await.unwrap();
    session.create(PATH, "anew").await.unwrap();
    conflict(Expected::Revision(revision)).await;
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "anew");
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_catches_up_before_a_condition_fails() {
    let ensemble = Ensemble::new(3);
    let ahead = ensemble.connect().server(3).await;
    let behind = ensemble.connect().server(1).await;
    let first = publisher(&ahead).publish(PATH, &text("one")).await.unwrap();
    ensemble.server(1).lag_by(Duration::from_millis(500));
    let second = publisher(&ahead).publish(PATH, &text("two")).await.unwrap();
    let version = Expected::Version(second.stat.unwrap().version);
    assert_ne!(first.stat.unwrap().version, second.stat.unwrap().version);
    let publish = publisher(&behind)
        .publish(PATH, &text("three"))
        .expecting(version);
    publish.await.unwrap();

    ensemble.server(1).lag_by(Duration::from_millis(500));
    publisher(&ahead)
        .publish(PATH, &text("four"))
        .await
        .unwrap();
    // The lagging server shows the published value, which is old.
    let publish = publisher(&behind)
        .publish(PATH, &text("three"))
        .only_if_changed();
    assert_eq!(publish.await.unwrap().change, KeyChange::Replaced);
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "three");

    publisher(&ahead).remove(PATH).await.unwrap();
    ensemble.server(1).lag_by(Duration::from_millis(500));
    publisher(&ahead)
        .publish(PATH, &text("five"))
        .await
        .unwrap();
    assert_eq!(
        publisher(&behind).remove(PATH).await.unwrap().change,
        KeyChange::Removed
    );
}

#[tokio::test(start_paused = true)]
async fn keys_of_one_transaction_change_together_or_not_at_all() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 3);
    let all = publisher
        .transaction()
        .set("/app/host", &text("a"))
        .set("/app/port", &text("1"))
        .publish();
    all.await.unwrap();
    let all = publisher
        .transaction()
        .set("/app/host", &text("b"))
        .set("/other/deep/key", &text("x"))
        .remove("/app/port")
        .publish();
    let changes: Vec<_> = all.await.unwrap().iter().map(|one| one.change).collect();
    assert_eq!(
        changes,
        [KeyChange::Replaced, KeyChange::Created, KeyChange::Removed]
    );
    let (host, key) = (
        stat_of(&ensemble, "/app/host"),
        stat_of(&ensemble, "/other/deep/key"),
    );
    assert_eq!(host.mzxid, key.czxid);

    let some = publisher
        .transaction()
        .set("/app/host", &text("c"))
        .set("/other/deep/key", &text("y"))
        .expecting(Expected::Absent)
        .publish();
    assert!(some.await.unwrap_err().is_conflict());
    // An unchanged key is checked in the transaction.
    let unchanged = publisher
        .transaction()
        .set("/app/host", &text("c"))
        .set("/other/deep/key", &text("x"))
        .only_if_changed()
        .publish();
    let changes: Vec<_> = unchanged
        .await
        .unwrap()
        .iter()
        .map(|one| one.change)
        .collect();
    assert_eq!(changes, [KeyChange::Replaced, KeyChange::Unchanged]);
    assert_eq!(publisher.transaction().publish().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn invalid_keys_are_refused_before_a_write_is_sent() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    let before = ensemble.request_count();
    for (error, message) in [
        (
            publisher.publish("/", &text("x")).await.unwrap_err(),
            "/ cannot be published at: the root is not a key; name a node below it",
        ),
        (
            publisher
                .publish("/_history_/a", &text("x"))
                .await
                .unwrap_err(),
            "/_history_/a cannot be published at: it belongs to a history; use `Publisher::roll_back` for a revision",
        ),
        (
            publisher.publish("app", &text("x")).await.unwrap_err(),
            "the path cannot be published at",
        ),
        (
            publisher
                .transaction()
                .set("/a", &text("x"))
                .remove("/a")
                .publish()
                .await
                .unwrap_err(),
            "/a cannot be published at: the publication contains it already; add each key once",
        ),
        (
            publisher
                .publish("/a", &text("x"))
                .expecting(Expected::Version(-1))
                .await
                .unwrap_err(),
            "the version -1 of /a means any version to servers; write the node once with `Session::set`",
        ),
    ] {
        assert_eq!(error.to_string(), message);
    }
    // The last one has sent reads.
    assert!(ensemble.arrived(matching::writes()) == 0, "{before}");
    let large = publisher.publish("/a", &"x".repeat((1 << 20) + 1)).await;
    assert!(large.unwrap_err().is_too_large());
    assert_eq!(ensemble.arrived(matching::writes()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_history_rolls_back_replaced_and_removed_keys() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 3);
    let mut revisions = Vec::new();
    for value in ["one", "two", "three", "four", "five"] {
        let published = publisher.publish(PATH, &text(value)).await.unwrap();
        revisions.push(published.stat.unwrap().mzxid);
    }
    let history = publisher.history(PATH).await.unwrap();
    let seen: Vec<_> = history
        .iter()
        .map(|one| (one.revision, one.data.as_deref().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            (revisions[3], b"four".as_slice()),
            (revisions[2], b"three"),
            (revisions[1], b"two"),
        ]
    );
    assert!(history.iter().all(|one| one.replaced_by == session.id()));

    let roll_back = publisher.roll_back(PATH, revisions[0], Expected::Any);
    let error = roll_back.await.unwrap_err();
    assert!(
        matches!(error, PublishError::NoSuchRevision { .. }),
        "{error}"
    );
    let roll_back = publisher.roll_back(PATH, revisions[1], Expected::Version(4));
    let back = roll_back.await.unwrap();
    assert_eq!(back.change, KeyChange::Replaced);
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "two");

    publisher.remove(PATH).await.unwrap();
    let back = publisher
        .roll_back(PATH, back.stat.unwrap().mzxid, Expected::Absent)
        .await
        .unwrap();
    assert_eq!(back.change, KeyChange::Created);
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "two");
    assert_eq!(publisher.history(PATH).await.unwrap().len(), 3);
    assert_eq!(publisher.history("/none").await.unwrap(), []);

    // A shorter history is cut by the next publication.
    with_history(&session, 1)
        .publish(PATH, &text("six"))
        .await
        .unwrap();
    assert_eq!(publisher.history(PATH).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_on_a_lagging_server_finds_the_revision() {
    let ensemble = Ensemble::new(3);
    let ahead = ensemble.connect().server(3).await;
    let behind = ensemble.connect().server(1).await;
    let publish = with_history(&ahead, 3).publish(PATH, &text("one"));
    let first = publish.await.unwrap().stat.unwrap().mzxid;
    ensemble.server(1).lag_by(Duration::from_millis(500));
    let publish = with_history(&ahead, 3).publish(PATH, &text("two"));
    publish.await.unwrap();
    let behind = with_history(&behind, 3);
    let back = behind.roll_back(PATH, first, Expected::Version(1));
    let back = back.await.unwrap();
    assert_eq!(back.change, KeyChange::Replaced);
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_history_entry_has_the_acl_of_the_key() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    session.create("/app", "").await.unwrap();
    session
        .create("/app/key", "hidden")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    with_history(&session, 1)
        .publish("/app/key", &text("new"))
        .await
        .unwrap();
    let tree = ensemble.tree();
    let kept = tree
        .node("/app/_history_/key")
        .unwrap()
        .children()
        .next()
        .unwrap();
    let kept = format!("/app/_history_/key/{kept}");
    assert_eq!(
        session.acl(&kept).await.unwrap().0,
        session.acl("/app/key").await.unwrap().0
    );
    let other = ensemble.connect().await;
    assert!(other.get(&kept).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_is_restored_with_its_acl() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    session.create("/app", "").await.unwrap();
    let restricted = PublishOptions::default()
        .with_history(3)
        .with_acl(Acl::creator_only());
    let publisher = Publisher::with_options(&session, Text, restricted);
    let published = publisher.publish(PATH, &text("secret")).await.unwrap();
    let revision = published.stat.unwrap().mzxid;
    let (had, _) = session.acl(PATH).await.unwrap();
    publisher.remove(PATH).await.unwrap();
    // By a publisher without that ACL in its options.
    let other = with_history(&session, 3);
    let back = other.roll_back(PATH, revision, Expected::Absent);
    assert_eq!(back.await.unwrap().change, KeyChange::Created);
    assert_eq!(session.acl(PATH).await.unwrap().0, had);
    assert!(ensemble.connect().await.get(PATH).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_is_restored_with_its_last_acl() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("anna", "secret").await;
    session.create("/app", "").await.unwrap();
    let publisher = with_history(&session, 3);
    let published = publisher.publish(PATH, &text("one")).await.unwrap();
    let revision = published.stat.unwrap().mzxid;
    publisher.publish(PATH, &text("two")).await.unwrap();
    session.set_acl(PATH, Acl::creator_only()).await.unwrap();
    let (tightened, _) = session.acl(PATH).await.unwrap();
    publisher.publish(PATH, &text("secret")).await.unwrap();
    publisher.remove(PATH).await.unwrap();
    let back = publisher.roll_back(PATH, revision, Expected::Absent);
    back.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
    assert_eq!(session.acl(PATH).await.unwrap().0, tightened);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_restores_a_key_with_its_last_acl() {
    let ensemble = Ensemble::new(3);
    let ahead = ensemble.connect().server(3).digest("anna", "secret").await;
    let behind = ensemble.connect().server(1).digest("anna", "secret").await;
    let publisher = with_history(&ahead, 3);
    let published = publisher.publish(PATH, &text("one")).await.unwrap();
    let revision = published.stat.unwrap().mzxid;
    publisher.publish(PATH, &text("two")).await.unwrap();
    pass(Duration::from_secs(1)).await;
    ensemble.server(1).lag_by(Duration::from_millis(500));
    ahead.set_acl(PATH, Acl::creator_only()).await.unwrap();
    let (tightened, _) = ahead.acl(PATH).await.unwrap();
    publisher.publish(PATH, &text("secret")).await.unwrap();
    publisher.remove(PATH).await.unwrap();
    let publisher = with_history(&behind, 3);
    let back = publisher.roll_back(PATH, revision, Expected::Absent);
    back.await.unwrap();
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
    assert_eq!(ahead.acl(PATH).await.unwrap().0, tightened);
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_is_not_restored_with_a_hidden_acl() {
    let ensemble = Ensemble::new(1);
    let owner = ensemble.connect().digest("owner", "secret").await;
    let reader = [
        AclEntry::new(Permissions::ALL, "auth", ""),
        AclEntry::new(Permissions::READ, "world", "anyone"),
    ];
    let options = PublishOptions::default().with_history(3);
    let owned = options.clone().with_acl(Acl::new(reader));
    let publisher = Publisher::with_options(&owner, Text, owned);
    let published = publisher.publish(PATH, &text("one")).await.unwrap();
    let revision = published.stat.unwrap().mzxid;
    publisher.remove(PATH).await.unwrap();

    let other = ensemble.connect().await;
    let publisher = with_history(&other, 3);
    let back = publisher.roll_back(PATH, revision, Expected::Absent);
    let error = back.await.unwrap_err();
    assert!(matches!(error, PublishError::HiddenAcl { .. }), "{error:?}");
    assert_eq!(data_of(&ensemble, PATH), None);
    // With an ACL in the options it is restored.
    let chosen = options.with_acl(Acl::read_only());
    let publisher = Publisher::with_options(&other, Text, chosen);
    let back = publisher.roll_back(PATH, revision, Expected::Absent);
    back.await.unwrap();
    assert_eq!(other.acl(PATH).await.unwrap().0, Acl::read_only());
}

#[tokio::test(start_paused = true)]
async fn a_rollback_never_overwrites_an_unseen_publication() {
    let ensemble = Ensemble::new(1);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let publisher = with_history(&session, 3);
    let first = publisher.publish(PATH, &text("one")).await.unwrap();
    let bad = publisher.publish(PATH, &text("bad")).await.unwrap();
    let (first, bad) = (first.stat.unwrap().mzxid, bad.stat.unwrap().mzxid);
    let fixed = with_history(&other, 3).publish(PATH, &text("fixed"));
    fixed.await.unwrap();
    let back = publisher.roll_back(PATH, first, Expected::Revision(bad));
    let error = back.await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "fixed");
}

#[tokio::test(start_paused = true)]
async fn histories_are_deleted_with_the_key_above_or_purged() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 3);
    for path in ["/app", "/app/host", "/app/port", "/other"] {
        for value in ["one", "two", "three"] {
            publisher.publish(path, &text(value)).await.unwrap();
        }
    }
    // The removal fails while a child exists, and deletes nothing.
    publisher.remove("/app/host").await.unwrap();
    let error = publisher.remove("/app").await.unwrap_err();
    assert!(
        matches!(&error, PublishError::Operation(error) if error.kind() == ErrorKind::NotEmpty),
        "{error}"
    );
    assert_eq!(publisher.history("/app/host").await.unwrap().len(), 3);

    // It works together with the last child, and by a publisher without a history.
    let together = publisher.transaction().remove("/app/port").remove("/app");
    let removed = together.publish().await.unwrap();
    assert!(removed.iter().all(|one| one.change == KeyChange::Removed));
    assert_eq!(data_of(&ensemble, "/app"), None);
    publisher.publish("/app/host", &text("new")).await.unwrap();
    publisher.remove("/app/host").await.unwrap();
    crate::publisher(&session).remove("/app").await.unwrap();
    assert_eq!(data_of(&ensemble, "/app"), None);

    assert_eq!(publisher.history("/app").await.unwrap().len(), 3);
    publisher.purge_history("/app").await.unwrap();
    assert_eq!(publisher.history("/app").await.unwrap(), []);
    assert_eq!(publisher.history("/other").await.unwrap().len(), 2);
    publisher.purge_history("/other").await.unwrap();
    publisher.purge_history("/none").await.unwrap();
    let tree = ensemble.tree();
    let paths: Vec<_> = tree.nodes().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, ["/other"]);
}

#[tokio::test(start_paused = true)]
async fn histories_below_a_key_are_removed_whichever_reply_is_lost() {
    let runs = with_a_fault_at_each_request(
        async |session| {
            let publisher = with_history(session, 3);
            for value in ["one", "two"] {
                publisher.publish("/app/key", &text(value)).await.unwrap();
            }
            publisher.remove("/app/key").await.unwrap();
        },
        async |session| with_history(session, 3).remove("/app").await,
        |what, ensemble, done| {
            let published = done.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(published.change, KeyChange::Removed, "{what}");
            assert_eq!(data_of(ensemble, "/app"), None, "{what}");
        },
    )
    .await;
    assert!(runs > 25, "{runs} runs");
}

/// A fault at one request.
#[derive(Debug, Clone, Copy)]
enum RequestFault {
    LoseRequest,
    LoseReply,
    StallThenMove(usize),
    KillLeader(Proposal),
}

const FAULTS: [RequestFault; 6] = [
    RequestFault::LoseRequest,
    RequestFault::LoseReply,
    RequestFault::StallThenMove(2),
    // The leader.
    RequestFault::StallThenMove(3),
    RequestFault::KillLeader(Proposal::Survives),
    RequestFault::KillLeader(Proposal::Vanishes),
];

/// Runs `act` once for each of its requests and each fault, and returns the number of runs.
///
/// `prepare` creates the nodes before; `judge` checks the result.
async fn with_a_fault_at_each_request<T>(
    prepare: impl AsyncFn(&Session),
    act: impl AsyncFn(&Session) -> T,
    judge: impl Fn(&str, &Ensemble, T),
) -> usize {
    let mut runs = 0;
    for fault in FAULTS {
        for nth in 1.. {
            let what = format!("{fault:?} at request {nth}");
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            prepare(&session).await;
            let scripted = ensemble
                .on(matching::anything())
                .session(session.id())
                .nth(nth);
            let scripted = match fault {
                RequestFault::LoseRequest => scripted.lose_request(),
                RequestFault::LoseReply => scripted.lose_reply(),
                RequestFault::StallThenMove(to) => scripted.stall_then_move(to),
                RequestFault::KillLeader(proposal) => scripted.kill_leader(proposal),
            };
            let done = soon(&what, act(&session)).await;
            let count = scripted.count();
            scripted.withdraw();
            ensemble.heal();
            pass(Duration::from_secs(5)).await;
            judge(&what, &ensemble, done);
            runs += 1;
            if count == 0 {
                break;
            }
        }
    }
    runs
}

#[tokio::test(start_paused = true)]
async fn a_key_changes_once_whichever_reply_is_lost() {
    let runs = with_a_fault_at_each_request(
        async |session| {
            with_history(session, 3)
                .publish(PATH, &text("one"))
                .await
                .unwrap();
        },
        async |session| {
            let publish = with_history(session, 3).publish(PATH, &text("two"));
            publish.expecting(Expected::Version(0)).await
        },
        |what, ensemble, done| {
            let published = done.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(published.change, KeyChange::Replaced, "{what}");
            assert_eq!(published.stat, Some(stat_of(ensemble, PATH)), "{what}");
            assert_eq!(stat_of(ensemble, PATH).version, 1, "{what}");
            assert_eq!(data_of(ensemble, PATH).unwrap(), "two", "{what}");
            let tree = ensemble.tree();
            let kept = tree.node("/app/_history_/motto").unwrap();
            assert_eq!(kept.children().count(), 1, "{what}");
        },
    )
    .await;
    assert!(runs > 25, "{runs} runs");
}

#[tokio::test(start_paused = true)]
async fn a_key_changes_once_whichever_reply_is_lost_without_a_history() {
    let replaced = with_a_fault_at_each_request(
        async |session| {
            publisher(session)
                .publish(PATH, &text("one"))
                .await
                .unwrap();
        },
        async |session| publisher(session).publish(PATH, &text("two")).await,
        |what, ensemble, done| {
            let published = done.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(published.stat, Some(stat_of(ensemble, PATH)), "{what}");
            assert_eq!(stat_of(ensemble, PATH).version, 1, "{what}");
        },
    )
    .await;
    let made = with_a_fault_at_each_request(
        async |_| {},
        async |session| publisher(session).publish(PATH, &text("one")).await,
        |what, ensemble, done| {
            let published = done.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(published.change, KeyChange::Created, "{what}");
            assert_eq!(published.stat, Some(stat_of(ensemble, PATH)), "{what}");
            assert_eq!(stat_of(ensemble, PATH).version, 0, "{what}");
        },
    )
    .await;
    assert!(replaced > 15 && made > 20, "{replaced} {made}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_without_evidence_is_an_unknown_outcome() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    publisher(&session)
        .publish(PATH, &text("one"))
        .await
        .unwrap();
    ensemble.on(matching::transactions(PATH)).lose_reply();
    // Another client could have written "two" as well.
    let publish = publisher(&session).publish(PATH, &text("two"));
    let error = publish.expecting(Expected::Version(0)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    assert!(
        matches!(error, PublishError::OutcomeUnknown { .. }),
        "{error:?}"
    );
    assert_eq!(error.class(), zk_core::ErrorClass::Recoverable);
}

#[tokio::test(start_paused = true)]
async fn the_stat_after_a_lost_reply_is_never_that_of_another_client() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    // The second publication creates the node of the history.
    for value in ["zero", "one"] {
        let publish = with_history(&session, 5).publish(PATH, &text(value));
        publish.await.unwrap();
    }
    ensemble
        .on(matching::transactions(PATH))
        .session(session.id())
        .lose_reply();
    let held = ensemble
        .on(matching::transactions("/"))
        .session(session.id())
        .hold();
    let publish = with_history(&session, 5).publish(PATH, &text("two"));
    let publishing = tokio::spawn(publish.into_future());
    soon("it reads the outcome", async {
        while held.count() == 0 {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "two");
    let publish = with_history(&other, 5).publish(PATH, &text("three"));
    publish.await.unwrap();
    held.release();
    let published = soon("it is published", publishing).await.unwrap().unwrap();
    // With the stat of the other client, the next publication could overwrite its value unseen.
    assert_eq!(
        (published.change, published.stat),
        (KeyChange::Replaced, None)
    );
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "three");
}

#[tokio::test(start_paused = true)]
async fn a_parent_and_its_children_are_created_and_removed_together() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    let all = publisher
        .transaction()
        .set("/app/pool/deep/size", &text("1"))
        .set("/app/pool/host", &text("a"))
        .set("/app/pool", &text("pool"))
        .expecting(Expected::Absent);
    let published = all.publish().await.unwrap();
    let paths = ["/app/pool/deep/size", "/app/pool/host", "/app/pool"];
    let czxid = stat_of(&ensemble, "/app/pool").czxid;
    for (one, path) in published.iter().zip(paths) {
        assert_eq!((one.path.as_str(), one.change), (path, KeyChange::Created));
        let stat = one.stat.unwrap();
        assert_eq!((stat.czxid, stat.mzxid), (czxid, czxid), "{path}");
        assert_eq!(stat_of(&ensemble, path).mzxid, czxid, "{path}");
    }
    assert_eq!(data_of(&ensemble, "/app/pool").unwrap(), "pool");
    session.delete("/app/pool/deep").recursive().await.unwrap();

    let all = publisher
        .transaction()
        .remove("/app/pool")
        .set("/app/other", &text("x"))
        .remove("/app/pool/host");
    let changes: Vec<_> = all.publish().await.unwrap();
    let changes: Vec<_> = changes.iter().map(|one| one.change).collect();
    assert_eq!(
        changes,
        [KeyChange::Removed, KeyChange::Created, KeyChange::Removed]
    );
    assert_eq!(data_of(&ensemble, "/app/pool"), None);
}

#[tokio::test(start_paused = true)]
async fn a_history_with_a_hidden_acl_is_refused() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("app", "secret").await;
    session.create("/app", "").await.unwrap();
    let no_admin = Acl::new([AclEntry::new(
        Permissions::READ | Permissions::WRITE,
        "auth",
        "",
    )]);
    session
        .create("/app/key", "one")
        .acl(no_admin)
        .await
        .unwrap();
    let error = with_history(&session, 1)
        .publish("/app/key", &text("two"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, PublishError::HiddenAcl { path } if path.as_str() == "/app/key"),
        "{error:?}"
    );
    assert!(error.to_string().contains("ADMIN"), "{error}");
    assert_eq!(data_of(&ensemble, "/app/key").unwrap(), "one");
    // Without a history no ACL is copied.
    let publish = publisher(&session).publish("/app/key", &text("two"));
    publish.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_entry_is_left_out_of_the_history() {
    let ensemble = Ensemble::new(1);
    let owner = ensemble.connect().digest("anna", "secret").await;
    let publisher = with_history(&owner, 5);
    for value in ["one", "two", "three"] {
        publisher.publish("/app/key", &text(value)).await.unwrap();
    }
    let (names, _) = owner.list("/app/_history_/key").await.unwrap();
    let hidden = format!("/app/_history_/key/{}", names.iter().min().unwrap());
    owner
        .set_acl(hidden.as_str(), Acl::creator_only())
        .await
        .unwrap();
    let other = with_history(&ensemble.connect().await, 5);
    let history = other.history("/app/key").await.unwrap();
    let seen: Vec<_> = history
        .iter()
        .map(|one| one.data.as_deref().unwrap())
        .collect();
    assert_eq!(seen, [b"two"]);
}

/// An incomplete history would hide revisions.
#[tokio::test(start_paused = true)]
async fn an_incomplete_read_of_a_history_is_an_error() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 5);
    for value in ["one", "two", "three"] {
        publisher.publish("/app/key", &text(value)).await.unwrap();
    }
    let refused = || TransportError::Refused(ErrorKind::Throttled, None);
    for reads in [
        ensemble.on(matching::gets("/app/_history_/key/*")),
        ensemble.on(matching::lists("/app/_history_/key")),
    ] {
        let rule = reads.every().refuse(refused());
        let error = publisher.history("/app/key").await.unwrap_err();
        assert!(
            matches!(&error, PublishError::Operation(error) if error.kind() == ErrorKind::Throttled),
            "{error}"
        );
        rule.withdraw();
    }

    let listed = ensemble.on(matching::lists("/app/_history_/key")).hold();
    let reading = tokio::spawn(async move { publisher.history("/app/key").await });
    soon("it has listed the entries", listed.happened()).await;
    let other = ensemble.connect().await;
    let (names, _) = other.list("/app/_history_/key").await.unwrap();
    let oldest = names.iter().min().unwrap();
    other
        .delete(format!("/app/_history_/key/{oldest}"))
        .await
        .unwrap();
    listed.release();
    let history = soon("it has read the entries", reading)
        .await
        .unwrap()
        .unwrap();
    let seen: Vec<_> = history
        .iter()
        .map(|one| one.data.as_deref().unwrap())
        .collect();
    assert_eq!(seen, [b"two"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_are_never_overwritten_unseen() {
    let ensemble = Ensemble::new(3);
    let mut counters = Vec::new();
    let sum = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let session = ensemble.connect().await;
        let sum = Arc::clone(&sum);
        counters.push(tokio::spawn(async move {
            let publisher = with_history(&session, 2);
            for _ in 0..10 {
                add_one(&session, &publisher, &sum).await;
            }
        }));
    }
    for counter in counters {
        soon("all have counted", counter).await.unwrap();
    }
    assert_eq!(data_of(&ensemble, "/count").unwrap(), "40");
    assert_eq!(sum.load(Ordering::SeqCst), 40);
}

/// Increments the counter by compare-and-set; returns false if the outcome is unknown or the session is lost.
async fn add_one(session: &Session, publisher: &Publisher<Text>, sum: &AtomicUsize) -> bool {
    loop {
        if session.state() != zk_core::ConnectionState::Connected {
            tokio::select! {
                _ = session.lost() => return false,
                () = pass(Duration::from_millis(10)) => continue,
            }
        }
        let (count, expected) = match session.get("/count").await {
            Ok((data, stat)) => {
                let count: usize = std::str::from_utf8(&data).unwrap().parse().unwrap();
                (count, Expected::Revision(stat.mzxid))
            }
            Err(error) if error.is_no_node() => (0, Expected::Absent),
            Err(error) if error.is_fatal() => return false,
            Err(_) => continue,
        };
        let publish = publisher.publish("/count", &(count + 1).to_string());
        match publish.expecting(expected).await {
            Ok(_) => {
                sum.fetch_add(1, Ordering::SeqCst);
                return true;
            }
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_outcome_unknown() => return false,
            Err(error) if error.class() == zk_core::ErrorClass::Fatal => return false,
            Err(_) => {}
        }
    }
}

#[test]
fn counters_under_chaos_add_up() {
    let (counted, unknown) = (Cell::new(0), Cell::new(0));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let sum = Arc::new(AtomicUsize::new(0));
            let unknowns = Arc::new(AtomicUsize::new(0));
            let mut counters = Vec::new();
            for _ in 0..3 {
                let session = ensemble.connect().await;
                let (sum, unknowns) = (Arc::clone(&sum), Arc::clone(&unknowns));
                counters.push(tokio::spawn(async move {
                    let publisher = with_history(&session, 50);
                    for _ in 0..8 {
                        if !add_one(&session, &publisher, &sum).await {
                            unknowns.fetch_add(1, Ordering::SeqCst);
                        }
                        pass(Duration::from_millis(300)).await;
                    }
                }));
            }
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(4))
                .every(Duration::from_millis(150));
            let disturbing = tokio::spawn(chaos.run(&ensemble));
            for counter in counters {
                soon("all have counted", counter).await.unwrap();
            }
            disturbing.await.unwrap();
            let (sum, unknowns) = (sum.load(Ordering::SeqCst), unknowns.load(Ordering::SeqCst));
            let count = data_of(&ensemble, "/count").map_or(0, |data| data.parse().unwrap());
            assert!(
                (sum..=sum + unknowns).contains(&count),
                "seed {seed}: {count} of {sum} and {unknowns} unknown"
            );
            counted.set(counted.get() + sum);
            unknown.set(unknown.get() + unknowns);
        });
    println!(
        "{} counted, {} unknown in {checked}",
        counted.get(),
        unknown.get()
    );
    assert!(checked.seeds == 1 || counted.get() > 10 * checked.seeds);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_dropped_anywhere_changes_all_keys_or_none() {
    for polls in 0.. {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let publisher = with_history(&session, 2);
        let first = publisher
            .transaction()
            .set("/a", &text("1"))
            .set("/b", &text("1"));
        first.publish().await.unwrap();
        let second = publisher
            .transaction()
            .set("/a", &text("2"))
            .set("/b", &text("2"));
        let done = polled(polls, second.publish()).await;
        pass(Duration::from_secs(5)).await;
        let (a, b) = (data_of(&ensemble, "/a"), data_of(&ensemble, "/b"));
        assert_eq!(a, b, "{polls} polls");
        assert_eq!(session.counters().unsettled, 0);
        if done.is_some() {
            assert_eq!(a.unwrap(), "2");
            assert!(polls > 3);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_publication_on_a_lost_session_is_a_fatal_error() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    publisher(&session)
        .publish(PATH, &text("one"))
        .await
        .unwrap();
    ensemble.expire(session.id());
    let error = publisher(&session)
        .publish(PATH, &text("two"))
        .await
        .unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal, "{error:?}");
    assert_ne!(session.id(), SessionId::from_i64(0));
    assert_eq!(data_of(&ensemble, PATH).unwrap(), "one");
}

const SEEDS: u64 = 200;
