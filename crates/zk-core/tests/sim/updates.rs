//! Updates: read, change, write under the version that was read, and again after a conflict.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{
    Error, ErrorClass, ErrorKind, IdempotencyTokens, NodePath, Session, UpdateData, Updated,
};
use zk_sim::matching::{creates, sets, transactions};
use zk_sim::{Chaos, Check, Ensemble, Script, Scripted};
use zk_testkit::sim::lose;

use crate::{meanwhile, pass, polled, requests, soon};

/// Adds a letter to what is there.
#[expect(clippy::unnecessary_wraps, reason = "it is a change of an update")]
fn add_a(data: &[u8]) -> Option<Vec<u8>> {
    Some([data, b"a"].concat())
}

/// Counts up, in digits.
fn count_up(data: &[u8]) -> Option<Vec<u8>> {
    let count: u32 = std::str::from_utf8(data).ok()?.parse().ok()?;
    Some((count + 1).to_string().into_bytes())
}

fn tokens_below(session: &Session, path: &str) -> IdempotencyTokens {
    let path = NodePath::parse(&format!("{path}/token")).unwrap();
    IdempotencyTokens::below_existing(session, path)
}

fn data(sim: &Ensemble, path: &str) -> String {
    let tree = sim.tree();
    let node = tree.node(path).expect("the node exists");
    String::from_utf8(node.data().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn update_writes_what_the_function_makes_of_the_data() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let error = session.update("/a/b", add_a).await.unwrap_err();
    assert!(error.is_no_node(), "{error}");
    let updated = session.update("/a/b", add_a).or_create("x").await.unwrap();
    assert_eq!((&*updated.data, updated.is_written), (&b"xa"[..], true));
    assert_eq!(updated.stat.unwrap().version, 1);
    let before = requests(&sim, &session).len();
    let updated = session.update("/a/b", add_a).or_create("x").await.unwrap();
    assert_eq!((&*updated.data, updated.conflicts), (&b"xaa"[..], 0));
    assert_eq!(requests(&sim, &session)[before..], ["get /a/b", "set /a/b"]);
    // What the caller knows needs no read.
    let version = updated.stat.unwrap().version;
    let update = session.update("/a/b", add_a).known(updated.data, version);
    assert_eq!(&*update.await.unwrap().data, b"xaaa");
    assert_eq!(requests(&sim, &session)[before + 2..], ["set /a/b"]);
    // It is decided on a fresh read that nothing is to be written.
    let kept = session.update("/a/b", |_| None).await.unwrap();
    assert_eq!((&*kept.data, kept.is_written), (&b"xaaa"[..], false));
    assert_eq!(
        requests(&sim, &session)[before + 3..],
        ["get /a/b", "sync /a/b", "get /a/b"]
    );
    assert!(!format!("{kept:?}").contains("xaaa"));
}

#[tokio::test(start_paused = true)]
async fn conflict_calls_the_function_with_what_the_other_wrote() {
    for is_known in [false, true] {
        let sim = Ensemble::new(3);
        let session = sim.connect().server(2).await;
        let other = sim.connect().server(1).await;
        session.create("/a", "x").await.unwrap();
        other.sync("/a").await.unwrap();
        // The server of this session does not show the other write for a while.
        sim.server(2).lag_by(Duration::from_millis(100));
        other.set("/a", "y").await.unwrap();
        let update = session.update("/a", add_a);
        let update = if is_known {
            update.known("x".into(), 0)
        } else {
            update
        };
        let updated = soon("it is written", update.into_future()).await.unwrap();
        assert_eq!((&*updated.data, updated.conflicts), (&b"ya"[..], 1));
        assert_eq!(data(&sim, "/a"), "ya");
    }
}

#[tokio::test(start_paused = true)]
async fn contended_update_ends_at_its_deadline_without_effect() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "0").await.unwrap();
    let update = session.update("/a", count_up);
    let update = update.timeout(Duration::from_secs(3));
    let refusal = TransportError::Refused(ErrorKind::BadVersion, None);
    let refused = sim.on(sets("/a")).every().refuse(refusal);
    let error = update.await.unwrap_err();
    // The pauses grow.
    assert!((5..20).contains(&refused.count()), "{}", refused.count());
    assert_eq!(
        (error.kind(), error.class(), error.is_outcome_unknown()),
        (ErrorKind::TimedOut, ErrorClass::Recoverable, false)
    );
    assert!(error.to_string().contains("wrote first"), "{error}");
    assert_eq!(data(&sim, "/a"), "0");
}

/// What the other client writes after the request or the reply was lost.
type Meanwhile = Option<&'static str>;

/// Curator and kazoo take the refusal of a repeated write for another client's, and write again.
#[tokio::test(start_paused = true)]
async fn lost_reply_never_applies_the_function_twice() {
    // Whether the write was applied, what another client wrote, whether it is idempotent, and the result.
    let cases: [(bool, Meanwhile, bool, Result<&str, ErrorKind>); 8] = [
        (false, None, false, Ok("1")),
        (true, None, false, Err(ErrorKind::OutcomeUnknown)),
        (true, None, true, Ok("1")),
        (false, Some("5"), false, Ok("6")),
        (true, Some("5"), false, Err(ErrorKind::OutcomeUnknown)),
        (true, Some("5"), true, Err(ErrorKind::OutcomeUnknown)),
        // The other one counted up as well.
        (false, Some("1"), false, Err(ErrorKind::OutcomeUnknown)),
        (false, Some("0"), false, Ok("1")),
    ];
    for (is_applied, theirs, is_idempotent, expected) in cases {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().await, sim.connect().await);
        session.create("/a", "0").await.unwrap();
        other.sync("/a").await.unwrap();
        let script = sim.on(sets("/a")).session(session.id());
        let lost = lose(script, is_applied);
        let update = session.update("/a", count_up);
        let update = if is_idempotent {
            update.idempotent()
        } else {
            update
        };
        let result = meanwhile(lost, update, async || {
            if let Some(theirs) = theirs {
                other.set("/a", theirs).await.unwrap();
            }
        });
        let result = result.await;
        let what = format!("{is_applied} {theirs:?} {is_idempotent}: {result:?}");
        let result = result.map(|updated| String::from_utf8(updated.data.to_vec()).unwrap());
        let result = result.map_err(|error| error.kind());
        assert_eq!(result, expected.map(ToOwned::to_owned), "{what}");
    }
}

type Inject = fn(Script) -> Scripted;

/// A function as a change.
type Change = fn(&[u8]) -> Option<Vec<u8>>;

fn once(session: &Session, tokens: &IdempotencyTokens) -> UpdateData<Change> {
    let change: Change = count_up;
    session
        .update("/a", change)
        .or_create("0")
        .exactly_once(tokens)
}

#[tokio::test(start_paused = true)]
async fn update_with_a_token_is_applied_once_whatever_is_lost() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let tokens = tokens_below(&session, "/a");
    let faults: [Option<Inject>; 5] = [
        None,
        Some(Script::lose_request),
        Some(Script::lose_reply),
        Some(|script| script.stall_then_move(2)),
        Some(|script| script.stall_then_move(3)),
    ];
    for (before, fault) in faults.into_iter().enumerate() {
        let _injected = fault.map(|inject| inject(sim.on(transactions("/a"))));
        let Updated {
            data: now, stat, ..
        } = once(&session, &tokens).await.unwrap();
        assert_eq!(now, (before + 1).to_string());
        assert_eq!(data(&sim, "/a"), (before + 1).to_string());
        assert_eq!(stat.is_none(), before > 1, "only a lost reply has no stat");
    }
    drop(tokens);
    soon("the token is removed", session.settled()).await;
    assert_eq!(sim.tree().node("/a").unwrap().stat().num_children, 0);
}

/// A version does not identify the data. Without a fence, the write would succeed under version 0 of the later node.
#[tokio::test(start_paused = true)]
async fn node_made_again_is_not_taken_for_the_one_that_was_read() {
    for is_fenced in [false, true] {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().await, sim.connect().await);
        session.create("/a", "1").await.unwrap();
        let tokens = tokens_below(&session, "/a");
        other.sync("/a").await.unwrap();
        let other = &other;
        let replace = async move || {
            other.delete("/a").recursive().await.unwrap();
            other.create("/a", "6").await.unwrap();
            other.set("/a", "7").await.unwrap();
        };
        let update = session.update("/a", count_up);
        let update = if is_fenced {
            once(&session, &tokens).await.unwrap();
            replace().await;
            session.update("/a", count_up).exactly_once(&tokens)
        } else {
            replace().await;
            update
        };
        let updated = update.known("1".into(), 1).await.unwrap();
        let expected = if is_fenced { "8" } else { "2" };
        assert_eq!(updated.data, expected);
        assert_eq!(data(&sim, "/a"), expected);
    }
}

/// Without a token below the node, the same version may be of a node that was made again.
#[tokio::test(start_paused = true)]
async fn known_data_is_read_again_before_there_is_a_fence() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "1").await.unwrap();
    session.delete("/a").await.unwrap();
    session.create("/a", "7").await.unwrap();
    let tokens = tokens_below(&session, "/a");
    let update = session.update("/a", count_up).exactly_once(&tokens);
    let updated = update.known("1".into(), 0).await.unwrap();
    assert_eq!((&*updated.data, &*data(&sim, "/a")), (&b"8"[..], "8"));
}

#[tokio::test(start_paused = true)]
async fn missing_parent_of_the_tokens_is_no_conflict() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let tokens = tokens_below(&session, "/tokens");
    let before = sim.request_count();
    let error = once(&session, &tokens).await.unwrap_err();
    assert!(error.is_no_node() && !error.is_outcome_unknown(), "{error}");
    assert!(sim.request_count() - before < 10);
    assert_eq!(data(&sim, "/a"), "0");
}

#[tokio::test(start_paused = true)]
async fn data_older_than_the_caller_has_seen_decides_nothing() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    session.create("/a", "1").await.unwrap();
    let next = sim.zxid() + 1;
    let update = || session.update("/a", count_up).unchanged_since(next);
    let error = update().timeout(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let (updated, ()) = tokio::join!(update().into_future(), async {
        pass(Duration::from_millis(100)).await;
        other.set("/a", "5").await.unwrap();
    });
    assert!(updated.unwrap().is_written);
    let kept = update().await.unwrap();
    assert_eq!((&*kept.data, kept.is_written), (&b"6"[..], false));
}

#[tokio::test(start_paused = true)]
async fn creating_the_initial_node_is_no_doubt_about_the_update() {
    let sim = Ensemble::builder()
        .reconnect_after(Duration::from_secs(5))
        .build();
    let session = sim.connect().await;
    let lost = sim.on(creates("/a")).lose_reply();
    let update = session.update("/a", count_up).or_create("0");
    let updated = meanwhile(lost, update, async || sim.expire(session.id())).await;
    let error = updated.unwrap_err();
    assert!(error.is_fatal() && !error.is_outcome_unknown(), "{error}");
    assert_eq!(data(&sim, "/a"), "0");
}

#[tokio::test(start_paused = true)]
async fn update_dropped_anywhere_leaves_no_token_behind() {
    for times in 0..24 {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let tokens = tokens_below(&session, "/a");
        let done = polled(times, once(&session, &tokens).into_future()).await;
        drop(tokens);
        soon("the token is removed", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        let tree = sim.tree();
        if let Some(node) = tree.node("/a") {
            assert_eq!(node.stat().num_children, 0, "{times}");
            assert!(["0", "1"].contains(&std::str::from_utf8(node.data()).unwrap()));
        }
        assert!(times < 23 || done.is_some());
    }
}

#[test]
fn updates_with_tokens_are_counted_exactly_under_chaos() {
    let written = Arc::new(AtomicUsize::new(0));
    let total = Arc::clone(&written);
    Check::new(0..60).run(move |sim, _seed| {
        let total = Arc::clone(&total);
        async move {
            let chaos = tokio::spawn(Chaos::default().run(&sim));
            let mut workers = Vec::new();
            for _ in 0..3 {
                let session = sim.connect().timeout(Duration::from_secs(30)).await;
                workers.push(tokio::spawn(async move {
                    let tokens = tokens_below(&session, "/a");
                    let (mut done, mut unknown) = (0, 0);
                    for _ in 0..30 {
                        match once(&session, &tokens)
                            .timeout(Duration::from_secs(60))
                            .await
                        {
                            Ok(_) => done += 1,
                            Err(error) if error.is_outcome_unknown() => unknown += 1,
                            Err(error) if error.is_fatal() => break,
                            Err(error) if error.class() == ErrorClass::Recoverable => {}
                            Err(error) => panic!("{error}"),
                        }
                        pass(Duration::from_millis(50)).await;
                    }
                    (done, unknown)
                }));
            }
            let (mut done, mut unknown) = (0, 0);
            for worker in workers {
                let counts = worker.await.expect("no worker panics");
                done += counts.0;
                unknown += counts.1;
            }
            chaos.await.expect("nothing panics there");
            let count: usize = data(&sim, "/a").parse().unwrap();
            assert!(
                (done..=done + unknown).contains(&count),
                "{count} after {done} acknowledged and {unknown} unknown"
            );
            total.fetch_add(done, Ordering::SeqCst);
            Ok::<(), Error>(())
        }
    });
    assert!(
        written.load(Ordering::SeqCst) > 1_000,
        "hardly anything was tried"
    );
}
