//! Tests concurrent searches, and one that was killed.

use std::fs::File;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::fs::flock;
use zk_provision::FindError;
use zk_provision::Source;

use crate::http::Reply;
use crate::http::Server;
use crate::world::Heard;
use crate::world::World;
use crate::world::sha512;
use crate::world::tarball;
use crate::world::wait_for;

const WAITING: &str = "waiting for another process that is provisioning";

// covers: H2
#[test]
fn four_searches_at_once_download_once() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let start = Barrier::new(4);

    let found: Vec<_> = thread::scope(|scope| {
        let searches: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let search = world
                        .search()
                        .version("3.9")
                        .mirror(&server.url)
                        .pin("3.9.6", &sha512(&archive));
                    start.wait();
                    search.find().unwrap()
                })
            })
            .collect();
        searches
            .into_iter()
            .map(|search| search.join().unwrap())
            .collect()
    });

    assert_eq!(server.requests().len(), 1);
    assert_eq!(
        found
            .iter()
            .filter(|found| found.source == Source::Provisioned)
            .count(),
        1
    );
    assert_eq!(
        found
            .iter()
            .filter(|found| found.source == Source::Cached)
            .count(),
        3
    );
    assert!(found.iter().all(|one| one.classpath == found[0].classpath));
}

#[test]
fn waiting_for_another_process_is_reported_and_bounded() {
    let world = World::with_java();
    std::fs::create_dir_all(world.cache()).unwrap();
    let lock = File::create(world.cache().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
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
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    std::fs::create_dir_all(world.cache()).unwrap();
    let lock = File::create(world.cache().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let heard = Heard::default();
    let search = world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.6", &sha512(&archive))
        .progress(heard.listener());

    thread::scope(|scope| {
        let finding = scope.spawn(|| search.find());
        wait_for(
            "the search to wait for the lock",
            Duration::from_secs(10),
            || {
                let what = heard.what();
                if what.iter().any(|what| what == WAITING) {
                    Ok(())
                } else {
                    Err(format!("{what:?}"))
                }
            },
        );
        assert!(
            server.requests().is_empty(),
            "nothing is fetched while another process provisions"
        );
        flock(&lock, FlockOperation::Unlock).unwrap();
        assert_eq!(finding.join().unwrap().unwrap().source, Source::Provisioned);
    });
}

#[test]
fn cached_release_is_found_while_another_process_provisions() {
    let archive = tarball().bytes();
    let world = World::with_java();
    let served = archive.clone();
    let server = Server::start(move |_, request| Reply::range(&served, request.from));
    let search = world
        .search()
        .version("3.9")
        .mirror(&server.url)
        .pin("3.9.6", &sha512(&archive));
    search.find().unwrap();

    let lock = File::open(world.cache().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    assert_eq!(
        search.lock_timeout(Duration::ZERO).find().unwrap().source,
        Source::Cached
    );
}
