//! Other clients' read/write locks, and ours, on one path.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::{AcquireError, FairLock, Layout, LockOptions, ReadGuard, RwLock, WriteGuard};
use zk_tests::peers::{Curator, Kazoo, PeerContender, Recipe, monotonic};

use super::{SOON, observer, until, until_empty, until_enlisted};

const PATH: &str = "/rw";
const READ: &str = "read";
const WRITE: &str = "write";
/// Long enough to be granted what is free, and not too long for a test.
const SHORT: Duration = Duration::from_millis(500);

async fn one_server() -> Ensemble {
    Ensemble::builder()
        .servers(1)
        .start()
        .await
        .expect("a server starts")
}

fn ours(session: &Session, layout: Layout) -> RwLock {
    let options = LockOptions::default().with_layout(layout);
    RwLock::with_options(session, PATH, options).expect("it has readers")
}

fn reading(lock: &RwLock) -> JoinHandle<Result<ReadGuard, AcquireError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.reader().acquire().await })
}

fn writing(lock: &RwLock) -> JoinHandle<Result<WriteGuard, AcquireError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.writer().acquire().await })
}

async fn granted<T>(waiting: JoinHandle<Result<T, AcquireError>>) -> T {
    let acquired = tokio::time::timeout(SOON, waiting).await;
    acquired.expect("its turn comes").unwrap().unwrap()
}

/// Theirs has a side, which keeps out whom it should.
async fn theirs_first(session: &Session, ours: &RwLock, theirs: &mut PeerContender) {
    let held = theirs.acquire_kind(READ, SOON).await.unwrap();
    held.expect("it is free");
    let shared = ours.reader().try_acquire().await.unwrap();
    shared.expect("readers share").release().await.unwrap();
    assert!(ours.writer().try_acquire().await.unwrap().is_none());
    let waiting = writing(ours);
    until_enlisted(session, PATH, 2).await;
    theirs.release_kind(READ).await.unwrap();
    granted(waiting).await.release().await.unwrap();

    let held = theirs.acquire_kind(WRITE, SOON).await.unwrap();
    held.expect("it is free");
    assert!(ours.reader().try_acquire().await.unwrap().is_none());
    assert!(ours.writer().try_acquire().await.unwrap().is_none());
    let waiting = reading(ours);
    until_enlisted(session, PATH, 2).await;
    theirs.release_kind(WRITE).await.unwrap();
    granted(waiting).await.release().await.unwrap();
}

/// Ours has a side, changes it both ways, and keeps out whom it should all the time.
async fn ours_first(ours: &RwLock, theirs: &mut PeerContender) {
    let guard = ours.reader().acquire().await.unwrap();
    assert_eq!(theirs.acquire_kind(WRITE, SHORT).await.unwrap(), None);
    let held = theirs.acquire_kind(READ, SOON).await.unwrap();
    held.expect("readers share");
    theirs.release_kind(READ).await.unwrap();
    let guard = guard.upgrade().await.unwrap();
    assert_eq!(theirs.acquire_kind(READ, SHORT).await.unwrap(), None);
    assert_eq!(theirs.acquire_kind(WRITE, SHORT).await.unwrap(), None);
    let guard = guard.downgrade().await.unwrap();
    assert_eq!(theirs.acquire_kind(WRITE, SHORT).await.unwrap(), None);
    let held = theirs.acquire_kind(READ, SOON).await.unwrap();
    held.expect("readers share");
    // It waits for their reader, too.
    let refused = guard.upgrade_timeout(SHORT).await.unwrap_err();
    let guard = refused.into_guard().expect("it reads as before");
    theirs.release_kind(READ).await.unwrap();
    let (acquired, released) = tokio::join!(theirs.acquire_kind(WRITE, SOON), async {
        drop(tokio::time::timeout(SHORT / 2, std::future::pending::<()>()).await);
        guard.release().await
    });
    released.unwrap();
    acquired.unwrap().expect("no other session holds it");
    theirs.release_kind(WRITE).await.unwrap();
}

/// A reader of theirs that waits for a writer of ours is let in when that one becomes a reader.
async fn a_downgrade_before_a_reader(session: &Session, ours: &RwLock, mut reader: PeerContender) {
    let guard = ours.writer().acquire().await.unwrap();
    let (held, guard) = tokio::join!(reader.acquire_kind(READ, SOON), async {
        until_enlisted(session, PATH, 2).await;
        guard.downgrade().await.unwrap()
    });
    held.unwrap().expect("our writer is a reader by now");
    assert!(guard.is_valid());
    reader.release_kind(READ).await.unwrap();
    guard.release().await.unwrap();
    reader.quit().await.unwrap();
}

/// A writer of theirs that waits for a writer of ours waits for it as a reader, too.
async fn a_downgrade_before_a_writer(session: &Session, ours: &RwLock, mut writer: PeerContender) {
    let guard = ours.writer().acquire().await.unwrap();
    let (held, released) = tokio::join!(writer.acquire_kind(WRITE, SOON), async {
        until_enlisted(session, PATH, 2).await;
        let guard = guard.downgrade().await.unwrap();
        // It waits for us, so we must not wait for it.
        let refused = guard.upgrade().await.unwrap_err();
        let guard = refused.into_guard().expect("it reads as before");
        drop(tokio::time::timeout(SHORT, std::future::pending::<()>()).await);
        let released = monotonic();
        guard.release().await.unwrap();
        released
    });
    let held = held.unwrap().expect("our reader has ended");
    assert!(held > released, "our reader was there until then");
    assert!(ours.reader().try_acquire().await.unwrap().is_none());
    writer.release_kind(WRITE).await.unwrap();
    writer.quit().await.unwrap();
}

/// Starts two contenders.
async fn two(ensemble: &Ensemble, recipe: Recipe<'_>) -> [PeerContender; 2] {
    let connect = ensemble.connect_string();
    let (one, other) = tokio::join!(
        PeerContender::start(recipe, &connect, PATH),
        PeerContender::start(recipe, &connect, PATH)
    );
    [one.unwrap(), other.unwrap()]
}

async fn all_changes(session: &Session, ours: &RwLock, [mut one, other]: [PeerContender; 2]) {
    theirs_first(session, ours, &mut one).await;
    ours_first(ours, &mut one).await;
    a_downgrade_before_a_reader(session, ours, one).await;
    a_downgrade_before_a_writer(session, ours, other).await;
    until_empty(session, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_read_write_lock_and_ours_exclude_each_other_through_all_changes() {
    let ensemble = one_server().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let [mut theirs, second] = two(&ensemble, Recipe::CuratorReadWrite(&curator)).await;
    let lock = ours(&session, Layout::curator());
    // Theirs downgrades.
    theirs.acquire_kind(WRITE, SOON).await.unwrap().unwrap();
    theirs.acquire_kind(READ, SOON).await.unwrap().unwrap();
    theirs.release_kind(WRITE).await.unwrap();
    let shared = lock.reader().try_acquire().await.unwrap();
    shared.expect("it reads only").release().await.unwrap();
    assert!(lock.writer().try_acquire().await.unwrap().is_none());
    theirs.release_kind(READ).await.unwrap();
    all_changes(&session, &lock, [theirs, second]).await;
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_read_write_lock_and_ours_exclude_each_other_through_all_changes() {
    let ensemble = one_server().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let theirs = two(&ensemble, Recipe::Kazoo(&kazoo)).await;
    let lock = ours(&session, Layout::kazoo());
    all_changes(&session, &lock, theirs).await;
    ensemble.down().await.unwrap();
}

/// The peer is a program that makes HBase's requests, not HBase.
#[tokio::test(flavor = "multi_thread")]
async fn hbases_read_write_recipe_and_ours_exclude_each_other() {
    let ensemble = one_server().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let [mut theirs, second] = two(&ensemble, Recipe::Hbase(&kazoo)).await;
    for (side, name) in [(READ, "read-master:16000"), (WRITE, "write-master:16000")] {
        theirs.acquire_kind(side, SOON).await.unwrap().unwrap();
        let (names, _) = session.list(PATH).await.unwrap();
        let number = names[0].strip_prefix(name).expect("the name of HBase");
        assert_eq!(number.len(), 10, "{names:?}");
        let (data, _) = session.get(format!("{PATH}/{}", names[0])).await.unwrap();
        assert_eq!(data[..5], [0xff, 0, 0, 0, 20]);
        assert_eq!(&data[5..17], b"master:16000");
        assert_eq!(&data[25..], b"PBUF");
        theirs.release_kind(side).await.unwrap();
    }
    let lock = ours(&session, Layout::hbase());
    all_changes(&session, &lock, [theirs, second]).await;
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeepers_own_lock_recipe_and_ours_exclude_each_other_in_order() {
    let ensemble = one_server().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let mut theirs = PeerContender::start(Recipe::ZooKeeper(&curator), &connect, PATH)
        .await
        .unwrap();
    let options = LockOptions::default().with_layout(Layout::zookeeper());
    let native = FairLock::with_options(&session, PATH, options).unwrap();
    // One with Curator's names waits as well, and is waited for.
    let other = FairLock::new(&session, PATH).unwrap();
    for lock in [native, other] {
        theirs.acquire(SOON).await.unwrap().expect("it is free");
        assert!(lock.try_acquire().await.unwrap().is_none());
        let waiter = lock.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        until_enlisted(&session, PATH, 2).await;
        theirs.release().await.unwrap();
        let guard = granted(waiting).await;
        let second = lock.clone();
        let server = ensemble.server(1).unwrap();
        let (acquired, released) = tokio::join!(theirs.acquire(SOON), async {
            until_enlisted(&session, PATH, 2).await;
            // The recipe waits for ever if its predecessor goes between its list and its watch.
            until("both sessions have a watch", SOON, async || {
                server.wchs().await.is_ok_and(|wchs| wchs.connections >= 2)
            })
            .await;
            let later = tokio::spawn(async move { second.acquire().await });
            until_enlisted(&session, PATH, 3).await;
            let released = monotonic();
            guard.release().await.unwrap();
            drop(tokio::time::timeout(SHORT, std::future::pending::<()>()).await);
            assert!(!later.is_finished(), "they came before");
            later.abort();
            released
        });
        let acquired = acquired.unwrap().expect("it is their turn");
        assert!(acquired > released, "we had it until then");
        theirs.release().await.unwrap();
        until_empty(&session, PATH).await;
    }
    theirs.quit().await.unwrap();
    ensemble.down().await.unwrap();
}
