//! Every node name and payload that this crate writes, against a committed text: they are what other processes and
//! other clients depend on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_lock::{
    CohortLimits, CohortLock, FairLock, Layout, LockOptions, OwnerInfo, RaceLock, Reap,
    ReentrantLock, RwLock, Semaphore,
};
use zk_sim::{Ensemble, Kind, matching};

use crate::{PATH, pass, soon};

#[tokio::test(start_paused = true)]
async fn names_and_payloads_are_those_of_the_golden_file() {
    let mut text = String::new();
    for (name, layout) in [
        ("curator", Layout::curator()),
        ("kazoo", Layout::kazoo()),
        ("hbase", Layout::hbase()),
        ("zookeeper", Layout::zookeeper()),
        ("curator_latch", Layout::curator_latch()),
    ] {
        locks(name, layout, &mut text).await;
    }
    other_kinds(&mut text).await;
    owners(&mut text).await;
    revocations(&mut text).await;
    transactions(&mut text).await;
    let golden = include_str!("../golden/layout.txt");
    let first = text.lines().zip(golden.lines()).find(|(is, was)| is != was);
    assert!(
        text == golden,
        "first difference (now, golden): {first:?}\nthe layout changed; other processes depend on it. It is now:\n{text}"
    );
}

/// The locks that have a layout: a fair lock with a waiter, and a read/write lock if the layout has readers.
async fn locks(name: &str, layout: Layout, text: &mut String) {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = || options().with_layout(layout);
    let lock = FairLock::with_options(&session, PATH, options()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = lock.enlist().await.unwrap();
    section(&format!("FairLock, {name}"), &ensemble, text);
    drop((guard, waiter));
    soon("nothing is left", session.settled()).await;
    let Ok(lock) = RwLock::with_options(&session, PATH, options()) else {
        return;
    };
    let writing = lock.writer().acquire().await.unwrap();
    section(&format!("RwLock, {name}, written"), &ensemble, text);
    let reading = writing.downgrade().await.unwrap();
    section(&format!("RwLock, {name}, downgraded"), &ensemble, text);
    drop(reading);
}

/// The kinds of locks that have one layout.
async fn other_kinds(text: &mut String) {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let cohort = CohortLock::with_options(&session, PATH, options(), CohortLimits::default());
    let guard = cohort.unwrap().acquire().await.unwrap();
    section("CohortLock", &ensemble, text);
    drop(guard);
    soon("nothing is left", session.settled()).await;

    let lock = ReentrantLock::with_options(&session, PATH, options()).unwrap();
    let guard = lock.acquire().await.unwrap();
    section("ReentrantLock", &ensemble, text);
    drop(guard);

    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = RaceLock::with_options(&session, PATH, options()).unwrap();
    let guard = lock.acquire().await.unwrap();
    section("RaceLock", &ensemble, text);
    drop(guard);

    let ensemble = Ensemble::new(3);
    let [one, other] = [ensemble.connect().await, ensemble.connect().await];
    let semaphore = |session: &Session| {
        Semaphore::with_options(session, "/semaphores/a", 2, options()).expect("a good path")
    };
    let lease = semaphore(&one).with_count(2).acquire().await.unwrap();
    let waiting = semaphore(&other);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    pass(Duration::from_millis(100)).await;
    section("Semaphore with a waiter", &ensemble, text);
    waiting.abort();
    drop(lease);
}

/// The data of a node, as its owner may set it.
async fn owners(text: &mut String) {
    for (name, owner) in [
        (
            "with a label",
            owner().with_label("nightly\nbuild").to_bytes(),
        ),
        (
            "with a payload",
            owner().with_payload("any\n\nbytes").to_bytes(),
        ),
        ("with data of its own", b"opaque".to_vec()),
    ] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = LockOptions::default().with_owner(owner);
        let lock = FairLock::with_options(&session, PATH, options).unwrap();
        let guard = lock.acquire().await.unwrap();
        section(&format!("owner {name}"), &ensemble, text);
        drop(guard);
    }
}

/// Requests to release a lock, and answers.
async fn revocations(text: &mut String) {
    for accepts in [true, false] {
        let ensemble = Ensemble::new(3);
        let [holder, admin] = [ensemble.connect().await, ensemble.connect().await];
        let lock = FairLock::with_options(&holder, PATH, options()).unwrap();
        let guard = lock.acquire().await.unwrap();
        let inspector = zk_lock::Inspector::new(&admin, PATH).unwrap();
        let snapshot = inspector.snapshot().await.unwrap();
        let revoke = inspector
            .revoke(snapshot.contenders()[0].contender())
            .by(OwnerInfo::new("ops 1", 17))
            .reason("a rolling\nrestart")
            .limit(Duration::from_secs(5));
        let asking = tokio::spawn(revoke.into_future());
        let request = soon("it is asked", guard.revocation_requested()).await;
        let request = request.unwrap();
        section("revocation requested", &ensemble, text);
        if accepts {
            request.accept().await.unwrap();
            section("revocation accepted", &ensemble, text);
        } else {
            request.refuse("two minutes\nmore").await.unwrap();
            section("revocation refused", &ensemble, text);
        }
        drop(guard);
        soon("the requester is answered", asking)
            .await
            .unwrap()
            .unwrap();
    }
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = FairLock::with_options(&session, PATH, options()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let snapshot = lock.inspector().snapshot().await.unwrap();
    let revoke = lock
        .inspector()
        .revoke(snapshot.contenders()[0].contender());
    let asking = tokio::spawn(revoke.as_curator().into_future());
    let request = soon("it is asked", guard.revocation_requested()).await;
    section("revocation requested as Curator does", &ensemble, text);
    request.unwrap().accept().await.unwrap();
    drop(guard);
    soon("the requester is answered", asking)
        .await
        .unwrap()
        .unwrap();
}

/// The node that is only there within a transaction: by it the clock of the leader is read.
async fn transactions(text: &mut String) {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let paths = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&paths);
    let is_transaction = matching::transactions("/**");
    // It matches no request, and so holds none.
    let script = ensemble.on(move |request| {
        if is_transaction(request) {
            let paths = matching::paths(request)
                .into_iter()
                .map(ToString::to_string);
            seen.lock().unwrap().extend(paths);
        }
        false
    });
    script.hold();
    let lock = FairLock::with_options(&session, PATH, options()).unwrap();
    drop(lock.acquire().await.unwrap());
    soon("nothing is left", session.settled()).await;
    let reap = Reap::OlderThan(Duration::from_secs(1));
    lock.inspector().reapable(reap).await.unwrap();
    text.push_str("== transaction that reads the clock of the leader\n");
    for path in paths.lock().unwrap().iter() {
        if let Some((parent, _)) = path.split_once("/_now_") {
            writeln!(text, "{parent}/_now_<session>").unwrap();
            assert_eq!(*path, format!("{parent}/_now_{}", session.id()));
        }
    }
}

fn owner() -> OwnerInfo {
    OwnerInfo::new("build7", 4242)
}

fn options() -> LockOptions {
    LockOptions::default().with_owner(owner())
}

/// Writes all nodes of the ensemble, without what differs from run to run.
fn section(title: &str, ensemble: &Ensemble, text: &mut String) {
    let tree = ensemble.tree();
    let nodes = tree.nodes().filter(|(path, _)| !path.is_root());
    let mut lines: Vec<String> = nodes
        .filter(|(path, _)| !path.as_str().starts_with("/zookeeper"))
        .map(|(path, node)| {
            let kind = match node.kind() {
                Kind::Persistent => "persistent",
                Kind::Container => "container",
                _ => "ephemeral",
            };
            let data = String::from_utf8(node.data().to_vec()).expect("the data is text");
            format!(
                "{} {kind} {:?}",
                without_ids(path.as_str()),
                without_ids(&data)
            )
        })
        .collect();
    lines.sort();
    writeln!(text, "== {title}\n{}", lines.join("\n")).unwrap();
}

/// Replaces random ids, ids of requests and the numbers of attempts.
fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let run = |is_of_it: fn(char) -> bool| rest.find(|c| !is_of_it(c)).unwrap_or(rest.len());
        let uuid = run(|c| c.is_ascii_hexdigit() || c == '-');
        let hex = run(|c| c.is_ascii_hexdigit());
        let (length, placeholder) = if uuid >= 36 && rest.as_bytes()[8] == b'-' {
            (36, "<uuid>")
        } else if hex >= 32 {
            (32, "<hex32>")
        } else {
            (c.len_utf8(), &rest[..c.len_utf8()])
        };
        out.push_str(placeholder);
        rest = &rest[length..];
    }
    for prefix in ["revoke: ", "revoke-answer: ", " #"] {
        out = replace_word_after(&out, prefix);
    }
    out
}

fn replace_word_after(text: &str, prefix: &str) -> String {
    let Some((before, after)) = text.split_once(prefix) else {
        return text.to_owned();
    };
    let end = after.find(' ').unwrap_or(after.len());
    format!("{before}{prefix}<id>{}", &after[end..])
}
