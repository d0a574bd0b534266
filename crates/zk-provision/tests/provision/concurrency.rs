//! Tests searches that run at the same time.

use std::fs::{self, File};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use zk_provision::{FindError, Source};

use crate::world::{Heard, Mirror, World, wait_for};

const WAITING: &str = "waiting for another process that is provisioning";

/// Locks the cache as another process would.
fn lock(world: &World) -> File {
    fs::create_dir_all(world.cache()).unwrap();
    let lock = File::create(world.cache().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

#[test]
fn four_searches_at_once_download_once() {
    let mirror = Mirror::new();
    let start = Barrier::new(4);
    let find = || {
        start.wait();
        mirror.search().find().unwrap()
    };
    let found: Vec<_> = thread::scope(|scope| {
        let searches = [0; 4].map(|_| scope.spawn(find));
        searches.map(|search| search.join().unwrap()).into()
    });

    assert_eq!(mirror.server.requests().len(), 1);
    let from = |source| found.iter().filter(|found| found.source == source).count();
    assert_eq!((from(Source::Provisioned), from(Source::Cached)), (1, 3));
    assert!(found.iter().all(|one| one.classpath == found[0].classpath));
}

#[test]
fn waiting_for_another_process_is_reported_and_bounded() {
    let world = World::with_java();
    let _lock = lock(&world);
    let heard = Heard::default();
    let search = world
        .search()
        .lock_timeout(Duration::from_millis(120))
        .progress(heard.listener());

    let error = search.find().unwrap_err();
    assert!(matches!(error, FindError::Busy { .. }), "{error}");
    insta::assert_snapshot!(world.anonymous(&error), @"waited 120ms for another process that is provisioning and holds $W/home/.cache/zk-harness/lock; end that process, or wait longer with Search::lock_timeout");
    assert_eq!(heard.what(), [WAITING]);
}

#[test]
fn search_goes_on_when_the_other_process_is_done() {
    let mirror = Mirror::new();
    let lock = lock(&mirror.world);
    let heard = Heard::default();
    let search = mirror.search().progress(heard.listener());

    thread::scope(|scope| {
        let finding = scope.spawn(|| search.find());
        let limit = Duration::from_secs(10);
        wait_for("the search to wait for the lock", limit, || {
            let what = heard.what();
            let waits = what.iter().any(|what| what == WAITING);
            waits.then_some(()).ok_or_else(|| format!("{what:?}"))
        });
        assert!(
            mirror.server.requests().is_empty(),
            "nothing is fetched while another process provisions"
        );
        flock(&lock, FlockOperation::Unlock).unwrap();
        assert_eq!(finding.join().unwrap().unwrap().source, Source::Provisioned);
    });
}

#[test]
fn cached_release_is_found_while_another_process_provisions() {
    let mirror = Mirror::new();
    mirror.search().find().unwrap();
    let _lock = lock(&mirror.world);
    let found = mirror.search().lock_timeout(Duration::ZERO).find().unwrap();
    assert_eq!(found.source, Source::Cached);
}
