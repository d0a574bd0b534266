//! Who waits for whom between kazoo's locks and ours, for each kind and each way to set kazoo up.

use std::fmt;
use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::{FairLock, Layout, LockOptions, RwLock};
use zk_tests::peers::{Kazoo, PeerContender, Recipe, monotonic};

use super::{SOON, observer, three_servers, until, until_empty, until_enlisted};

const PATH: &str = "/lock";
/// How long one waits that is to be kept waiting.
const SHORT: Duration = Duration::from_millis(300);

/// Whether the second one waits for the first one, which holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waits {
    kazoo_for_ours: bool,
    ours_for_kazoo: bool,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.kazoo_for_ours, self.ours_for_kazoo) {
            (true, true) => "both wait",
            (true, false) => "kazoo waits",
            (false, true) => "ours waits",
            (false, false) => "none waits",
        })
    }
}

const BOTH: Waits = Waits {
    kazoo_for_ours: true,
    ours_for_kazoo: true,
};
const OURS: Waits = Waits {
    kazoo_for_ours: false,
    ours_for_kazoo: true,
};
const NONE: Waits = Waits {
    kazoo_for_ours: false,
    ours_for_kazoo: false,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    Mutex,
    Writer,
    Reader,
}

const KINDS: [Ours; 3] = [Ours::Mutex, Ours::Writer, Ours::Reader];

/// The table that `Layout` documents: how kazoo is set up, and what holds of our mutex, our writer and our reader.
const CURATOR_LAYOUT: [(&str, [Waits; 3]); 6] = [
    ("", [OURS, OURS, OURS]),
    ("curator", [BOTH, OURS, OURS]),
    ("named", [OURS, OURS, OURS]),
    ("extra", [BOTH, OURS, OURS]),
    ("write", [OURS, OURS, OURS]),
    ("read", [OURS, OURS, NONE]),
];
const KAZOO_LAYOUT: [(&str, [Waits; 3]); 6] = [
    ("", [BOTH, BOTH, OURS]),
    ("curator", [OURS, OURS, OURS]),
    ("named", [BOTH, BOTH, OURS]),
    ("extra", [BOTH, BOTH, OURS]),
    ("write", [BOTH, BOTH, BOTH]),
    ("read", [BOTH, BOTH, NONE]),
];

/// A lock of ours that is held, until this is dropped, or the news that it was not granted.
async fn ours(session: &Session, layout: Layout, kind: Ours, within: Duration) -> Option<Held> {
    let options = LockOptions::default().with_layout(layout);
    let rw = || RwLock::with_options(session, PATH, options.clone()).unwrap();
    let acquired = match kind {
        Ours::Mutex => {
            let lock = FairLock::with_options(session, PATH, options).unwrap();
            lock.acquire_timeout(within).await.map(Held::Mutex)
        }
        Ours::Writer => rw()
            .writer()
            .acquire_timeout(within)
            .await
            .map(Held::Writer),
        Ours::Reader => rw()
            .reader()
            .acquire_timeout(within)
            .await
            .map(Held::Reader),
    };
    match acquired {
        Ok(held) => Some(held),
        Err(zk_lock::AcquireError::TimedOut(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

enum Held {
    Mutex(zk_lock::Guard),
    Writer(zk_lock::WriteGuard),
    Reader(zk_lock::ReadGuard),
}

impl Held {
    async fn release(self) {
        let released = match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
            Self::Reader(guard) => guard.release().await,
        };
        released.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_ours_wait_for_each_other_as_the_layouts_say() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .start()
        .await
        .expect("a server starts");
    let kazoo = Kazoo::find().await.unwrap();
    let mut peer = PeerContender::start(Recipe::Kazoo(&kazoo), &ensemble.connect_string(), PATH)
        .await
        .unwrap();
    let session = Session::builder(ensemble.connect_string())
        .connect()
        .await
        .expect("the server grants a session");
    // Not a container, as ours with Curator's layout creates, which the server may reap between two requests of kazoo.
    session.create(PATH, "").await.unwrap();
    for (name, layout, table) in [
        ("curator", Layout::curator(), CURATOR_LAYOUT),
        ("kazoo", Layout::kazoo(), KAZOO_LAYOUT),
    ] {
        for (kazoos, expected) in table {
            let mut found = Vec::new();
            for (kind, waits) in KINDS.into_iter().zip(expected) {
                // One that is not to wait has all the time it needs.
                let within = |waits| if waits { SHORT } else { SOON };
                let held = ours(&session, layout, kind, SOON)
                    .await
                    .expect("it is free");
                let theirs = peer.acquire_kind(kazoos, within(waits.kazoo_for_ours));
                let theirs = theirs.await.unwrap();
                if theirs.is_some() {
                    peer.release_kind(kazoos).await.unwrap();
                }
                held.release().await;
                let after = peer.acquire_kind(kazoos, SOON).await.unwrap();
                after.expect("it is free");
                let second = ours(&session, layout, kind, within(waits.ours_for_kazoo)).await;
                peer.release_kind(kazoos).await.unwrap();
                found.push(Waits {
                    kazoo_for_ours: theirs.is_none(),
                    ours_for_kazoo: second.is_none(),
                });
                if let Some(second) = second {
                    second.release().await;
                }
            }
            assert_eq!(found, expected, "layout {name}, kazoo {kazoos:?}");
        }
    }
    peer.quit().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_kazoo_locks_and_ours_with_its_names_wait_in_turn() {
    let ensemble = three_servers().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let mut theirs = PeerContender::start(Recipe::Kazoo(&kazoo), &connect, PATH)
        .await
        .unwrap();
    let options = LockOptions::default().with_layout(Layout::kazoo());
    let lock = FairLock::with_options(&session, PATH, options).unwrap();
    // Ours is the first, and creates the path.
    lock.acquire().await.unwrap().release().await.unwrap();

    theirs.acquire(SOON).await.unwrap().expect("it is free");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_enlisted(&session, PATH, 2).await;
    let left = theirs.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting).await;
    let guard = guard.expect("we are next").unwrap().unwrap();
    assert!(monotonic() > left);

    let short = Duration::from_millis(500);
    assert_eq!(theirs.acquire(short).await.unwrap(), None, "we have it");
    let (acquired, released) = tokio::join!(theirs.acquire(SOON), async {
        until_enlisted(&session, PATH, 2).await;
        let released = monotonic();
        guard.release().await.unwrap();
        released
    });
    let acquired = acquired.unwrap().expect("we gave it back");
    assert!(acquired > released, "we had it until then");
    theirs.release().await.unwrap();

    // With Curator's names we wait for them, and they do not wait for us.
    let curators = FairLock::new(&session, PATH).unwrap();
    theirs.acquire(SOON).await.unwrap().expect("it is free");
    assert!(curators.try_acquire().await.unwrap().is_none());
    theirs.release().await.unwrap();
    let guard = curators.acquire().await.unwrap();
    let both = theirs.acquire(SOON).await.unwrap();
    both.expect("stock kazoo passes over Curator's names");
    theirs.release().await.unwrap();
    guard.release().await.unwrap();
    // kazoo created the path once, so it stays when it is empty.
    until_empty(&session, PATH).await;
    for _ in 0..2 {
        session
            .create("/c/child", "")
            .container_parents()
            .await
            .unwrap();
        session.delete("/c/child").await.unwrap();
        until("the servers reap a container", SOON, async || {
            session.exists("/c").await.unwrap().is_none()
        })
        .await;
    }
    theirs.acquire(SOON).await.unwrap().expect("it is free");
    theirs.release().await.unwrap();
    theirs.quit().await.unwrap();
    until_empty(&session, PATH).await;
    ensemble.down().await.unwrap();
}
