//! Writes whose answer is lost while other clients write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::{Acl, AclEntry, Error, ErrorClass, ErrorKind, Permissions, RetryPolicy, Session};
use zk_sim::matching::{creates, gets, sets, writes};
use zk_sim::{Chaos, Check, Ensemble};
use zk_testkit::sim::lose;

use crate::{meanwhile, pass, requests, server_error};

/// Writes to `/a` without naming a version.
async fn write(kind: &str, session: &Session, data: &str) -> Result<(), Error> {
    match kind {
        "set" => session.set("/a", data).await.map(drop),
        "create or set" => session.create("/a", data).or_set().await.map(drop),
        "transaction" => {
            let set = session.transaction().set("/a", data);
            set.commit().await.map(drop)
        }
        "guarded transaction" => {
            let set = session.transaction().check("/l").set("/a", data);
            set.commit().await.map(drop)
        }
        "delete" => session.delete("/a").await,
        "guaranteed delete" => session.delete("/a").guaranteed().await,
        "access rules" => session.set_acl("/a", Acl::open()).await.map(drop),
        kind => unreachable!("{kind}"),
    }
}

const KINDS: [&str; 7] = [
    "set",
    "create or set",
    "transaction",
    "guarded transaction",
    "delete",
    "guaranteed delete",
    "access rules",
];

/// An ensemble with `/a` and `/l`, a session that has made them, and another one.
async fn start() -> (Ensemble, Session, Session) {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    session.create("/a", "old").await.unwrap();
    session.create("/l", "").await.unwrap();
    other.sync("/a").await.unwrap();
    (sim, session, other)
}

/// Rules of another client, which let everybody change them.
fn their_rules() -> Acl {
    let permissions = Permissions::READ | Permissions::ADMIN;
    Acl::new([AclEntry::new(permissions, "world", "anyone")])
}

#[tokio::test(start_paused = true)]
async fn write_without_a_version_survives_a_lost_request_or_reply() {
    for kind in KINDS {
        for is_applied in [false, true] {
            let (sim, session, _) = start().await;
            let on = sim.on(writes());
            if is_applied {
                on.lose_reply();
            } else {
                on.lose_request();
            }
            let result = write(kind, &session, "new").await;
            result.unwrap_or_else(|error| panic!("{kind} {is_applied}: {error}"));
            let tree = sim.tree();
            match (kind, tree.node("/a")) {
                ("delete" | "guaranteed delete", None) | ("access rules", Some(_)) => {}
                (_, Some(node)) => assert_eq!(node.data(), b"new"),
                other => panic!("{other:?}"),
            }
            // What the session has read, on a server that had caught up, decided whether it wrote again.
            let (first, again, is_always_repeated) = match kind {
                "set" => (vec!["set /a"], vec!["transaction /", "get /a"], false),
                "create or set" => (
                    vec!["create /a"],
                    vec!["create /a", "get /a", "set /a"],
                    true,
                ),
                "transaction" => (
                    vec!["transaction /a"],
                    vec!["transaction /", "get /a"],
                    true,
                ),
                "guarded transaction" => (
                    vec!["transaction /l /a"],
                    vec!["transaction /", "get /a"],
                    true,
                ),
                "access rules" => (vec!["set_acl /a"], vec!["transaction /", "acl /a"], false),
                "delete" => (vec!["delete /a"], vec!["transaction /", "exists /a"], false),
                _ => {
                    let first = vec!["sync /a", "exists /a", "delete /a"];
                    (first, vec!["transaction /", "exists /a"], false)
                }
            };
            let mut expected = [first.clone(), again].concat();
            if kind != "create or set" && (is_always_repeated || !is_applied) {
                expected.extend(first.last());
            }
            let actual = requests(&sim, &session);
            assert_eq!(actual[2..], expected, "{kind} {is_applied}");
        }
    }
}

/// The leader answers a `sync` of its own clients while it has a transaction that is not committed yet.
#[tokio::test(start_paused = true)]
async fn write_in_doubt_that_is_not_committed_yet_is_found_out_at_the_leader() {
    for kind in KINDS {
        let sim = Ensemble::new(3);
        let session = sim.connect().server(1).await;
        session.create("/a", "old").await.unwrap();
        session.create("/l", "").await.unwrap();
        let stalled = sim.on(writes()).stall_then_move(3);
        let result = write(kind, &session, "new").await;
        result.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(stalled.count(), 1, "{kind}");
        pass(Duration::from_secs(1)).await;
        let tree = sim.tree();
        let node = tree.node("/a").map(|node| (node.data(), node.stat()));
        let version = node.map(|(_, stat)| (stat.version, stat.aversion));
        let expected = match kind {
            "delete" | "guaranteed delete" => None,
            "access rules" => Some((0, 1)),
            // It is repeated under the version that it has given the node.
            "transaction" | "guarded transaction" => Some((2, 0)),
            _ => Some((1, 0)),
        };
        assert_eq!(version, expected, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn repetition_never_undoes_what_another_client_did_since() {
    for kind in KINDS {
        let (sim, session, other) = start().await;
        let lost = sim.on(writes()).lose_reply();
        let result = meanwhile(lost, write(kind, &session, "new"), async || match kind {
            "delete" | "guaranteed delete" => {
                other.create("/a", "theirs").await.unwrap();
            }
            "access rules" => {
                other.set_acl("/a", their_rules()).await.unwrap();
            }
            _ => {
                other.set("/a", "theirs").await.unwrap();
            }
        });
        let result = result.await;
        if kind == "access rules" {
            other.sync("/a").await.unwrap();
            assert_eq!(other.acl("/a").await.unwrap().0, their_rules());
        } else {
            let tree = sim.tree();
            let node = tree.node("/a").unwrap();
            assert_eq!(node.data(), b"theirs", "{kind}: {result:?}");
        }
        // The guaranteed one knows which node it meant, and that is gone.
        let is_sure = kind == "guaranteed delete";
        assert_eq!(result.is_ok(), is_sure, "{kind}: {result:?}");
        if let Err(error) = result {
            assert!(error.is_outcome_unknown() && !error.is_fatal(), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_of_a_write_that_is_not_answered_is_unknown() {
    for kind in KINDS {
        for fault in ["lost", "server error", "silence"] {
            let (sim, session, _) = start().await;
            let on = sim.on(writes());
            match fault {
                "lost" => on.lose_reply(),
                "server error" => on.misreport(server_error()),
                _ => on.hold(),
            };
            let strict = session.with_retry(RetryPolicy::never());
            let before = sim.arrived(writes());
            let error = write(kind, &strict, "x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.class(), sim.arrived(writes()) - before),
                (ErrorKind::OutcomeUnknown, ErrorClass::Recoverable, 1),
                "{kind} {fault}: {error}"
            );
            assert!(error.is_outcome_unknown());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_nothing_can_judge_are_not_repeated() {
    for kind in 0..4 {
        let (sim, session, _) = start().await;
        let lost = sim.on(writes()).every().lose_reply();
        let transaction = session.transaction();
        let transaction = match kind {
            0 => {
                let create = session.create("/a-", "").sequential();
                let error = create.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
                assert_eq!(lost.count(), 1);
                continue;
            }
            1 => transaction.set("/a", "1").set("/a", "2"),
            2 => transaction.set_version("/a", "", 0),
            _ => transaction.check("/l").delete("/a"),
        };
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert_eq!(lost.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn write_whose_data_is_there_is_done() {
    // Another client has written the same.
    let (sim, session, other) = start().await;
    let lost = sim.on(sets("/a")).lose_request();
    let set = meanwhile(lost, session.set("/a", "x"), async || {
        other.set("/a", "x").await.unwrap();
    });
    assert_eq!(set.await.unwrap().version, 1);
    // The node is the one that this call created.
    sim.on(creates("/b")).lose_reply();
    let (_, stat) = session.create("/b", "x").or_set().await.unwrap();
    assert_eq!((stat.version, stat.czxid), (0, stat.mzxid));
}

#[tokio::test(start_paused = true)]
async fn repeated_transaction_is_made_under_what_was_found() {
    for change in ["none", "written", "unguarded"] {
        let (sim, session, other) = start().await;
        sim.on(writes()).lose_reply();
        // Between the read that decides and the repetition.
        let read = sim.on(gets("/a")).hold();
        let call = write("guarded transaction", &session, "x");
        let result = meanwhile(read.clone(), call, async || {
            match change {
                "written" => drop(other.set("/a", "theirs").await.unwrap()),
                "unguarded" => other.delete("/l").await.unwrap(),
                _ => {}
            }
            read.release();
        });
        match (change, result.await) {
            ("none", Ok(())) => {}
            ("written", Err(error)) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown),
            ("unguarded", Err(error)) => assert_eq!(
                (
                    error.kind(),
                    error.failed_part(),
                    error.is_outcome_unknown()
                ),
                (ErrorKind::NoNode, Some(0), true)
            ),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_versioned_write_judges_whose_version_it_is() {
    for (change, is_idempotent, expected) in [
        ("none", true, Ok(1)),
        ("none", false, Err((ErrorKind::OutcomeUnknown, true))),
        ("written", true, Err((ErrorKind::BadVersion, false))),
        ("replaced", true, Err((ErrorKind::OutcomeUnknown, true))),
        ("deleted", true, Err((ErrorKind::NoNode, true))),
    ] {
        let (sim, session, other) = start().await;
        let on = sim.on(sets("/a")).session(session.id());
        let lost = lose(on, change == "none");
        let set = session.set("/a", "x").version(0);
        let set = if is_idempotent { set.idempotent() } else { set };
        let result = meanwhile(lost, set, async || match change {
            "written" => drop(other.set("/a", "y").await.unwrap()),
            "replaced" => {
                other.delete("/a").await.unwrap();
                other.create("/a", "x").await.unwrap();
            }
            "deleted" => other.delete("/a").await.unwrap(),
            _ => {}
        });
        let result = result.await;
        let result = result.map(|stat| stat.version);
        let result = result.map_err(|error| (error.kind(), error.is_outcome_unknown()));
        assert_eq!(result, expected, "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_versioned_delete_that_finds_nothing_is_done() {
    let (sim, session, _) = start().await;
    sim.on(writes()).lose_reply();
    session.delete("/a").version(0).await.unwrap();
    let expected = ["delete /a", "transaction /", "exists /a"];
    assert_eq!(requests(&sim, &session)[2..], expected);
}

#[test]
fn no_acknowledged_write_is_undone_by_an_older_one() {
    let overwritten = AtomicUsize::new(0);
    Check::new(0..100).run(async |sim, _seed| {
        let one = sim.connect().timeout(Duration::from_secs(30)).await;
        let other = sim.connect().timeout(Duration::from_secs(30)).await;
        one.create("/a", "0").await?;
        other.sync("/a").await?;
        let chaos = tokio::spawn(Chaos::default().run(&sim));
        for round in 1..40_u32 {
            let (first, second) = (format!("{round} one"), format!("{round} other"));
            let (_, is_written) = tokio::join!(one.set("/a", first.clone()).into_future(), async {
                pass(Duration::from_millis(u64::from(round) * 3)).await;
                // Who reads what the first one wrote comes after it.
                match other.get("/a").await {
                    Ok((data, stat)) if data == first.as_bytes() => {
                        let set = other.set("/a", second.clone()).version(stat.version);
                        set.await.is_ok()
                    }
                    _ => false,
                }
            });
            if is_written {
                overwritten.fetch_add(1, Ordering::SeqCst);
                let caught_up = other.sync("/a").with_quorum();
                caught_up.timeout(Duration::from_secs(60)).await?;
                let (data, _) = other.get("/a").await?;
                assert_eq!(data, second.as_bytes(), "an older write came back");
            }
        }
        chaos.await.expect("nothing panics there");
        Ok::<(), Error>(())
    });
    assert!(overwritten.into_inner() > 500, "hardly anything was tried");
}
