//! Curator's `InterProcessSemaphoreV2` and our semaphore on one path.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::{Ensemble, Error};
use zk_history::{Run, check};
use zk_lock::Semaphore;
use zk_tests::peers::{Curator, PeerContender, Recipe, monotonic};

use super::{SOON, names, observer, three_servers, until, until_empty, until_enlisted};

const PATH: &str = "/semaphore";
const QUEUE: &str = "/semaphore/locks";
const LEASES: &str = "/semaphore/leases";
const LIMIT: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn curator_counts_our_leases_and_we_count_curators_also_when_sessions_end() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let mut theirs =
        PeerContender::start(Recipe::CuratorSemaphore(&curator, LIMIT), &connect, PATH)
            .await
            .unwrap();
    let short = Duration::from_millis(300);

    // Curator is first, and makes the node without a limit.
    theirs
        .acquire_leases(2, SOON)
        .await
        .unwrap()
        .expect("it is free");
    let ours = Semaphore::new(&session, PATH, LIMIT).unwrap();
    assert!(ours.with_count(2).try_acquire().await.unwrap().is_none());
    let lease = ours.acquire().await.unwrap();
    assert_eq!(ours.limit().await.unwrap(), Some(LIMIT));
    for name in names(&session, LEASES).await {
        let digits = name.replace(|c: char| c.is_ascii_hexdigit(), "x");
        assert_eq!(
            digits,
            "_x_xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-lxxsx-xxxxxxxxxx"
        );
    }
    assert_eq!(names(&session, LEASES).await.len(), 3);

    // We wait for Curator, whose session ends.
    let waiter = ours.clone();
    let waiting = tokio::spawn(async move { waiter.with_count(2).acquire().await });
    until_enlisted(&session, LEASES, 5).await;
    assert!(!waiting.is_finished());
    let ended = theirs.newest_session_id().await.unwrap();
    ensemble.expire(ended).await.unwrap();
    let two = tokio::time::timeout(SOON, waiting)
        .await
        .expect("there is room");
    let two = two.unwrap().unwrap();
    assert!(two.is_valid());

    // Curator, in its next session, waits for us; we give back, or end.
    let held = theirs.acquire_leases(1, short).await;
    assert!(!matches!(held, Ok(Some(_))), "we have all of them");
    two.release().await.unwrap();
    let other = observer(&ensemble).await;
    let others = Semaphore::new(&other, PATH, LIMIT).unwrap();
    let others = others.with_count(2).acquire().await.unwrap();
    let (acquired, ()) = tokio::join!(theirs.acquire_leases(2, SOON), async {
        until_enlisted(&session, LEASES, 4).await;
        ensemble.expire(other.id().as_i64()).await.unwrap();
    });
    acquired.unwrap().expect("there is room");
    assert!(others.release().await.unwrap_err().loss().is_some());
    assert!(ours.try_acquire().await.unwrap().is_none());
    theirs.release().await.unwrap();
    lease.release().await.unwrap();
    theirs.quit().await.unwrap();
    until_empty(&session, QUEUE).await;
    until_empty(&session, LEASES).await;
    ensemble.down().await.unwrap();
}

/// A time for which somebody relied on leases.
#[derive(Debug, Clone)]
struct Held {
    who: String,
    /// The sessions of which one has the leases.
    sessions: [i64; 2],
    count: u32,
    from: u64,
    to: u64,
}

/// What those who contend share.
#[derive(Clone)]
struct Work {
    ensemble: Arc<Ensemble>,
    held: Arc<Mutex<Vec<Held>>>,
    /// Who has which session now.
    sessions: Arc<Mutex<Vec<i64>>>,
    ends: watch::Receiver<bool>,
}

impl Work {
    fn is_over(&self) -> bool {
        *self.ends.borrow()
    }
}

fn nanos(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).expect("a machine is not up for so long")
}

async fn contend_ourselves(work: Work, at: usize, mut random: fastrand::Rng) {
    while !work.is_over() {
        let session = Session::builder(work.ensemble.connect_string())
            .session_timeout(Duration::from_secs(10))
            .operation_timeout(SOON)
            .connect()
            .await
            .unwrap();
        let id = session.id().as_i64();
        work.sessions.lock().unwrap()[at] = id;
        let semaphore = Semaphore::new(&session, PATH, LIMIT).unwrap();
        while !work.is_over() {
            let count = random.u32(1..=LIMIT);
            let Ok(lease) = semaphore.with_count(count).acquire().await else {
                break;
            };
            let from = nanos(monotonic());
            let hold = Duration::from_millis(random.u64(0..5));
            drop(tokio::time::timeout(hold, lease.lost()).await);
            let to = nanos(monotonic());
            let who = format!("ours {at}");
            work.held.lock().unwrap().push(Held {
                who,
                sessions: [id; 2],
                count,
                from,
                to,
            });
            drop(lease.release().await);
        }
        drop(session.close().await);
    }
}

async fn contend_by_curator(work: Work, at: usize, mut theirs: PeerContender) {
    while !work.is_over() {
        let before = theirs.newest_session_id().await.unwrap();
        work.sessions.lock().unwrap()[at] = before;
        // One at a time: it would hold the first one while it waits for the next. What it says of a session that has
        // ended is no concern of ours.
        let Ok(Some(from)) = theirs.acquire_leases(1, SOON).await else {
            continue;
        };
        // If the next session has begun meanwhile, the lease may be one of either: Curator returns a lease of a session that
        // has ended, after it tried to release its lock with the next one.
        let after = theirs.newest_session_id().await.unwrap();
        let Ok(to) = theirs.release().await else {
            continue;
        };
        work.held.lock().unwrap().push(Held {
            who: format!("curator {at}"),
            sessions: [before, after],
            count: 1,
            from: nanos(from),
            to: nanos(to),
        });
    }
    theirs.quit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_whose_session_no_more_leases_than_the_limit_are_relied_on() {
    const OURS: usize = 3;
    const THEIRS: usize = 2;
    const KILLS: usize = 12;
    let run = Run::seeded("curator-semaphore").unwrap();
    let run = run.judged_by(check::Semaphore::new(LIMIT)).unwrap();
    let ensemble = Arc::new(three_servers().await);
    run.keep_with(ensemble.directories());
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let (end, ends) = watch::channel(false);
    let work = Work {
        ensemble: Arc::clone(&ensemble),
        held: Arc::default(),
        sessions: Arc::new(Mutex::new(vec![0; OURS + THEIRS])),
        ends,
    };
    let mut random = fastrand::Rng::with_seed(run.seed());
    let connect = ensemble.connect_string();
    let mut contenders = JoinSet::new();
    for at in OURS..OURS + THEIRS {
        let theirs =
            PeerContender::start(Recipe::CuratorSemaphore(&curator, LIMIT), &connect, PATH)
                .await
                .unwrap();
        contenders.spawn(contend_by_curator(work.clone(), at, theirs));
    }
    for at in 0..OURS {
        contenders.spawn(contend_ourselves(work.clone(), at, random.fork()));
    }

    // Some grants, then a session of somebody ends, and so on.
    let grants = || work.held.lock().unwrap().len();
    let mut killed: Vec<(i64, u64)> = Vec::new();
    while killed.len() < KILLS {
        let before = grants();
        until("it goes on", SOON, async || grants() > before + 5).await;
        let victim = random.usize(0..OURS + THEIRS);
        let victim = work.sessions.lock().unwrap()[victim];
        let at = nanos(monotonic());
        match ensemble.expire(victim).await {
            Ok(()) => killed.push((victim, at)),
            // It is over already, or has not begun.
            Err(Error::NoSuchSession { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    let before = grants();
    until("it goes on", SOON, async || grants() > before + 20).await;
    until("Curator has had its share", SOON, async || {
        let held = work.held.lock().unwrap();
        held.iter().filter(|one| is_theirs(one)).count() > 10
    })
    .await;
    end.send(true).unwrap();
    let ended = tokio::time::timeout(2 * SOON, async {
        while let Some(ended) = contenders.join_next().await {
            ended.unwrap();
        }
    });
    ended.await.expect("everyone comes to an end");
    until_empty(&session, QUEUE).await;
    until_empty(&session, LEASES).await;

    let mut held = std::mem::take(&mut *work.held.lock().unwrap());
    for one in &mut held {
        // A client cannot know in time that its session was ended by force.
        if let Some((_, at)) = killed.iter().find(|(id, _)| one.sessions.contains(id)) {
            one.to = one.to.min(*at).max(one.from);
        }
    }
    held.sort_by_key(|one| one.from);
    std::fs::write(run.history_file("all"), history(&held)).unwrap();
    let theirs = held.iter().filter(|one| is_theirs(one)).count();
    println!(
        "{} grants, {} of them Curator's, {} sessions ended",
        held.len(),
        theirs,
        killed.len()
    );
    let report = run.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.verdicts[0].counts["grants"], held.len() as u64);
    drop(work);
    let ensemble = Arc::into_inner(ensemble).expect("all who used it have ended");
    ensemble.down().await.unwrap();
}

fn is_theirs(one: &Held) -> bool {
    one.who.starts_with("curator")
}

/// The same as the lines that our own processes write.
fn history(held: &[Held]) -> String {
    let mut lines = Vec::new();
    let mut begun: Vec<&str> = Vec::new();
    for (id, one) in (1..).step_by(2).zip(held) {
        let who = one.who.as_str();
        if !begun.contains(&who) {
            begun.push(who);
            lines.push(json!({"type": "begin", "proc": who, "t_mono_ns": 0, "version": 1}));
        }
        lines.push(json!({
            "type": "invoke", "proc": who, "t_mono_ns": one.from, "id": id, "op": "acquire", "path": PATH,
            "permits": one.count,
        }));
        lines.push(json!({
            "type": "return", "proc": who, "t_mono_ns": one.from, "id": id, "outcome": "ok",
        }));
        lines.push(json!({
            "type": "invoke", "proc": who, "t_mono_ns": one.to, "id": id + 1, "op": "release", "path": PATH,
        }));
        lines.push(json!({
            "type": "return", "proc": who, "t_mono_ns": one.to, "id": id + 1, "outcome": "ok",
        }));
    }
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}
