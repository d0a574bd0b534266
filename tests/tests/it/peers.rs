//! The other clients do what tests and benchmarks need of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use zk_core::{Session, SessionId};
use zk_harness::Ensemble;
use zk_tests::peers::{Curator, PeerContender, Recipe, Workload, monotonic, seed_counter};

const SOON: Duration = Duration::from_secs(60);

async fn ensemble() -> Ensemble {
    Ensemble::builder()
        .servers(1)
        .start()
        .await
        .expect("a server starts")
}

async fn curator() -> Curator {
    Curator::find().await.expect("Curator is there")
}

async fn contender(curator: &Curator, ensemble: &Ensemble) -> PeerContender {
    PeerContender::start(
        Recipe::CuratorMutex(curator),
        &ensemble.connect_string(),
        "/lock",
    )
    .await
    .expect("a contender starts")
}

async fn session(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .connect()
        .await
        .expect("the server grants a session")
}

/// The contenders' nodes below `/lock`.
async fn nodes(session: &Session) -> BTreeSet<String> {
    let (names, _) = session.list("/lock").await.expect("the lock's node exists");
    names.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contender_holds_the_lock_by_a_protected_sequential_node_of_its_session() {
    let (ensemble, curator) = (ensemble().await, curator().await);
    let session = session(&ensemble).await;
    let mut contender = contender(&curator, &ensemble).await;

    let before = monotonic();
    let acquired = contender.acquire(SOON).await.unwrap().expect("it is free");
    assert!(before < acquired && acquired < monotonic(), "one clock");

    let names = nodes(&session).await;
    let name = names.first().expect("a contender has a node");
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(is_curators_lock(name), "{name}");
    let stat = session.stat(format!("/lock/{name}")).await.unwrap();
    assert_eq!(
        stat.ephemeral_owner.map(SessionId::as_i64),
        Some(contender.session_id())
    );

    let released = contender.release().await.unwrap();
    assert!(acquired < released && released < monotonic());
    assert_eq!(nodes(&session).await, BTreeSet::new());
    let error = contender.release().await.unwrap_err().to_string();
    assert!(error.contains("You do not own the lock"), "{error}");
    contender.quit().await.unwrap();
    ensemble.down().await.unwrap();
}

/// `_c_<uuid>-lock-<ten digits>`
fn is_curators_lock(name: &str) -> bool {
    let parts = name
        .strip_prefix("_c_")
        .and_then(|rest| rest.split_once("-lock-"));
    parts.is_some_and(|(uuid, number)| {
        let hex: Vec<&str> = uuid.split('-').collect();
        hex.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
            && number.len() == 10
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_exclude_each_other_and_give_up_when_told_to() {
    let (ensemble, curator) = (ensemble().await, curator().await);
    let (mut one, mut two) = tokio::join!(
        contender(&curator, &ensemble),
        contender(&curator, &ensemble)
    );

    one.acquire(SOON).await.unwrap().expect("it is free");
    let waited = Instant::now();
    let short = Duration::from_millis(200);
    assert_eq!(two.acquire(short).await.unwrap(), None, "one has it");
    assert!(waited.elapsed() >= short);
    let (released, acquired) = tokio::join!(one.release(), two.acquire(SOON));
    assert!(released.unwrap() < acquired.unwrap().expect("it was released"));
    two.release().await.unwrap();

    let (hold, limit) = (Duration::from_millis(5), 3 * SOON);
    let (first, second) =
        tokio::try_join!(one.contend(20, hold, limit), two.contend(20, hold, limit)).unwrap();
    let mut all = [first, second].concat();
    all.sort_by_key(|held| held.acquired);
    assert_eq!(all.len(), 40);
    for held in &all {
        assert!(held.released >= held.acquired + hold, "{held:?}");
    }
    for pair in all.windows(2) {
        assert!(pair[0].released < pair[1].acquired, "{pair:?}");
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_contender_is_gone_and_leaves_its_session() {
    let (ensemble, curator) = (ensemble().await, curator().await);
    let session = session(&ensemble).await;
    let mut contender = contender(&curator, &ensemble).await;
    contender.acquire(SOON).await.unwrap().expect("it is free");
    let pid = contender.pid().expect("it runs");
    drop(contender);
    let gone = tokio::time::timeout(SOON, async {
        // The runtime collects the killed process in the background.
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        while Path::new(&format!("/proc/{pid}")).exists() {
            looks.tick().await;
        }
    });
    gone.await.expect("the process is gone soon");
    assert_eq!(nodes(&session).await.len(), 1, "its session was not closed");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seeded_counter_gets_stuck_at_its_end() {
    let ensemble = ensemble().await;
    let before = session(&ensemble).await;
    before.create("/lock", "").await.unwrap();
    before.close().await.unwrap();
    let error = seed_counter(&ensemble, "/lock", 7).await.unwrap_err();
    assert!(error.to_string().contains("runs; stop it first"), "{error}");

    let server = &ensemble.servers()[0];
    server.stop().await.unwrap();
    let error = seed_counter(&ensemble, "/none", 7).await.unwrap_err();
    assert!(error.to_string().contains("there is no /none"), "{error}");
    seed_counter(&ensemble, "/lock", i32::MAX - 1)
        .await
        .unwrap();
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();

    let session = session(&ensemble).await;
    let mut created = Vec::new();
    for prefix in ["a", "b", "c", "d"] {
        let (path, _) = session
            .create(format!("/lock/{prefix}-"), "")
            .sequential()
            .ephemeral()
            .await
            .unwrap();
        created.push(path.to_string());
    }
    assert_eq!(
        created,
        [
            "/lock/a-2147483646",
            "/lock/b-2147483647",
            "/lock/c-2147483647",
            "/lock/d-2147483647"
        ]
    );
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_lock_is_measured() {
    let (ensemble, curator) = (ensemble().await, curator().await);
    let times = [Duration::from_millis(200), Duration::from_millis(1)];
    for (workload, counts) in [
        (Workload::Uncontended, (1, 1)),
        (Workload::Sessions, (3, 1)),
        (Workload::Threads, (1, 3)),
    ] {
        let connect = ensemble.connect_string();
        let measured = curator
            .measure(&connect, "/bench", workload, 3, times)
            .await;
        let each = &measured.unwrap();
        assert_eq!(
            (each.workload, (each.sessions, each.threads)),
            (workload, counts)
        );
        println!("{each:?}");
        assert!(each.operations >= 50 && each.per_second > 0.0, "{each:?}");
        assert!(
            each.p50_micros > 0.0 && each.p50_micros <= each.p99_micros,
            "{each:?}"
        );
        // There is one holder at a time: half of the operations took this long, one after the other.
        let busy = each.p50_micros / 1e6 * each.per_second / 2.0;
        assert!(busy <= 1.5, "{each:?} would need {busy} s in a second");
    }
    ensemble.down().await.unwrap();
}
