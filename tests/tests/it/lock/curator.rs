//! Curator's `InterProcessMutex` and our lock on one path.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use zk_core::SessionId;
use zk_history::Run;
use zk_history::check::{FencedMutex, Span};
use zk_lock::FairLock;
use zk_tests::contention::{Worker, turns};
use zk_tests::peers::{Curator, PeerContender, Recipe};

use super::{
    LONG, SOON, contend, names, observer, three_servers, until_empty, until_enlisted, workers,
};

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_us_and_we_wait_for_curator() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let mut theirs = PeerContender::start(Recipe::CuratorMutex(&curator), &connect, "/lock")
        .await
        .unwrap();
    let lock = FairLock::new(&session, "/lock").unwrap();

    theirs.acquire(SOON).await.unwrap().expect("it is free");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_enlisted(&session, "/lock", 2).await;
    let contenders = lock.inspector().contenders().await.unwrap();
    let sessions: Vec<_> = contenders
        .iter()
        .map(|one| one.session().map(SessionId::as_i64))
        .collect();
    assert_eq!(
        sessions,
        [Some(theirs.session_id()), Some(session.id().as_i64())]
    );
    for name in names(&session, "/lock").await {
        assert_eq!(
            shape(&name),
            "_c_xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-lock-xxxxxxxxxx",
            "{name}"
        );
    }
    theirs.release().await.unwrap();

    let guard = tokio::time::timeout(SOON, waiting)
        .await
        .expect("we are next");
    let guard = guard.unwrap().unwrap();
    assert!(guard.fencing_token() > contenders[0].fencing_token());
    let short = Duration::from_millis(500);
    assert_eq!(theirs.acquire(short).await.unwrap(), None, "we have it");
    let (released, acquired) = tokio::join!(guard.release(), theirs.acquire(SOON));
    released.unwrap();
    acquired.unwrap().expect("we gave it back");
    theirs.release().await.unwrap();
    theirs.quit().await.unwrap();
    until_empty(&session, "/lock").await;
    ensemble.down().await.unwrap();
}

/// The name with an `x` for each hexadecimal digit after the prefix and for each digit of the number.
fn shape(name: &str) -> String {
    let mut parts = name.splitn(2, "-lock-");
    let id = parts.next().unwrap_or_default().trim_start_matches("_c_");
    let number = parts.next().unwrap_or_default();
    let masked = |text: &str| text.replace(|c: char| c.is_ascii_hexdigit(), "x");
    format!("_c_{}-lock-{}", masked(id), masked(number))
}

#[tokio::test(flavor = "multi_thread")]
async fn three_of_curator_and_three_of_ours_never_hold_the_lock_at_the_same_time() {
    const EACH: usize = 3;
    const TIMES: u32 = 25;
    let hold = Duration::from_millis(2);
    // Not in the order of numbers, which Curator does not tell; that is looked at below.
    let run = Run::new("curator", 0).unwrap();
    let run = run.judged_by(FencedMutex::default()).unwrap();
    let ensemble = three_servers().await;
    run.keep_with(ensemble.directories());
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    session.create("/lock", "").await.unwrap();
    let connect = ensemble.connect_string();
    let ours = workers(&run, EACH, &connect, "/lock", Duration::from_secs(20)).await;
    let mut theirs = Vec::new();
    for _ in 0..EACH {
        theirs.push(
            PeerContender::start(Recipe::CuratorMutex(&curator), &connect, "/lock")
                .await
                .unwrap(),
        );
    }

    let ours = tokio::spawn(contend(
        ours,
        format!("contend {TIMES} {}", hold.as_millis()),
    ));
    let mut running = JoinSet::new();
    for (at, mut contender) in theirs.into_iter().enumerate() {
        running.spawn(async move {
            let held = contender.contend(TIMES, hold, LONG).await.unwrap();
            contender.quit().await.unwrap();
            let nanos = |at: Duration| u64::try_from(at.as_nanos()).unwrap();
            held.into_iter()
                .map(|held| {
                    (
                        format!("curator {at}"),
                        Span::new(nanos(held.acquired), nanos(held.released)),
                    )
                })
                .collect::<Vec<_>>()
        });
    }
    let mut all: Vec<(String, Span)> = running.join_all().await.concat();
    std::fs::write(run.history_file("curator"), history(&all)).unwrap();
    let ours = tokio::time::timeout(LONG, ours)
        .await
        .expect("all have their turns")
        .unwrap();
    let turns = turns(ours.iter().flat_map(Worker::journal));
    assert!(turns.iter().all(|turn| turn.kept), "{turns:#?}");
    all.extend(turns.iter().map(|turn| (turn.who.clone(), turn.held)));

    assert_eq!(all.len(), 2 * EACH * TIMES as usize);
    // Each turn took one number, so that a turn is as many after the first one as its number says, unless somebody
    // was passed by one who came later.
    all.sort_by_key(|(_, held)| held.from);
    for turn in turns {
        let place = all.iter().position(|(_, held)| *held == turn.held);
        assert_eq!(place, usize::try_from(turn.sequence).ok(), "{turn:?}");
    }
    for worker in ours {
        worker.quit().await.unwrap();
    }
    until_empty(&session, "/lock").await;
    let report = run.finish().unwrap();
    assert_eq!(report.verdicts[0].counts["grants"], all.len() as u64);
    ensemble.down().await.unwrap();
}

/// What Curator's contenders did, as a history.
fn history(held: &[(String, Span)]) -> String {
    let mut lines = Vec::new();
    let mut begun: Vec<&str> = Vec::new();
    for (id, (who, held)) in (1..).step_by(2).zip(held) {
        if !begun.contains(&who.as_str()) {
            begun.push(who);
            lines.push(json!({"type": "begin", "proc": who, "t_mono_ns": 0, "version": 1}));
        }
        for (op, id, at) in [("acquire", id, held.from), ("release", id + 1, held.to)] {
            let line = json!({
                "type": "invoke", "proc": who, "t_mono_ns": at, "id": id, "op": op, "path": "/lock",
            });
            let end = json!({
                "type": "return", "proc": who, "t_mono_ns": at, "id": id, "outcome": "ok",
            });
            lines.extend([line, end]);
        }
    }
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}
