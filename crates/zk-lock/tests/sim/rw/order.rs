//! The order of readers and writers.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{AcquireError, Layout, LockOptions, RwLock, RwLockError, TimedOut};
use zk_sim::Ensemble;

use super::{granted, reader, reads, rw, sessions, writer, writes};
use crate::{PATH, left, lock, pass, soon};

#[tokio::test(start_paused = true)]
async fn readers_share_and_a_writer_waits_for_all_of_them() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let (one, other) = (reads(&a).await, reads(&b).await);
    assert!(one.is_valid() && other.is_valid());
    let waiting = writer(&c).await;
    one.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    let token = other.fencing_token();
    other.release().await.unwrap();
    let guard = granted(waiting).await;
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

/// Kazoo's reader waited for writers that had come later, and they for it.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_only_for_writers_ahead() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let first = writes(&a).await;
    let (between, last) = (reader(&b).await, writer(&c).await);
    assert!(!between.is_finished() && !last.is_finished());
    first.release().await.unwrap();
    let between = granted(between).await;
    pass(Duration::from_secs(1)).await;
    assert!(!last.is_finished());
    between.release().await.unwrap();
    granted(last).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_does_not_overtake_a_writer_that_waits() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let first = reads(&a).await;
    let between = writer(&b).await;
    assert!(rw(&c).reader().try_acquire().await.unwrap().is_none());
    let last = reader(&c).await;
    assert!(!last.is_finished());
    first.release().await.unwrap();
    let between = granted(between).await;
    pass(Duration::from_secs(1)).await;
    assert!(!last.is_finished());
    between.release().await.unwrap();
    granted(last).await.release().await.unwrap();
}

/// A waiter that gives up does not release a contender that waits for others, too.
#[tokio::test(start_paused = true)]
async fn readers_join_those_ahead_when_the_writer_gives_up() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    for holder_writes in [false, true] {
        let (reading, writing) = if holder_writes {
            (None, Some(writes(&a).await))
        } else {
            (Some(reads(&a).await), None)
        };
        let between = writer(&b).await;
        let last = reader(&c).await;
        between.abort();
        pass(Duration::from_secs(1)).await;
        assert_eq!(last.is_finished(), !holder_writes);
        drop((reading, writing));
        granted(last).await.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_takes_what_is_free_and_leaves_nothing_otherwise() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let reading = rw(&a).reader().try_acquire().await.unwrap().expect("free");
    assert!(rw(&b).writer().try_acquire().await.unwrap().is_none());
    let second = rw(&b)
        .reader()
        .try_acquire()
        .await
        .unwrap()
        .expect("shared");
    assert_eq!(left(&ensemble).len(), 2);
    second.release().await.unwrap();
    reading.release().await.unwrap();
    let writing = rw(&a).writer().try_acquire().await.unwrap().expect("free");
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());
    assert!(rw(&b).writer().try_acquire().await.unwrap().is_none());
    assert_eq!(left(&ensemble), [writing.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_mutex_on_the_path_is_one_of_the_writers() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let held = lock(&a).acquire().await.unwrap();
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    let reading = reads(&b).await;
    assert!(lock(&a).try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    assert!(lock(&a).try_acquire().await.unwrap().is_some());
}

fn timed_out<T: std::fmt::Debug>(acquired: Result<T, AcquireError>) -> TimedOut {
    match acquired {
        Err(AcquireError::TimedOut(timed_out)) => timed_out,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_says_who_was_ahead_and_whether_it_held() {
    const LIMIT: Duration = Duration::from_millis(200);
    let ensemble = Ensemble::new(3);
    let [a, b, c, d] = sessions(&ensemble).await;
    let held = writes(&a).await;
    let told = timed_out(rw(&c).reader().acquire_timeout(LIMIT).await);
    let ahead = told.ahead().expect("the ensemble has answered");
    assert_eq!(ahead.count(), 1);
    assert_eq!(ahead.predecessor().unwrap().session(), Some(a.id()));
    assert!(told.to_string().contains(": held by _c_"), "{told}");
    held.release().await.unwrap();

    let (one, other) = (reads(&a).await, reads(&d).await);
    let told = timed_out(rw(&c).writer().acquire_timeout(LIMIT).await);
    let ahead = told.ahead().expect("the ensemble has answered");
    assert_eq!(ahead.count(), 2);
    assert_eq!(ahead.predecessor().unwrap().session(), Some(d.id()));
    other.release().await.unwrap();

    // A waiting writer is not the holder.
    let waiting = writer(&b).await;
    let told = timed_out(rw(&c).reader().acquire_timeout(LIMIT).await);
    let ahead = told.ahead().expect("the ensemble has answered");
    assert_eq!(ahead.count(), 1);
    assert_eq!(ahead.predecessor().unwrap().session(), Some(b.id()));
    let text = told.to_string();
    assert!(
        text.contains(": behind _c_") && text.ends_with("which waits for readers"),
        "{text}"
    );
    one.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unused_lock_has_no_contenders() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    assert!(rw(&a).inspector().contenders().await.unwrap().is_empty());
    let held = writes(&a).await;
    let (second, third) = (reader(&b).await, writer(&c).await);
    let all = rw(&a).inspector().contenders().await.unwrap();
    let sessions: Vec<_> = all.iter().map(|one| one.session().unwrap()).collect();
    assert_eq!(sessions, [a.id(), b.id(), c.id()]);
    held.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    granted(third).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_layout_without_readers_is_refused_with_a_reason() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for layout in [Layout::zookeeper(), Layout::curator_latch()] {
        let options = LockOptions::default().with_layout(layout);
        let error = RwLock::with_options(&session, PATH, options).unwrap_err();
        assert_eq!(error, RwLockError::NoReaders { layout });
        assert!(
            error.to_string().contains("no names for readers"),
            "{error}"
        );
    }
    assert!(matches!(
        RwLock::new(&session, "a").unwrap_err(),
        RwLockError::Path(_)
    ));
}

fn with_layout(session: &Session, layout: Layout) -> RwLock {
    let options = LockOptions::default().with_layout(layout);
    RwLock::with_options(session, PATH, options).expect("it has readers")
}

/// The names that other clients see, also of a downgraded writer.
#[tokio::test(start_paused = true)]
async fn nodes_are_named_as_the_layout_says() {
    for (layout, reader, writer) in [
        (Layout::curator(), "_c_@-__READ__#", "_c_@-__WRIT__#"),
        (Layout::kazoo(), "_c_@-__rlock__#", "_c_@-__lock__#"),
        (Layout::hbase(), "read-@_#", "write-@_#"),
    ] {
        let ensemble = Ensemble::new(3);
        let [a, b] = sessions(&ensemble).await;
        let (ours, theirs) = (with_layout(&a, layout), with_layout(&b, layout));
        let reading = ours.reader().acquire().await.unwrap();
        assert_eq!(shape(reading.path().name().unwrap()), reader);
        reading.release().await.unwrap();
        let writing = ours.writer().acquire().await.unwrap();
        let first = writing.path().name().unwrap().to_owned();
        assert_eq!(shape(&first), writer);
        let reading = writing.downgrade().await.unwrap();
        let second = reading.path().name().unwrap();
        assert_eq!(shape(second), reader);
        assert_eq!(number(&first), number(second));
        assert_eq!(left(&ensemble), [second]);
        let shared = theirs.reader().try_acquire().await.unwrap();
        assert!(shared.is_some() && theirs.writer().try_acquire().await.unwrap().is_none());
    }
}

fn number(name: &str) -> &str {
    &name[name.len() - 10..]
}

/// The name with `@` for its unique part and `#` for its number.
fn shape(name: &str) -> String {
    let stem = &name[..name.len() - 10];
    let is_of_an_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut ids = stem.split('_').filter_map(|part| {
        let bare = part
            .strip_prefix("read-")
            .or_else(|| part.strip_prefix("write-"));
        let bare = bare.unwrap_or(part);
        (bare.len() >= 32 && bare.chars().all(is_of_an_id)).then_some(bare)
    });
    let id = ids.next().unwrap_or_else(|| panic!("{name} has no id"));
    stem.replace(id.trim_end_matches('-'), "@") + "#"
}

/// The parent is deleted whenever it has no contender.
#[tokio::test(start_paused = true)]
async fn a_parent_that_is_reaped_all_the_time_is_created_again() {
    let often = Duration::from_millis(3);
    let ensemble = Ensemble::builder().reap_every(often).build();
    let [a, b] = sessions(&ensemble).await;
    for _ in 0..200 {
        let writing = writes(&a).await;
        let reading = writing.downgrade().await.unwrap();
        reads(&b).await.release().await.unwrap();
        soon("there is no other contender", reading.upgrade())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        pass(Duration::from_millis(5)).await;
        assert!(left(&ensemble).is_empty());
    }
}

/// Foreign children.
#[tokio::test(start_paused = true)]
async fn foreign_children_are_ignored() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    a.create(PATH, "").parents().await.unwrap();
    for name in [
        "0",
        "__READ__",
        "x__WRIT__1",
        "__WRIT__-",
        "_c_",
        "lease-0000000000",
    ] {
        a.create(format!("{PATH}/{name}"), "").await.unwrap();
    }
    let writing = writes(&a).await;
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());
    let reading = writing.downgrade().await.unwrap();
    reading.upgrade().await.unwrap().release().await.unwrap();
    assert_eq!(rw(&a).inspector().contenders().await.unwrap(), []);
}
