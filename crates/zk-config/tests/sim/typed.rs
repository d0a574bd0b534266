//! The current value, through outages and bad payloads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use zk_config::Layers;
use zk_config::Problem;
use zk_config::Subtree;
use zk_config::Typed;
use zk_core::codec::Codec;
use zk_core::codec::DecodeErrorKind;
use zk_core::codec::Json;
use zk_core::codec::Text;
use zk_core::codec::Toml;
use zk_sim::Chaos;
use zk_sim::Check;
use zk_sim::Ensemble;
use zk_sim::matching;

use crate::pass;
use crate::publisher;
use crate::soon;
use crate::text;

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

/// Waits until there is such a problem.
async fn until_problem<T: Send + Sync + 'static>(
    typed: &Typed<T>,
    what: &str,
    is_it: impl Fn(&Problem) -> bool,
) -> Arc<Problem> {
    let mut problems = typed.problems();
    soon(what, async {
        loop {
            let now = problems.borrow_and_update().clone();
            if let Some(problem) = now.filter(|problem| is_it(problem)) {
                return problem;
            }
            problems.changed().await.unwrap();
        }
    })
    .await
}

/// Waits until there is none.
async fn until_well<T: Send + Sync + 'static>(typed: &Typed<T>) {
    let mut problems = typed.problems();
    let well = problems.wait_for(Option::is_none);
    drop(soon("there is no problem", well).await.unwrap());
}

/// Every bad payload leaves the last good value in force and says what is wrong, and where.
async fn bad_payloads_are_survived(
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
        until_well(&typed).await;
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
        assert_eq!(**current, pool(size), "the last good one stays");
        assert!(current.revision().unwrap() < stat.mzxid);
        assert!(problem.to_string().contains(POOL), "{problem}");
    }
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn bad_payload_leaves_the_last_good_value_and_says_where_it_is_bad() {
    use DecodeErrorKind::Empty;
    use DecodeErrorKind::NotUtf8;
    use DecodeErrorKind::Shape;
    use DecodeErrorKind::Syntax;
    bad_payloads_are_survived(
        Toml,
        &[
            (b"size = 1\nhost =", Syntax),
            (b"size = \"much\"\nhost = \"db\"", Shape),
            (b"", Empty),
            (b"size = 1\nhost = \"\xff\"", NotUtf8),
        ],
    )
    .await;
    bad_payloads_are_survived(
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

// covers: G3
#[tokio::test(start_paused = true)]
async fn value_larger_than_a_server_takes_is_refused_by_the_publisher() {
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

// covers: G3
#[tokio::test(start_paused = true)]
async fn validation_refuses_and_a_default_holds_until_there_is_a_value() {
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
    until_problem(&typed, "nothing there", |it| {
        matches!(it, Problem::Absent { .. })
    })
    .await;

    let publisher = zk_config::Publisher::new(&session, Toml);
    publisher.publish(POOL, &pool(1)).await.unwrap();
    let problem = until_problem(&typed, "odd", |it| matches!(it, Problem::Rejected { .. })).await;
    assert_eq!(
        problem.to_string(),
        "what is published at /app/pool is refused: 1 is odd"
    );
    let published = publisher.publish(POOL, &pool(2)).await.unwrap();
    let current = soon("even", typed.changed()).await;
    assert_eq!(**current, pool(2));
    assert_eq!(current.revision(), Some(published.stat.unwrap().mzxid));
    until_well(&typed).await;

    // What is deleted stays in force, and is told.
    session.delete(POOL).await.unwrap();
    until_problem(&typed, "it is gone", |it| {
        matches!(it, Problem::Absent { .. })
    })
    .await;
    assert_eq!(**typed.current().unwrap(), pool(2));
    let nothing = tokio::time::timeout(Duration::from_secs(1), typed.changed()).await;
    assert!(nothing.is_err());
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn value_outlives_outages_and_sessions() {
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
    until_problem(&typed, "the link broke", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    assert_eq!(***typed.current().unwrap(), *"one");
    publisher(&other)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    assert_eq!(***soon("it is back", typed.changed()).await, *"two");
    until_well(&typed).await;

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
    until_well(&typed).await;
    drop(following);
    until_problem(&typed, "nobody follows", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(ensemble.watch_count(), 0);
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn the_end_of_one_session_is_no_problem_while_another_one_follows() {
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
    until_well(&typed).await;
    // The second one has looked when it tells of what is new.
    ensemble.session(first.id()).cut_for(Duration::from_secs(3));
    publisher(&second)
        .publish("/motto", &text("two"))
        .await
        .unwrap();
    assert_eq!(***soon("it follows", typed.changed()).await, *"two");
    let mut problems = typed.problems();
    problems.mark_unchanged();

    pass(Duration::from_secs(5)).await;
    ensemble.expire(first.id());
    soon("the first session is over", first.lost()).await;
    pass(Duration::from_secs(1)).await;
    drop(leaving);
    pass(Duration::from_secs(1)).await;
    assert!(typed.problem().is_none(), "{:?}", typed.problem());
    assert!(!problems.has_changed().unwrap(), "nobody was told of any");

    ensemble.expire(second.id());
    until_problem(&typed, "nobody follows", |it| {
        matches!(it, Problem::SessionLost { .. })
    })
    .await;
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn broken_link_is_told_also_in_the_middle_of_a_look() {
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
    assert_eq!(held.count(), 1, "it looks");
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    until_problem(&typed, "the link broke", |it| {
        matches!(it, Problem::Stale { .. })
    })
    .await;
    held.release();
    assert_eq!(***soon("it is back", typed.changed()).await, *"two");
    until_well(&typed).await;
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn server_that_lags_never_takes_the_value_back() {
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

// covers: G3
#[tokio::test(start_paused = true)]
async fn absence_at_a_server_that_lags_never_takes_the_place_of_what_is_newer() {
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
    until_well(&typed).await;
    for _ in 0..500 {
        pass(Duration::from_millis(10)).await;
        assert!(typed.problem().is_none(), "{:?}", typed.problem());
    }
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn value_that_was_refused_is_put_in_force_once_it_is_good() {
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
    // It is read again, and is the same.
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    assert_eq!(***soon("now", typed.changed()).await, *"one");
    until_well(&typed).await;
}

// covers: G3
#[tokio::test(start_paused = true)]
async fn panic_of_the_validation_is_a_problem_and_does_not_end_the_following() {
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
    until_well(&typed).await;
}

// covers: G5
#[tokio::test(start_paused = true)]
async fn layers_hold_without_a_node_and_around_one() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let variables = [("APP_HOST".to_owned(), "env".to_owned())].into();
    let mut typed = Layers::new()
        .defaults(&pool(1))
        .unwrap()
        .variables("APP", variables)
        .around::<Pool, _>(POOL)
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

/// All keys of a subtree, as texts.
fn keys(path: &str) -> zk_config::TypedBuilder<BTreeMap<String, String>> {
    Typed::subtree(path, |tree| {
        let texts = tree
            .iter()
            .map(|(name, data)| Ok((name.to_owned(), Codec::<String>::decode(&Text, data)?)));
        texts.collect()
    })
    .unwrap()
}

// covers: G4
#[tokio::test(start_paused = true)]
async fn subtree_is_one_value_that_follows_all_its_nodes() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let keeping = crate::keeping(&session, 5);
    let mut typed = Typed::subtree("/app/pool", Subtree::deserialize::<Pool>)
        .unwrap()
        .build();
    let mut all = keys("/app/pool").build();
    let _following = (typed.follow(&session), all.follow(&session));
    assert!(soon("nothing", all.changed()).await.is_empty());
    until_problem(&typed, "fields are missing", |it| {
        matches!(it, Problem::Invalid(_))
    })
    .await;
    let publish = |size: &str, host: &str| {
        keeping
            .several()
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
    until_problem(&typed, "no number", |it| matches!(it, Problem::Invalid(_))).await;
    assert_eq!(**typed.current().unwrap(), expected(2, "b"));
    session.delete("/app/pool").recursive().await.unwrap();
    soon("all gone", async {
        while !all.changed().await.is_empty() {}
    })
    .await;
}

// covers: G4
#[test]
fn transaction_over_several_keys_is_never_seen_half() {
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
            let disturbing = tokio::spawn(chaos.unleash(&ensemble));
            let mut random = fastrand::Rng::with_seed(seed);
            let publish = async |value: &str| {
                let publisher = publisher(&writing);
                let mut all = publisher.several();
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

/// Follows 1,000 keys of which one is written every so often, and returns how many values came, and whether it was said
/// that it changes too fast. Asserts that the value is never late without a word of it.
async fn followed_under_writes(every: Duration) -> (usize, bool) {
    const LATE: Duration = Duration::from_millis(300);
    const KEYS: usize = 300;
    let ensemble = Ensemble::new(1);
    let (writing, reading) = (ensemble.connect().await, ensemble.connect().await);
    for key in 0..KEYS {
        let path = format!("/app/keys/{key}");
        writing.create(path, "0").parents().await.unwrap();
    }
    let typed = keys("/app/keys").build();
    let _following = typed.follow(&reading);
    soon("it is read", typed.ready()).await;
    until_well(&typed).await;
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
    // When each number was written; the newest one that is in force.
    let mut written = vec![start];
    let mut is_said = false;
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
        assert!(!is_late || problem.is_some(), "it is late and says nothing");
        is_said |= matches!(problem.as_deref(), Some(Problem::Moving { .. }));
    }
    counting.0.abort();
    // In the end it has all, and says so.
    pass(Duration::from_secs(1)).await;
    until_well(&typed).await;
    let last = (written.len() - 1).to_string();
    assert!(typed.current().unwrap().values().any(|it| *it == last));
    (counting.1.load(Ordering::SeqCst), is_said)
}

// covers: G4
#[tokio::test(start_paused = true)]
async fn large_subtree_under_writes_is_fresh_or_says_that_it_is_not() {
    // A write in the midst of a look is made up for.
    let (values, _) = followed_under_writes(Duration::from_millis(3)).await;
    assert!(values > 5, "it follows; {values} values");
    // More of them than can be made up for are a problem.
    let (_, is_said) = followed_under_writes(Duration::ZERO).await;
    assert!(is_said, "it cannot follow");
}

const SEEDS: u64 = 150;
