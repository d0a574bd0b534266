//! Creates: which node is ours after a lost reply, protected names, and parents.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::{Acl, ErrorKind, Jitter, NodePath, RetryPolicy, Session};
use zk_sim::Ensemble;
use zk_sim::matching::{creates, lists, sets, transactions};
use zk_sim::wait::until;

use crate::{meanwhile, pass, requests, soon};

/// A view that repeats a request so late that others can act before, even over the session's next link.
fn patient(session: &Session) -> Session {
    let pause = Duration::from_millis(50);
    session.with_retry(RetryPolicy::constant(pause).jitter(Jitter::None))
}

#[tokio::test(start_paused = true)]
async fn repeated_create_that_finds_a_node_judges_whose_it_is() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    sim.on(creates("/mine")).lose_reply();
    let (_, stat) = session.create("/mine", "x").ephemeral().await.unwrap();
    assert_eq!(stat.ephemeral_owner, Some(session.id()));
    let lost = sim.on(creates("/theirs")).lose_request();
    let create = session.create("/theirs", "x").ephemeral();
    let theirs = meanwhile(lost, create, async || {
        let theirs = other.create("/theirs", "x").ephemeral();
        theirs.await.unwrap();
    });
    assert!(theirs.await.unwrap_err().is_node_exists());

    // The data of another client, and whether this call's is its own.
    for (data, is_idempotent) in [("y", false), ("y", true), ("x", false), ("x", true)] {
        let path = format!("/{data}-{is_idempotent}");
        let lost = sim.on(creates(&path)).lose_request();
        let create = session.create(&path, "x");
        let create = if is_idempotent {
            create.idempotent()
        } else {
            create
        };
        let result = meanwhile(lost, create, async || {
            other.create(&path, data).await.unwrap();
        });
        match (data, is_idempotent, result.await) {
            ("y", _, Err(error)) => assert!(error.is_node_exists(), "{error}"),
            ("x", true, Ok((made, _))) => assert_eq!(made.as_str(), path),
            ("x", false, Err(unknown)) => {
                assert_eq!(
                    unknown.to_string(),
                    "create /x-false: outcome unknown, the request was sent and no reply arrived \
                     (a node exists, and its state does not show whether this call created it) after 2 attempts"
                );
                assert!(unknown.is_outcome_unknown());
            }
            other => panic!("{other:?}"),
        }
    }
    // Without a lost reply an existing node is another call's.
    let error = session.create("/x-true", "x").idempotent();
    assert!(error.await.unwrap_err().is_node_exists());
}

#[tokio::test(start_paused = true)]
async fn ephemeral_node_of_another_call_is_not_ours() {
    let sim = Ensemble::new(3);
    let session = patient(&sim.connect().await);
    let create = |data| session.create("/a", data).ephemeral();
    sim.on(creates("/a")).lose_reply();
    create("x").await.unwrap();
    // It was there before.
    sim.on(creates("/a")).lose_request();
    assert!(create("x").await.unwrap_err().is_node_exists());
    // Once it was deleted, a node found there is a new one.
    session.delete("/a").await.unwrap();
    sim.on(creates("/a")).lose_reply();
    create("x").await.unwrap();
    // Its data is another call's.
    session.delete("/a").await.unwrap();
    let lost = sim.on(creates("/a")).lose_request();
    let result = meanwhile(lost, create("x"), async || {
        create("y").await.unwrap();
    });
    assert!(result.await.unwrap_err().is_node_exists());
}

#[tokio::test(start_paused = true)]
async fn ephemeral_node_may_be_deleted_while_it_is_made() {
    let sim = Ensemble::new(3);
    let session = patient(&sim.connect().await);
    let lost = sim.on(creates("/e")).lose_reply();
    let create = session.create("/e", "").ephemeral();
    let created = meanwhile(lost, create, async || {
        until("the link broke", async || {
            session.counters().connection_losses == 1
        })
        .await;
        session.delete("/e").await.unwrap();
    });
    created.await.unwrap();
    assert_eq!(
        requests(&sim, &session),
        ["create /e", "delete /e", "create /e"]
    );
}

#[tokio::test(start_paused = true)]
async fn ephemeral_node_of_two_concurrent_calls_is_unknown() {
    let sim = Ensemble::new(3);
    let session = patient(&sim.connect().await);
    sim.on(creates("/a")).lose_reply();
    let create = || session.create("/a", "x").ephemeral().into_future();
    let (one, other) = tokio::join!(create(), create());
    // The first to read cannot tell. Once it has given up, the other one is alone.
    let ((Ok(_), Err(error)) | (Err(error), Ok(_))) = (&one, &other) else {
        panic!("{one:?} {other:?}");
    };
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn create_or_set_goes_on_until_one_of_them_works() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    session.create("/a", "").await.unwrap();
    // Another client deletes the node before the set, and creates it again before the next create.
    let held = sim.on(creates("/a")).session(session.id()).hold();
    let set = sim.on(sets("/a")).hold();
    let create = session.create("/a", "x").or_set();
    let made = meanwhile(held.clone(), create, async || {
        other.delete("/a").await.unwrap();
        held.release();
        set.happened().await;
        other.create("/a", "").await.unwrap();
        set.release();
    });
    assert_eq!(made.await.unwrap().0.as_str(), "/a");
    let expected = ["create /a", "set /a", "create /a", "set /a"];
    assert_eq!(requests(&sim, &session)[1..], expected);
    assert_eq!(sim.tree().node("/a").unwrap().data(), b"x");
}

/// The requests with the unique id left out, which is the same in all.
fn without_id(requests: &[String]) -> Vec<String> {
    let ids = requests.iter().filter_map(|line| line.split_once("_c_"));
    let ids: Vec<_> = ids.map(|(_, rest)| &rest[..36]).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    let id = ids.first().copied().unwrap_or_default();
    let requests = requests.iter();
    requests.map(|line| line.replace(id, "ID")).collect()
}

#[tokio::test(start_paused = true)]
async fn protected_create_searches_a_server_that_caught_up_on_a_stable_link() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/l", "").await.unwrap();
    sim.on(creates("/l/*")).lose_request();
    // The search is answered, and the link has broken meanwhile.
    sim.on(transactions("/")).postpone();
    let create = session.create("/l/n-", "").sequential();
    let (made, _) = create.ephemeral().protected().await.unwrap();
    assert_eq!(
        without_id(&requests(&sim, &session))[1..],
        [
            "create /l/_c_ID-n-",
            "transaction /",
            "list /l",
            "transaction /",
            "list /l",
            "create /l/_c_ID-n-",
            // Whether there are two of them now.
            "transaction /",
            "list /l",
        ]
    );
    assert_eq!(sim.tree().paths(), ["/l", made.as_str()]);
}

#[tokio::test(start_paused = true)]
async fn protected_create_that_fails_unknown_is_cleaned_up() {
    for fault in ["lost request", "lost reply", "silence"] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await.with_retry(RetryPolicy::never());
        session.create("/l", "").await.unwrap();
        let on = sim.on(creates("/l/*"));
        let failure = match fault {
            "lost request" => on.lose_request(),
            "silence" => on.hold(),
            // The search for the node fails as well.
            _ => {
                sim.on(lists("/l")).lose_reply();
                on.lose_reply()
            }
        };
        let error = session.create("/l/n", "").protected().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{fault}");
        failure.release();
        soon("the removal is done", session.settled()).await;
        assert_eq!(sim.tree().paths(), ["/l"], "{fault}");
        let all = without_id(&requests(&sim, &session));
        assert_eq!(all[1..4], ["create /l/_c_ID-n", "transaction /", "list /l"]);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_protected_create_is_cleaned_up_after_an_earlier_one() {
    for is_in_doubt in [false, true] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let parent = session.create("/l", "").acl(Acl::read_only());
        parent.await.unwrap();
        if is_in_doubt {
            sim.on(creates("/l/*")).lose_request();
        }
        let error = session.create("/l/n", "").protected().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoAuth);
        soon("the removal is done", session.settled()).await;
        let (create, caught_up, list) = ("create /l/_c_ID-n", "transaction /", "list /l");
        let expected = if is_in_doubt {
            vec![create, caught_up, list, create, caught_up, list]
        } else {
            vec![create]
        };
        assert_eq!(without_id(&requests(&sim, &session))[1..], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn missing_parents_are_made_from_the_nearest_one_that_can_be() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    sim.on(creates("/a/b/c")).lose_request();
    // Another client makes /a/b/c as soon as it can.
    let above = sim.on(creates("/a/b")).nth(2).hold();
    let create = session.create("/a/b/c/d", "").parents();
    let made = meanwhile(above.clone(), create, async || {
        other.create("/a/b/c", "").await.unwrap();
        above.release();
    });
    assert_eq!(made.await.unwrap().0.as_str(), "/a/b/c/d");
    let expected = [
        "/a/b/c/d", "/a/b/c", "/a/b/c", "/a/b", "/a", "/a/b", "/a/b/c", "/a/b/c/d",
    ];
    assert_eq!(
        requests(&sim, &session),
        expected.map(|path| format!("create {path}"))
    );
}

/// The node is sent again together with its parent.
#[tokio::test(start_paused = true)]
async fn protected_create_below_a_missing_parent_takes_two_round_trips() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let begun = Instant::now();
    session.create("/a", "").await.unwrap();
    let one = begun.elapsed();
    let begun = Instant::now();
    let create = session.create("/a/b/c", "").ephemeral().protected();
    create.container_parents().await.unwrap();
    assert_eq!(begun.elapsed(), one * 2);
}

#[tokio::test(start_paused = true)]
async fn protected_create_whose_parent_is_struck_leaves_one_node() {
    for fault in [
        "the request is lost",
        "the reply is lost",
        "the call is dropped",
    ] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let parent = sim.on(creates("/a"));
        let parent = match fault {
            "the request is lost" => parent.lose_request(),
            "the reply is lost" => parent.lose_reply(),
            _ => parent.hold(),
        };
        let create = session.create("/a/b", "").ephemeral().protected();
        let create = create.container_parents().into_future();
        let expected = if fault == "the call is dropped" {
            tokio::select! {
                biased;
                () = parent.happened() => parent.release(),
                created = create => panic!("{fault}: {created:?}"),
            }
            0
        } else {
            let (path, _) = create.await.unwrap();
            assert_eq!(sim.tree().paths(), ["/a", path.as_str()], "{fault}");
            1
        };
        soon("the removal is done", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        let nodes = sim.tree().paths().len();
        assert_eq!(nodes, 1 + expected, "{fault}: {:?}", sim.tree().paths());
    }
}

#[tokio::test(start_paused = true)]
async fn missing_chroot_ends_the_making_of_parents() {
    let sim = Ensemble::new(3);
    let session = sim.connect().chroot("/app").await;
    let error = session.create("/a/b", "").parents().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoNode);
    let tried = ["create /app/a/b", "create /app/a"];
    assert_eq!(requests(&sim, &session), tried);
    let error = session.create("/c", "").parents().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoNode);
    assert_eq!(requests(&sim, &session)[2..], ["create /app/c"]);
}

#[tokio::test(start_paused = true)]
async fn parent_with_a_lost_answer_has_an_unknown_outcome() {
    for is_silent in [true, false] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let on = sim.on(creates("/a")).every();
        if is_silent {
            on.hold();
        } else {
            on.lose_request();
        }
        let error = session.create("/a/b", "").parents().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path().map(NodePath::as_str)),
            (ErrorKind::OutcomeUnknown, Some("/a"))
        );
        assert!(error.is_outcome_unknown());
    }
}
