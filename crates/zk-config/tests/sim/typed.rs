//! Typed values during outages and after bad payloads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_config::{Layers, Problem, Profiles, Subtree, Typed};
use zk_core::codec::{Codec, DecodeErrorKind, Json, Text, Toml};
use zk_core::{ConnectionState, Session};
use zk_sim::{Chaos, Check, Ensemble, matching};

use crate::{pass, publisher, soon, text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pool {
    size: u16,
    host: String,
}

const POOL: &str = "/app/pool";

fn pool(size: u16) -> Pool {
    Pool {
        size,
        host: "db".to_owned(),
    }
}

/// Waits for a matching problem.
async fn until_problem<T: Send + Sync + 'static>(
    typed: &Typed<T>,
    what: &str,
    matches: impl Fn(&Problem) -> bool,
) -> Arc<Problem> {
    let mut problems = typed.problems();
    soon(what, async {
        loop {
            let now = problems.borrow_and_update().clone();
            if let Some(problem) = now.filter(|problem| matches(problem)) {
                return problem;
            }
            problems.changed().await.unwrap();
        }
    })
    .await
}

/// Waits until there is no problem.
async fn until_healthy<T: Send + Sync + 'static>(typed: &Typed<T>) {
    let mut problems = typed.problems();
    let healthy = problems.wait_for(Option::is_none);
    drop(soon("there is no problem", healthy).await.unwrap());
}

/// Checks that each bad payload leaves the last good value, and is reported with its position.
async fn check_bad_payloads(
    codec: impl Codec<Pool> + Copy + 'static,
    bad: &[(&[u8], DecodeErrorKind)],
) {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let typed = Typed::node(POOL, codec).unwrap().build();
    let _following = typed.follow(&session);
    let publisher = zk_config::Publisher::new(&session, codec);
    for (size, (data, kind)) in (1..).zip(bad) {
        publisher.publish(POOL, &pool(size)).await.unwrap();
        until_healthy(&typed).await;
        assert_eq!(**typed.current().unwrap(), pool(size));
        let stat = session.set(POOL, *data).await.unwrap();
        let problem = until_problem(&typed, "a bad payload", |it| {
            matches!(it, Problem::Invalid(_))
        })
        .await;
        let Problem::Invalid(error) = &*problem else {
            unreachable!();
        };
        assert_eq!(error.kind(), *kind, "{error}");
        assert_eq!(error.path().unwrap().as_str(), POOL);
        assert_eq!(error.position().is_some(), !data.is_empty(), "{error}");
        let current = typed.current().unwrap();
        assert_eq!(**current, pool(size), "the last good value stays");
        assert!(current.revision().unwrap() < stat.mzxid);
        assert!(problem.to_string().contains(POOL), "{problem}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_payload_leaves_the_value_and_reports_its_position() {
    use DecodeErrorKind::{Empty, NotUtf8, Shape, Syntax};
    check_bad_payloads(
        Toml,
        &[
            (b"size = 1\nhost =", Syntax),
            (b"size = \"much\"\nhost = \"db\"", Shape),
            (b"", Empty),
            (b"size = 1\nhost = \"\xff\"", NotUtf8),
        ],
    )
    .await;
    check_bad_payloads(
        Json,
        &[
            (b"{\"size\": 1,", Syntax),
            (b"{\"size\": \"much\", \"host\": \"db\"}", Shape),
            (b"", Empty),
            (b"\xff", NotUtf8),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_is_refused_by_the_publisher() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let typed = Typed::node("/motto", Text).unwrap().build();
    let _following = typed.follow(&session);
    publisher(&session)
        .publish("/motto", &text("short"))
        .await
        .unwrap();
    soon("it is read", typed.ready()).await;
    let large = "x".repeat((1 << 20) + 1);
    let error = publisher(&session)
        .publish("/motto", &large)
        .await
        .unwrap_err();
    assert!(error.is_too_large(), "{error}");
    assert_eq!(***typed.current().unwrap(), *"short");
    assert!(typed.problem().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_default_holds_until_a_value_passes_the_validation() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let even = |pool: &Pool| {
        if pool.size.is_multiple_of(2) {
            Ok(())
        } else {
            Err(format!("{} is odd", pool.size))
        }
    };
    let mut typed = Typed::node(POOL, Toml)
        .unwrap()
        .validated(even)
        .with_default(pool(0))
        .build();
    assert!(matches!(
        &*typed.problem().unwrap(),
        Problem::NotRead { .. }
    ));
    let current = typed.current().unwrap();
    assert_eq!((&**current, current.revision()), (&pool(0), None));
    let _following = typed.follow(&session);
    until_problem(&typed, "the node is missing", |it| {
        matches!(it, Problem::Absent { .. })
    })
    .await;

    let publisher = zk_config::Publisher::new(&session, Toml);
    publisher.publish(POOL, &pool(1)).await.unwrap();
    let problem = until_problem(&typed, "odd", |it| matches!(it, Problem::Rejected { .. })).await;
    assert_eq!(
        problem.to_string(),
        "the value published at /app/pool was rejected: 1 is odd"
    );
    let published = publisher.publish(POOL, &pool(2)).await.unwrap();
    let current = soon("even", typed.changed()).await;
    assert_eq!(**current, pool(2));
    assert_eq!(current.revision(), Some(published.stat.unwrap().mzxid));
    until_healthy(&typed).await;

    // The value of a deleted node stays, with a problem.
    session.delete(POOL).await.unwrap();
    until_problem(&typed, "the node is deleted", |it| {
        matches!(it, Problem::Absent { .. })
    })
    .await;
    assert_eq!(**typed.current().unwrap(), pool(2));
    let nothing = tokio::time::timeout(Duration::from_secs(1), typed.changed()).await;
    assert!(nothing.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_value_outlives_outages_and_sessions() {
    let ensemble = Ensemble::new(3);
    let other = ensemble.connect().await;
    let session = ensemble.connect().await;
    publisher(&other)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    let mut typed = Typed::node("/motto", Text).unwrap().build();
    let following = typed.follow(&session);
    soon("it is read", typed.changed()).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    until_problem(&typed, "the connection is lost", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    assert_eq!(***typed.current().unwrap(), *"one");
    publisher(&other)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    assert_eq!(***soon("it is back", typed.changed()).await, *"two");
    until_healthy(&typed).await;

    ensemble.expire(session.id());
    until_problem(&typed, "the session is over", |it| {
        matches!(it, Problem::SessionLost { .. })
    })
    .await;
    publisher(&other)
        .publish("/motto", &text("three"))
        .await
        .unwrap();
    assert_eq!(***typed.current().unwrap(), *"two");
    drop(following);
    let next = ensemble.connect().await;
    let following = typed.follow(&next);
    assert_eq!(***soon("the next session", typed.changed()).await, *"three");
    until_healthy(&typed).await;
    drop(following);
    until_problem(&typed, "no session follows", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_no_problem_while_another_one_follows() {
    let ensemble = Ensemble::new(3);
    let (first, second) = (ensemble.connect().await, ensemble.connect().await);
    publisher(&second)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    let mut typed = Typed::node("/motto", Text).unwrap().build();
    let leaving = typed.follow(&first);
    soon("it is read", typed.changed()).await;
    let _staying = typed.follow(&second);
    until_healthy(&typed).await;
    // The second session has read the key when it reports the new value.
    ensemble.session(first.id()).cut_for(Duration::from_secs(3));
    publisher(&second)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    assert_eq!(
        ***soon("the second session follows", typed.changed()).await,
        *"two"
    );
    let mut problems = typed.problems();
    problems.mark_unchanged();

    pass(Duration::from_secs(5)).await;
    ensemble.expire(first.id());
    soon("the first session is over", first.lost()).await;
    pass(Duration::from_secs(1)).await;
    drop(leaving);
    pass(Duration::from_secs(1)).await;
    assert!(typed.problem().is_none(), "{:?}", typed.problem());
    assert!(!problems.has_changed().unwrap(), "no problem was reported");

    ensemble.expire(second.id());
    until_problem(&typed, "no session follows", |it| {
        matches!(it, Problem::SessionLost { .. })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_loss_during_a_read_is_reported() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    publisher(&other)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    let mut typed = Typed::node("/motto", Text).unwrap().build();
    let _following = typed.follow(&session);
    soon("it is read", typed.changed()).await;
    let held = ensemble
        .on(matching::gets("/motto"))
        .session(session.id())
        .hold();
    publisher(&other)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    pass(Duration::from_millis(50)).await;
    assert_eq!(held.count(), 1, "it reads");
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    until_problem(&typed, "the connection is lost", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    held.release();
    assert_eq!(***soon("it is back", typed.changed()).await, *"two");
    until_healthy(&typed).await;
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_never_reverts_the_value() {
    let ensemble = Ensemble::new(3);
    let ahead = ensemble.connect().server(3).await;
    publisher(&ahead)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    let typed = Typed::node("/motto", Text).unwrap().build();
    let _first = typed.follow(&ahead);
    soon("it is read", typed.ready()).await;
    let behind = ensemble.connect().server(1).await;
    ensemble.server(1).lag_by(Duration::from_secs(2));
    publisher(&ahead)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    let mut seen = typed.clone();
    soon("the second", seen.changed()).await;
    let _second = typed.follow(&behind);
    for _ in 0..50 {
        pass(Duration::from_millis(100)).await;
        assert_eq!(***typed.current().unwrap(), *"two");
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_on_a_lagging_server_never_replaces_a_newer_value() {
    let ensemble = Ensemble::new(3);
    let ahead = ensemble.connect().server(3).await;
    let behind = ensemble.connect().server(1).await;
    publisher(&ahead)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    let mut typed = Typed::node("/motto", Text).unwrap().build();
    let _following = (typed.follow(&ahead), typed.follow(&behind));
    soon("it is read", typed.changed()).await;
    pass(Duration::from_secs(1)).await;
    ensemble.server(1).lag_by(Duration::from_secs(3));
    ahead.delete("/motto").await.unwrap();
    pass(Duration::from_secs(1)).await;
    publisher(&ahead)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    assert_eq!(***soon("the second", typed.changed()).await, *"two");
    until_healthy(&typed).await;
    for _ in 0..500 {
        pass(Duration::from_millis(10)).await;
        assert!(typed.problem().is_none(), "{:?}", typed.problem());
    }
}

/// The transactions of an ensemble that was set up anew start again.
#[tokio::test(start_paused = true)]
async fn a_value_is_that_of_an_ensemble_that_was_set_up_anew() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    for number in 0..10 {
        let publish = publisher(&session).publish("/motto", &format!("old {number}"));
        publish.await.unwrap();
    }
    let mut typed = Typed::node("/motto", Text).unwrap().build();
    let following = typed.follow(&session);
    let old = soon("it is read", typed.changed()).await;
    ensemble.expire(session.id());
    until_problem(&typed, "the session is over", |it| {
        matches!(it, Problem::SessionLost { .. })
    })
    .await;
    drop(following);

    let anew = Ensemble::new(3);
    let ahead = anew.connect().server(3).await;
    let behind = anew.connect().server(1).await;
    let published = publisher(&ahead).publish("/motto", &text("new")).await;
    assert!(published.unwrap().stat.map(|stat| stat.mzxid) < old.revision());
    let _following = (typed.follow(&ahead), typed.follow(&behind));
    assert_eq!(***soon("it is read", typed.changed()).await, *"new");
    until_healthy(&typed).await;
    // From then on a lagging server reverts nothing.
    anew.server(1).lag_by(Duration::from_secs(1));
    for number in 0..3 {
        let value = format!("newer {number}");
        publisher(&ahead).publish("/motto", &value).await.unwrap();
        assert_eq!(**soon("the change", typed.changed()).await, value);
        for _ in 0..50 {
            pass(Duration::from_millis(10)).await;
            assert_eq!(***typed.current().unwrap(), *value);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_ensemble_may_have_other_data_with_the_same_revision() {
    let mut typed = Typed::<String>::node("/motto", Text).unwrap().build();
    let mut revisions = Vec::new();
    for value in ["old", "new"] {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        session.create("/motto", value).await.unwrap();
        let following = typed.follow(&session);
        let current = soon("it is read", typed.changed()).await;
        assert_eq!(***current, *value);
        revisions.push(current.revision());
        ensemble.expire(session.id());
        soon("the session is lost", session.lost()).await;
        drop(following);
    }
    assert_eq!(revisions[0], revisions[1]);
}

#[tokio::test(start_paused = true)]
async fn a_value_is_never_read_without_a_quorum() {
    let ensemble = Ensemble::builder().read_only().build();
    let writer = ensemble.connect().await;
    writer.create("/motto", "one").await.unwrap();
    for server in [2, 3] {
        ensemble.server(server).stop();
    }
    let session = ensemble.connect().allow_read_only().await;
    assert_eq!(session.state(), ConnectionState::ReadOnly);
    let typed = Typed::<String>::node("/motto", Text).unwrap().build();
    let subtree = keys("/motto").build();
    let _following = (typed.follow(&session), subtree.follow(&session));
    pass(Duration::from_secs(2)).await;
    assert!(typed.current().is_none() && subtree.current().is_none());
    for problem in [typed.problem(), subtree.problem()] {
        assert!(matches!(&*problem.unwrap(), Problem::NotRead { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_value_is_accepted_when_the_validation_passes() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let is_good = Arc::new(AtomicBool::new(false));
    let validation = {
        let is_good = Arc::clone(&is_good);
        move |_: &String| {
            let is_good = is_good.load(Ordering::SeqCst);
            is_good.then_some(()).ok_or_else(|| text("not yet"))
        }
    };
    let typed = Typed::node("/motto", Text).unwrap();
    let mut typed = typed.validated(validation).build();
    let _following = typed.follow(&session);
    publisher(&session)
        .publish("/motto", &text("one"))
        .await
        .unwrap();
    until_problem(&typed, "not yet", |it| {
        matches!(it, Problem::Rejected { .. })
    })
    .await;
    is_good.store(true, Ordering::SeqCst);
    // The reconnect causes another read of the same value.
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    assert_eq!(***soon("now", typed.changed()).await, *"one");
    until_healthy(&typed).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_validation_is_a_problem_and_nothing_more() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let typed = Typed::node("/motto", Text).unwrap();
    let validation = |motto: &String| {
        assert_ne!(motto, "bad", "it panics");
        Ok(())
    };
    let mut typed = typed.validated(validation).build();
    let _following = typed.follow(&session);
    let publisher = publisher(&session);
    publisher.publish("/motto", &text("bad")).await.unwrap();
    let problem = until_problem(&typed, "it panics", |it| {
        it.to_string().contains("panicked")
    })
    .await;
    assert!(problem.to_string().contains("it panics"), "{problem}");
    publisher.publish("/motto", &text("good")).await.unwrap();
    assert_eq!(***soon("the next", typed.changed()).await, *"good");
    until_healthy(&typed).await;
}

#[tokio::test(start_paused = true)]
async fn layers_make_a_value_with_and_without_a_node() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let variables = [("APP_HOST".to_owned(), "env".to_owned())].into();
    let mut typed = Layers::new()
        .defaults(&pool(1))
        .unwrap()
        .variables("APP", variables)
        .around::<Pool>(POOL)
        .unwrap()
        .build();
    let _following = typed.follow(&session);
    let with = |size| Pool {
        size,
        host: "env".to_owned(),
    };
    assert_eq!(**soon("the layers", typed.changed()).await, with(1));
    zk_config::Publisher::new(&session, Toml)
        .publish(POOL, &pool(7))
        .await
        .unwrap();
    assert_eq!(**soon("ZooKeeper's", typed.changed()).await, with(7));
    session.delete(POOL).await.unwrap();
    assert_eq!(**soon("the layers again", typed.changed()).await, with(1));
}

/// Creates so many keys below `/app/keys`; returns a session that writes them, and one that reads them.
async fn with_keys(count: usize) -> (Ensemble, Session, Session) {
    let ensemble = Ensemble::new(1);
    let (writing, reading) = (ensemble.connect().await, ensemble.connect().await);
    for key in 0..count {
        let path = format!("/app/keys/{key}");
        writing.create(path, "0").parents().await.unwrap();
    }
    (ensemble, writing, reading)
}

/// Builds a value of all keys of a subtree, as texts.
fn keys(path: &str) -> zk_config::TypedBuilder<BTreeMap<String, String>> {
    Typed::subtree(path, |tree| {
        let texts = tree
            .iter()
            .map(|(name, data)| Ok((name.to_owned(), Codec::<String>::decode(&Text, data)?)));
        texts.collect()
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_subtree_is_one_value_that_follows_all_its_nodes() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let keeping = crate::with_history(&session, 5);
    let mut typed = Typed::subtree("/app/pool", Subtree::deserialize::<Pool>)
        .unwrap()
        .build();
    let mut all = keys("/app/pool").build();
    let _following = (typed.follow(&session), all.follow(&session));
    assert!(soon("the empty subtree", all.changed()).await.is_empty());
    until_problem(&typed, "fields are missing", |it| {
        matches!(it, Problem::Invalid(_))
    })
    .await;
    let publish = |size: &str, host: &str| {
        keeping
            .transaction()
            .set("/app/pool/size", &size.to_owned())
            .set("/app/pool/host", &host.to_owned())
            .publish()
    };
    publish("1", "a").await.unwrap();
    let expected = |size, host: &str| Pool {
        size,
        host: host.to_owned(),
    };
    assert_eq!(**soon("both keys", typed.changed()).await, expected(1, "a"));
    publish("2", "b").await.unwrap();
    assert_eq!(**soon("both keys", typed.changed()).await, expected(2, "b"));
    let now: Vec<_> = soon("all", all.changed()).await.keys().cloned().collect();
    assert_eq!(now, ["", "host", "size"], "without the history");
    session.set("/app/pool/size", "much").await.unwrap();
    until_problem(&typed, "the size is not a number", |it| {
        matches!(it, Problem::Invalid(_))
    })
    .await;
    assert_eq!(**typed.current().unwrap(), expected(2, "b"));
    session.delete("/app/pool").recursive().await.unwrap();
    soon("all gone", async {
        while !all.changed().await.is_empty() {}
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_key_costs_one_read_and_a_request_for_64_keys() {
    let (ensemble, writing, reading) = with_keys(130).await;
    let mut typed = keys("/app/keys").build();
    let _following = typed.follow(&reading);
    assert_eq!(soon("it is read", typed.changed()).await.len(), 131);
    pass(Duration::from_secs(1)).await;
    let arrived = || {
        [
            ensemble.arrived(matching::gets("**")),
            ensemble.arrived(matching::multi_reads("**")),
            ensemble.arrived(matching::exists("**")),
            ensemble.arrived(matching::lists("**")),
        ]
    };
    let mut expected = arrived();
    for (value, requests) in [("1", [1, 3, 0, 0]), ("2", [1, 3, 0, 0])] {
        writing.set("/app/keys/7", value).await.unwrap();
        assert_eq!(soon("the change", typed.changed()).await["7"], value);
        pass(Duration::from_secs(1)).await;
        for (all, more) in expected.iter_mut().zip(requests) {
            *all += more;
        }
        assert_eq!(arrived(), expected);
    }
    // A new key: its parent is listed, and then all is checked again.
    writing.create("/app/keys/new", "3").await.unwrap();
    assert_eq!(soon("the new key", typed.changed()).await["new"], "3");
    pass(Duration::from_secs(1)).await;
    for (all, more) in expected.iter_mut().zip([1, 6, 0, 1]) {
        *all += more;
    }
    assert_eq!(arrived(), expected);
}

#[test]
fn a_transaction_over_several_keys_is_never_seen_in_part() {
    let seen = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble: Ensemble, seed| {
            let writing = ensemble.connect().await;
            let reading = ensemble.connect().await;
            let typed = keys("/app/pool").build();
            let mut watching = typed.clone();
            let _following = typed.follow(&reading);
            let judge = tokio::spawn(async move {
                let mut count = 0;
                let mut last = None;
                loop {
                    let current = watching.changed().await;
                    assert!(
                        last < current.revision() || current.is_empty(),
                        "seed {seed}"
                    );
                    last = current.revision();
                    // The root and `b` have no values.
                    let mut values: Vec<_> = current.values().filter(|it| !it.is_empty()).collect();
                    assert!(values.len() % 3 == 0, "seed {seed}: {current:?}");
                    values.dedup();
                    assert!(values.len() < 2, "seed {seed}: {current:?}");
                    count += 1;
                    if values.first().is_some_and(|value| *value == "last") {
                        return count;
                    }
                }
            });
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(3))
                .every(Duration::from_millis(200));
            let disturbing = tokio::spawn(chaos.run(&ensemble));
            let mut random = fastrand::Rng::with_seed(seed);
            let publish = async |value: &str| {
                let publisher = publisher(&writing);
                let mut all = publisher.transaction();
                for name in ["a", "b/c", "d"] {
                    let path = format!("/app/pool/{name}");
                    all = all.set(path, &value.to_owned());
                }
                all.publish().await
            };
            for round in 0..30 {
                drop(publish(&round.to_string()).await);
                pass(Duration::from_millis(random.u64(0..150))).await;
            }
            disturbing.await.unwrap();
            while !reading.state().is_lost() {
                if publish("last").await.is_ok() {
                    seen.set(seen.get() + soon("the last is seen", judge).await.unwrap());
                    return;
                }
            }
            judge.abort();
        });
    println!("{} values in {checked}", seen.get());
    assert!(checked.seeds == 1 || seen.get() > 5 * checked.seeds);
}

#[tokio::test(start_paused = true)]
async fn keys_created_and_deleted_together_are_seen_together() {
    let ensemble = Ensemble::new(3);
    let (writing, reading) = (ensemble.connect().await, ensemble.connect().await);
    writing.create("/app/now", "0").parents().await.unwrap();
    writing.create("/app/key0", "").await.unwrap();
    let mut typed = keys("/app").build();
    let _following = typed.follow(&reading);
    soon("it is read", typed.changed()).await;
    let mut values = 0;
    for round in 1..200 {
        // The last round has no key in place of the one that it deletes.
        let mut transaction = writing.transaction().set("/app/now", round.to_string());
        transaction = transaction.delete(format!("/app/key{}", round - 1));
        if round < 199 {
            transaction = transaction.create(format!("/app/key{round}"), "");
        }
        transaction.commit().await.unwrap();
        for _ in 0..round % 13 {
            pass(Duration::from_millis(1)).await;
            let current = typed.current().unwrap();
            let now = &current["now"];
            let names: Vec<_> = current.keys().map(String::as_str).collect();
            let key = format!("key{now}");
            let whole: &[&str] = match now.as_str() {
                "199" => &["", "now"],
                _ => &["", &key, "now"],
            };
            assert_eq!(names, whole, "a part of a transaction");
            values += usize::from(*now == round.to_string());
        }
    }
    assert!(values > 100, "it follows: {values}");
    soon("the last", async {
        while typed.changed().await["now"] != "199" {}
    })
    .await;
}

/// Follows 300 keys, one of which is written after each pause. Returns the number of values, and whether the problem
/// `Contended` was reported. Asserts that a late value is always reported as a problem.
async fn follow_under_writes(every: Duration) -> (usize, bool) {
    const LATE: Duration = Duration::from_millis(300);
    const KEYS: usize = 300;
    let (_ensemble, writing, reading) = with_keys(KEYS).await;
    let typed = keys("/app/keys").build();
    let _following = typed.follow(&reading);
    soon("it is read", typed.ready()).await;
    until_healthy(&typed).await;
    let counting = {
        let mut typed = typed.clone();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let task = tokio::spawn(async move {
            loop {
                typed.changed().await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        (task, count)
    };
    let start = tokio::time::Instant::now();
    // The time at which each number was written.
    let mut written = vec![start];
    let mut is_reported = false;
    while start.elapsed() < Duration::from_secs(1) {
        let path = format!("/app/keys/{}", written.len() % KEYS);
        writing.set(path, written.len().to_string()).await.unwrap();
        written.push(tokio::time::Instant::now());
        pass(every).await;
        let current = typed.current().unwrap();
        let numbers = current.values().filter_map(|value| value.parse().ok());
        let next = numbers.max().unwrap_or(0) + 1;
        let is_late = written.get(next).is_some_and(|at| at.elapsed() > LATE);
        let problem = typed.problem();
        assert!(!is_late || problem.is_some(), "a late value has a problem");
        is_reported |= matches!(problem.as_deref(), Some(Problem::Contended { .. }));
    }
    counting.0.abort();
    // Afterwards the value is complete and has no problem.
    pass(Duration::from_secs(1)).await;
    until_healthy(&typed).await;
    let last = (written.len() - 1).to_string();
    assert!(typed.current().unwrap().values().any(|it| *it == last));
    (counting.1.load(Ordering::SeqCst), is_reported)
}

#[tokio::test(start_paused = true)]
async fn a_large_subtree_under_writes_is_fresh_or_has_a_problem() {
    // Few writes during a read are read again in time.
    let (values, _) = follow_under_writes(Duration::from_millis(3)).await;
    assert!(values > 5, "it follows: {values} values");
    // Too many writes are a problem.
    let (_, is_reported) = follow_under_writes(Duration::ZERO).await;
    assert!(is_reported, "it cannot follow and reports it");
}

#[tokio::test(start_paused = true)]
async fn a_subtree_is_followed_again_when_changes_become_fewer() {
    const KEYS: usize = 300;
    let (_ensemble, writing, reading) = with_keys(KEYS).await;
    let typed = keys("/app/keys").build();
    let _following = typed.follow(&reading);
    soon("it is read", typed.ready()).await;
    let mut problems = typed.problems();
    let watching = tokio::spawn(async move {
        let is_contended =
            |it: &Option<Arc<Problem>>| matches!(it.as_deref(), Some(Problem::Contended { .. }));
        let mut was_contended = false;
        while problems.changed().await.is_ok() {
            let is_contended = is_contended(&problems.borrow_and_update());
            assert!(!(was_contended && is_contended), "it is reported once");
            was_contended = is_contended;
        }
    });
    let mut written = 0;
    let mut write = async |pause| {
        written += 1;
        let path = format!("/app/keys/{}", written % KEYS);
        writing.set(path, written.to_string()).await.unwrap();
        pass(pause).await;
        written
    };
    let start = tokio::time::Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        write(Duration::ZERO).await;
    }
    let problem = typed.problem();
    assert!(
        matches!(problem.as_deref(), Some(Problem::Contended { .. })),
        "{problem:?}"
    );
    let start = tokio::time::Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        let last = write(Duration::from_millis(40)).await;
        if start.elapsed() > Duration::from_secs(1) {
            let current = typed.current().unwrap();
            let numbers = current.values().filter_map(|value| value.parse().ok());
            let newest: usize = numbers.max().unwrap();
            assert!(newest + 8 > last, "{newest} of {last}");
            assert!(typed.problem().is_none(), "{:?}", typed.problem());
        }
    }
    assert!(!watching.is_finished());
    watching.abort();
}

const SEEDS: u64 = 150;

#[tokio::test(start_paused = true)]
async fn a_value_goes_on_with_the_next_session() {
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().await;
    publisher(&writer)
        .publish("/app/motto", &text("one"))
        .await
        .unwrap();
    let sessions = ensemble.open_sessions();
    let mut motto = Typed::<String>::node("/app/motto", Text).unwrap().build();
    let following = motto.follow(&sessions);
    assert_eq!(**soon("it is read", motto.changed()).await, "one");
    for round in 0..3 {
        let session = soon("there is a session", sessions.session())
            .await
            .unwrap();
        ensemble.session(session.id()).partition();
        let value = format!("in round {round}");
        publisher(&writer)
            .publish("/app/motto", &value)
            .await
            .unwrap();
        ensemble.expire(session.id());
        assert_eq!(**soon("it is read", motto.changed()).await, value);
        until_healthy(&motto).await;
    }
    sessions.close().await.unwrap();
    until_problem(&motto, "it is no longer followed", |problem| {
        matches!(problem, Problem::SessionLost { .. })
    })
    .await;
    assert_eq!(**motto.current().unwrap(), "in round 2");
    drop(following);
}

#[tokio::test(start_paused = true)]
async fn profiles_are_one_value_that_follows_all_their_nodes() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let profiles = Profiles::of("orders").with_profile("dev");
    let typed = Layers::new().defaults(&pool(1)).unwrap();
    let mut typed = typed
        .around_profiles::<Pool>("/config", &profiles)
        .unwrap()
        .build();
    let _following = typed.follow(&session);
    let current = soon("the defaults", typed.changed()).await;
    assert_eq!((&**current, current.revision()), (&pool(1), None));
    let set = async |path: &str, data: &str| {
        let made = writer.create(path, data).parents().await;
        if made.is_err() {
            writer.set(path, data).await.unwrap();
        }
    };
    for (path, data, size) in [
        ("/config/orders/size", "3", 3),
        ("/config/application", "size = 2\n", 3),
        ("/config/orders,dev", "size = 4\n", 4),
        ("/config/orders,dev", "size = 5\n", 5),
    ] {
        set(path, data).await;
        // Other applications cost no read and cause no value.
        set("/config/other/size", data).await;
        set("/config/other,dev", data).await;
        soon("the change", async {
            while typed.current().unwrap().size != size {
                typed.changed().await;
            }
        })
        .await;
        until_healthy(&typed).await;
    }
    let names: Vec<_> = {
        let current = typed.current().unwrap();
        let nodes = current.subtree().unwrap().iter();
        nodes.map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(
        names,
        ["", "application", "orders", "orders,dev", "orders/size"]
    );
    for unwanted in ["/config/other", "/config/other/size", "/config/other,dev"] {
        assert_eq!(ensemble.arrived(matching::gets(unwanted)), 0, "{unwanted}");
        let together = ensemble.arrived(matching::multi_reads(unwanted));
        assert_eq!(together, 0, "{unwanted}");
    }
    // A transaction over two profiles is seen as a whole.
    for round in 10..40 {
        let size = format!("size = {round}\n");
        writer
            .transaction()
            .set("/config/application", format!("host = \"{round}\"\n"))
            .set("/config/orders,dev", size)
            .commit()
            .await
            .unwrap();
        for _ in 0..round % 7 {
            pass(Duration::from_millis(1)).await;
            let now = typed.current().unwrap();
            assert!(
                now.host == "db" || now.host == now.size.to_string(),
                "{now:?}"
            );
        }
    }
    soon("the last", async {
        while typed.current().unwrap().size != 39 {
            typed.changed().await;
        }
    })
    .await;
    let bad = Profiles::of("a/b//c");
    let bad = Layers::new().around_profiles::<Pool>("/config", &bad);
    assert!(bad.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_profile_may_be_a_path() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let profiles = Profiles::of("team/orders");
    let made = session.create("/config/team/orders/size", "3").parents();
    made.await.unwrap();
    let typed = Layers::new().defaults(&pool(1)).unwrap();
    let mut typed = typed
        .around_profiles::<Pool>("/config", &profiles)
        .unwrap()
        .build();
    let _following = typed.follow(&session);
    soon("the node", async {
        while typed.changed().await.size != 3 {}
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_changed_keys_between_two_values_are_known() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create("/app", "").await.unwrap();
    let mut typed = keys("/app").build();
    let _following = typed.follow(&session);
    let mut before = soon("it is read", typed.changed()).await;
    let publisher = publisher(&session);
    publisher.publish("/app/a", &text("1")).await.unwrap();
    let mut seen = Vec::new();
    for step in 0..3 {
        let now = soon("the change", typed.changed()).await;
        let (new, old) = (now.subtree().unwrap(), before.subtree().unwrap());
        let changes = new.changes_since(old);
        seen.push(
            changes
                .map(|(name, change)| format!("{change:?} {name}"))
                .collect::<Vec<_>>(),
        );
        let next = publisher.transaction();
        match step {
            0 => drop(
                next.set("/app/b", &text("2"))
                    .set("/app/a", &text("2"))
                    .publish()
                    .await,
            ),
            1 => drop(next.remove("/app/a").publish().await),
            _ => {}
        }
        before = now;
    }
    assert_eq!(
        seen,
        [
            vec!["Created a"],
            vec!["Replaced a", "Created b"],
            vec!["Removed a"]
        ]
    );
    let node = Typed::<String>::node("/app/b", Text).unwrap().build();
    let _following = node.follow(&session);
    assert!(soon("it is read", node.ready()).await.subtree().is_none());
}
