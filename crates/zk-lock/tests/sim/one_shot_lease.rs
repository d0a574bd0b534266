//! Leases that are taken for a time.

use std::time::{Duration, SystemTime};

use zk_core::{ErrorClass, Session};
use zk_lock::{FairLock, Layout, LockOptions, OneShotLease, OneShotLeaseOptions, TakeLeaseError};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Ensemble, matching};

use crate::ephemerals;
use crate::faults::STRIKES;

mod chaos;

const PATH: &str = "/leases/a";
const RECORD: &str = "/leases/a/lease_holder";
const MINUTE: Duration = Duration::from_secs(60);

fn options(holder: &str) -> OneShotLeaseOptions {
    OneShotLeaseOptions::new(holder, MINUTE)
}

async fn take(session: &Session, holder: &str) -> Option<OneShotLease> {
    let options = options(holder);
    let taking = OneShotLease::try_take(session, PATH, &options);
    soon("it is taken or not", taking).await.unwrap()
}

/// The data of the record on the leader.
fn record(ensemble: &Ensemble) -> Option<String> {
    let tree = ensemble.tree();
    let data = tree.node(RECORD)?.data().to_vec();
    Some(String::from_utf8(data).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_its_holders_until_its_end_and_then_anothers() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let lease = take(&one, "a").await.unwrap();
    assert!(lease.is_valid());
    assert_eq!((lease.path().as_str(), lease.holder()), (PATH, "a"));
    assert!(take(&two, "b").await.is_none());
    // It outlives the session.
    one.close().await.unwrap();
    pass(MINUTE / 2).await;
    assert!(lease.is_valid());
    assert!(take(&two, "b").await.is_none());
    soon("it ends", lease.ended()).await;
    assert!(!lease.is_valid());
    // The recorded end is in whole seconds.
    pass(Duration::from_secs(2)).await;
    let other = take(&two, "b").await.unwrap();
    assert!(other.is_valid() && other.end() > lease.end());
    soon("it settles", two.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_holder_renews_its_lease_by_taking_it_again() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = take(&one, "a").await.unwrap();
    pass(MINUTE / 2).await;
    let second = take(&two, "a").await.unwrap();
    assert!(second.end() > first.end());
    soon("the first one ends", first.ended()).await;
    pass(Duration::from_secs(2)).await;
    assert!(second.is_valid());
    assert!(take(&one, "b").await.is_none());
}

/// The first lease stays valid, so its record stays as well.
#[tokio::test(start_paused = true)]
async fn a_shorter_renewal_does_not_end_the_longer_lease() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let long = OneShotLeaseOptions::new("a", 70 * MINUTE);
    let taking = OneShotLease::try_take(&one, PATH, &long);
    let first = soon("it is taken", taking).await.unwrap().unwrap();
    let second = take(&one, "a").await.unwrap();
    assert_eq!(second.end(), first.end());
    pass(2 * MINUTE).await;
    assert!(first.is_valid() && !second.is_valid());
    assert!(take(&two, "b").await.is_none());
}

/// After an idle time, a lock needs a part of the session timeout, here more than the operation timeout.
#[tokio::test(start_paused = true)]
async fn an_idle_session_with_a_long_timeout_takes_a_lease() {
    let ensemble = Ensemble::new(3);
    let connecting = ensemble.connect();
    let session = connecting.timeout(Duration::from_secs(30)).await;
    pass(2 * MINUTE).await;
    assert!(take(&session, "a").await.is_some());
}

/// No moment at which two holders rely on it, at each phase of the second in which the end is recorded.
#[tokio::test(start_paused = true)]
async fn the_next_holder_does_not_overlap_with_the_last() {
    for millis in (0..1000).step_by(100) {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        pass(Duration::from_millis(millis)).await;
        let lease = take(&one, "a").await.unwrap();
        // The first lock after an idle time takes four seconds.
        pass(MINUTE * 9 / 10).await;
        let next = loop {
            if let Some(next) = take(&two, "b").await {
                break next;
            }
            pass(Duration::from_millis(5)).await;
        };
        assert!(!lease.is_valid(), "{millis}");
        assert!(next.is_valid(), "{millis}");
        let pause = next.valid_until() - lease.valid_until();
        assert!(pause < MINUTE + Duration::from_secs(2), "{pause:?}");
    }
}

/// The tolerance counts for the lease of another holder, not for its own.
#[tokio::test(start_paused = true)]
async fn a_clock_error_delays_the_next_holder() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let lease = take(&one, "a").await.unwrap();
    soon("it ends", lease.ended()).await;
    pass(Duration::from_secs(2)).await;
    let tolerant = options("b").with_clock_error(Duration::from_secs(10));
    let none = OneShotLease::try_take(&two, PATH, &tolerant).await.unwrap();
    assert!(none.is_none());
    pass(Duration::from_secs(10)).await;
    let next = OneShotLease::try_take(&two, PATH, &tolerant).await.unwrap();
    assert!(next.is_some());
}

#[tokio::test(start_paused = true)]
async fn at_most_as_many_holders_as_leases_have_one() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let mut paths = Vec::new();
    for holder in ["a", "b", "c", "a"] {
        let options = options(holder);
        let taken = OneShotLease::try_take_one_of(&session, PATH, 2, &options).await;
        paths.push(taken.unwrap().map(|lease| lease.path().to_string()));
    }
    let path = |number: u32| Some(format!("{PATH}/{number}"));
    assert_eq!(paths, [path(0), path(1), None, path(0)]);
}

#[tokio::test(start_paused = true)]
async fn records_of_other_kinds_are_left_alone() {
    for (data, is_error) in [(r#"{"version": 2}"#, false), ("mine", true)] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        session.create(RECORD, data).parents().await.unwrap();
        let taken = OneShotLease::try_take(&session, PATH, &options("a")).await;
        match taken {
            Ok(taken) => assert!(taken.is_none() && !is_error, "{data}"),
            Err(error) => {
                assert!(matches!(error, TakeLeaseError::Malformed { .. }));
                assert!(is_error && !error.is_outcome_unknown(), "{data}");
            }
        }
        assert_eq!(record(&ensemble).unwrap(), data);
    }
    let session = Ensemble::new(1).connect().await;
    let forever = OneShotLeaseOptions::new("a", Duration::MAX);
    let error = OneShotLease::try_take(&session, PATH, &forever).await;
    assert!(matches!(error, Err(TakeLeaseError::TooLong)), "{error:?}");
}

/// Each fault of each request: the lease is taken once, and the caller is certain of it.
#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_whichever_reply_is_lost() {
    for (what, strike) in STRIKES {
        for nth in 1.. {
            let what = format!("{what}, request {nth}");
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let of_lease = |request: &zk_core::transport::Request| {
                let paths = matching::paths(request);
                paths.iter().any(|path| path.as_str().starts_with(PATH))
            };
            let script = ensemble.on(of_lease).session(session.id()).nth(nth);
            let struck = strike(script);
            let first = take(&session, "a").await.expect(&what);
            assert!(first.is_valid(), "{what}");
            pass(Duration::from_secs(3)).await;
            let second = take(&session, "a").await.expect(&what);
            assert!(second.end() > first.end(), "{what}");
            let other = ensemble.connect().await;
            assert!(take(&other, "b").await.is_none(), "{what}");
            soon(&what, session.settled()).await;
            let before = record(&ensemble);
            struck.release();
            pass(Duration::from_secs(1)).await;
            assert_eq!(record(&ensemble), before, "{what}");
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 6, "{what}: too few requests");
                break;
            }
            assert!(nth < 60, "{what}: the requests do not end");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_take_leaves_a_whole_lease_or_none() {
    for polls in 0.. {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = options("a");
        let taking = OneShotLease::try_take(&session, PATH, &options);
        let done = soon("it is dropped", polled(polls, taking)).await;
        soon("it settles", session.settled()).await;
        pass(Duration::from_secs(3)).await;
        assert_eq!(ephemerals(&ensemble), [""; 0], "{polls}");
        let again = take(&session, "a").await;
        assert!(again.is_some(), "{polls}");
        if done.is_some() {
            assert!(polls > 3);
            break;
        }
    }
}

/// Another client deletes the node of the lock, as when the session ended: the record is not written.
#[tokio::test(start_paused = true)]
async fn a_contender_that_lost_the_lock_writes_no_record() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let held = ensemble.on(matching::gets(RECORD)).session(one.id()).hold();
    let taking = {
        let one = one.clone();
        tokio::spawn(async move { OneShotLease::try_take(&one, PATH, &options("a")).await })
    };
    pass(Duration::from_secs(1)).await;
    assert_eq!(held.count(), 1);
    for path in ephemerals(&ensemble) {
        two.delete(path).await.unwrap();
    }
    held.release();
    let error = soon("it fails", taking).await.unwrap().unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Recoverable, "{error:?}");
    assert!(matches!(error, TakeLeaseError::Lock(_)), "{error:?}");
    assert_eq!(record(&ensemble), None);
    assert!(take(&one, "a").await.is_some());
}

/// Before the record is written, nothing is; afterwards it is unknown, and the lease lasts as long as asked for.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_leaves_a_whole_lease_or_none() {
    for is_written in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let script = if is_written {
            ensemble.on(matching::transactions(RECORD))
        } else {
            ensemble.on(matching::gets(RECORD))
        };
        let lost = script.session(one.id()).lose_reply();
        let taking = {
            let one = one.clone();
            tokio::spawn(async move { OneShotLease::try_take(&one, PATH, &options("a")).await })
        };
        soon("the reply is lost", lost.happened()).await;
        ensemble.expire(one.id());
        let error = soon("it fails", taking).await.unwrap().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Fatal, "{error:?}");
        assert_eq!(error.is_outcome_unknown(), is_written, "{error:?}");
        assert_eq!(record(&ensemble).is_some(), is_written);
        assert_eq!(take(&two, "b").await.is_none(), is_written);
        let renewed = take(&two, "a").await;
        assert_eq!(renewed.is_some(), is_written);
    }
}

/// Others wait for a process that is cut off, or stopped, until its session has expired.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_cut_off_gives_way_when_its_session_expires() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let lost = ensemble.on(matching::gets(RECORD)).session(one.id());
    let lost = lost.lose_request();
    let taking = {
        let one = one.clone();
        tokio::spawn(async move { OneShotLease::try_take(&one, PATH, &options("a")).await })
    };
    soon("it has the lock", lost.happened()).await;
    ensemble.session(one.id()).partition();
    assert!(take(&two, "b").await.is_some());
    assert!(!ensemble.session(one.id()).is_alive());
    ensemble.session(one.id()).heal();
    let error = soon("it fails", taking).await.unwrap().unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error:?}");
    assert!(record(&ensemble).unwrap().contains(r#""holder": "b""#));
}

/// The server shows the record from before the holder renewed its lease.
#[tokio::test(start_paused = true)]
async fn a_lagging_server_does_not_give_away_a_renewed_lease() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().server(1).await;
    let two = ensemble.connect().server(2).await;
    let first = take(&one, "a").await.unwrap();
    soon("it ends", first.ended()).await;
    pass(Duration::from_secs(2)).await;
    ensemble.server(2).lag_for(Duration::from_secs(3));
    let renewed = take(&one, "a").await.unwrap();
    let shown = ensemble.server(2).tree();
    let shown = shown.node(RECORD).unwrap().data().to_vec();
    assert_ne!(String::from_utf8(shown).ok(), record(&ensemble));
    assert!(take(&two, "b").await.is_none());
    assert!(renewed.is_valid());
}

/// A kazoo client that has lost the lock writes all the same.
#[tokio::test(start_paused = true)]
async fn a_record_that_changed_meanwhile_is_read_again() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    two.create(PATH, "").parents().await.unwrap();
    let held = ensemble.on(matching::gets(RECORD)).session(one.id()).hold();
    let taking = {
        let one = one.clone();
        tokio::spawn(async move { OneShotLease::try_take(&one, PATH, &options("a")).await })
    };
    pass(Duration::from_secs(1)).await;
    assert_eq!(held.count(), 1);
    let theirs = r#"{"version": 1, "holder": "b", "end": "9999-01-01T00:00:00"}"#;
    two.create(RECORD, theirs).await.unwrap();
    held.release();
    assert_eq!(soon("it ends", taking).await.unwrap().unwrap(), None);
    assert_eq!(record(&ensemble).unwrap(), theirs);
}

/// It waits for the clients that read the record, and not longer than the operation timeout and half of the session
/// timeout.
#[tokio::test(start_paused = true)]
async fn a_take_does_not_wait_for_ever_for_the_record() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let kazoo = LockOptions::default().with_layout(Layout::kazoo());
    let lock = FairLock::with_options(&two, PATH, kazoo).unwrap();
    let guard = lock.acquire().await.unwrap();
    let options = options("a");
    let taking = OneShotLease::try_take(&one, PATH, &options);
    let error = soon("it gives up", taking).await;
    assert!(matches!(error, Err(TakeLeaseError::Lock(_))), "{error:?}");
    guard.release().await.unwrap();
    assert!(take(&one, "a").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_nodes_are_those_of_kazoo() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lease = take(&session, "host-7").await.unwrap();
    let text = record(&ensemble).unwrap();
    let end = text
        .strip_prefix(r#"{"version": 1, "holder": "host-7", "end": ""#)
        .and_then(|rest| rest.strip_suffix(r#""}"#));
    assert_eq!(end.unwrap().len(), "2026-11-26T05:44:00".len(), "{text}");
    assert!(lease.end() > SystemTime::UNIX_EPOCH);
    soon("it settles", session.settled()).await;
    let tree = ensemble.tree();
    let children: Vec<_> = tree.node(PATH).unwrap().children().collect();
    assert_eq!(children, ["lease_holder"]);
}
