//! Ids with no failures, or common ones.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use zk_core::ErrorClass;
use zk_id::{BlockIds, Id, Layout, SequenceIds, Snowflakes, WorkerIds, WorkerLoss, ZxidIds};

use crate::{LONG, connect, soon, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_id_is_unique_and_leaves_only_its_marks() {
    with_servers(3, async |ensemble| {
        let sessions = [connect(ensemble).await, connect(ensemble).await];
        let layout = Layout::MANY_WORKERS;
        let mut snowflakes: BTreeSet<Id> = BTreeSet::new();
        let mut blocks = BTreeSet::new();
        let mut tickets = BTreeSet::new();
        for session in sessions.iter().cycle().take(6) {
            // Its server knows then what the other session has released.
            session.sync("/").with_quorum().await.unwrap();
            let ids = Snowflakes::new(session, "/ids/flakes", layout).unwrap();
            let ids = ids.with_preferred(7).claim().await.unwrap();
            assert_eq!(ids.worker(), 7);
            snowflakes.extend(ids.next_many(3000).await.unwrap());
            ids.release().await.unwrap();
            let ids = BlockIds::new(session, "/ids/blocks", NonZeroU32::new(100).unwrap());
            blocks.extend(ids.unwrap().next_many(250).await.unwrap());
            let ids = SequenceIds::new(session, "/ids/tickets").unwrap();
            for _ in 0..20 {
                assert!(tickets.last() < Some(&ids.next().await.unwrap()));
                tickets.insert(ids.next().await.unwrap());
            }
        }
        assert_eq!(
            (snowflakes.len(), blocks.len(), tickets.len()),
            (18_000, 1500, 120)
        );
        assert!(snowflakes.iter().all(|id| layout.parts(*id).worker == 7));
        for session in &sessions {
            session.settled().await;
        }
        sessions[0].sync("/ids").with_quorum().await.unwrap();
        let list = async |path: &str| sessions[0].list(path).await.unwrap().0;
        assert_eq!(list("/ids/flakes").await, ["mark-00007"]);
        assert_eq!(list("/ids/tickets").await, [""; 0]);
        assert_eq!(list("/ids/blocks").await, [""; 0]);
    })
    .await;
}

/// The leader numbers transactions: the next one continues, even after the old one was killed.
#[tokio::test(flavor = "multi_thread")]
async fn zxids_rise_over_sessions_and_leaders() {
    with_servers(3, async |ensemble| {
        let sessions = [connect(ensemble).await, connect(ensemble).await];
        let ids = sessions
            .each_ref()
            .map(|session| ZxidIds::new(session, "/ids/revisions").unwrap());
        let mut last = 0;
        for round in 0..2 {
            for turn in 0..40 {
                let taking = async {
                    loop {
                        match ids[turn % 2].next().await {
                            Ok(id) => break id,
                            Err(error) if error.class() == ErrorClass::Recoverable => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                };
                let id = soon("there is a number", taking).await;
                assert!(id > last, "{id:#x} after {last:#x}");
                last = id;
            }
            if round == 0 {
                let epoch = last >> 32;
                let leader = ensemble.wait_leader(LONG).await.unwrap();
                leader.kill().await.unwrap();
                last = soon("there is a number", async {
                    loop {
                        if let Ok(id) = ids[0].next().await {
                            break id;
                        }
                    }
                })
                .await;
                assert!(last >> 32 > epoch, "{last:#x} in epoch {epoch:#x}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_ten_years_ahead_costs_no_worker_number() {
    with_servers(1, async |ensemble| {
        const TWO: Layout = Layout::new(41, 1, 12, Duration::from_secs(1_700_000_000));
        let ahead = Duration::from_secs(10 * 365 * 24 * 3600);
        for _ in 0..20 {
            let session = connect(ensemble).await;
            let ids = Snowflakes::new(&session, "/ids", TWO).unwrap();
            let ids = ids.with_clock(move || SystemTime::now() + ahead);
            let error = ids.claim().await.expect_err("the number would be lost");
            let error = error.to_string();
            assert!(error.contains("ahead of the servers' clock"), "{error}");
            session.close().await.unwrap();
        }
        let session = connect(ensemble).await;
        assert_eq!(session.list("/ids").await.unwrap().0, [""; 0]);
        let ids = Snowflakes::new(&session, "/ids", TWO).unwrap();
        let both = [ids.claim().await.unwrap(), ids.claim().await.unwrap()];
        for ids in both {
            ids.next().await.unwrap();
            ids.release().await.unwrap();
        }
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_that_start_at_once_all_get_a_block() {
    with_servers(1, async |ensemble| {
        let mut all = Vec::new();
        for _ in 0..40 {
            let session = connect(ensemble).await;
            let ids = BlockIds::new(&session, "/blocks", NonZeroU32::new(10).unwrap());
            all.push(ids.unwrap());
        }
        let mut takers = tokio::task::JoinSet::new();
        for ids in all {
            takers.spawn(async move { ids.next().await.map_err(|error| error.to_string()) });
        }
        let taken = soon("all have an answer", takers.join_all()).await;
        let refused: Vec<_> = taken.iter().filter_map(|it| it.as_ref().err()).collect();
        assert_eq!(refused.len(), 0, "{refused:?}");
        let distinct: BTreeSet<i64> = taken.into_iter().map(Result::unwrap).collect();
        assert_eq!(distinct.len(), 40);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_generator_stops_and_its_successor_repeats_no_id() {
    with_servers(1, async |ensemble| {
        const ONE: Layout = Layout::new(41, 0, 12, Duration::from_secs(1_700_000_000));
        let mut seen = BTreeSet::new();
        let mut reserved = SystemTime::UNIX_EPOCH;
        for _ in 0..3 {
            let session = connect(ensemble).await;
            let snowflakes = Snowflakes::new(&session, "/ids", ONE).unwrap();
            // The next holder waits for the end of the reserved time.
            let snowflakes = snowflakes.with_reserve(Duration::from_secs(4));
            let ids = soon("the number is free", async {
                loop {
                    match snowflakes.claim().await {
                        Ok(ids) => return ids,
                        Err(error) => {
                            assert!(error.class() == ErrorClass::Recoverable, "{error}");
                        }
                    }
                }
            });
            let ids = ids.await;
            for id in ids.next_many(20_000).await.unwrap() {
                assert!(seen.insert(id), "{id} was given out twice");
                // The last holder had reserved the time before.
                let time = ONE.parts(id).time;
                assert!(time >= reserved, "{time:?} is before {reserved:?}");
            }
            let (mark, _) = session.get("/ids/mark-00000").await.unwrap();
            let mark = std::str::from_utf8(&mark).unwrap();
            let millis = mark.split_once(' ').unwrap().0.parse().unwrap();
            reserved = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            ensemble.expire(session.id().as_i64()).await.unwrap();
            assert_eq!(
                soon("the loss is reported", ids.lost()).await,
                WorkerLoss::SessionLost
            );
            assert!(ids.try_next().is_err());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_number_is_reported_and_claimed_again() {
    with_servers(1, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let workers = WorkerIds::new(&one, "/workers", 1).unwrap();
        let others = WorkerIds::new(&other, "/workers", 1).unwrap();
        let worker = workers.with_description("one").claim().await.unwrap();
        assert_eq!(others.holders().await.unwrap(), [(0, "one".to_owned())]);
        let lost = async { soon("the loss is reported", worker.lost()).await };
        let (loss, closed) = tokio::join!(lost, one.close());
        closed.unwrap();
        assert_eq!(loss, WorkerLoss::SessionLost);
        let limit = Duration::from_secs(30);
        let next = others.claim_timeout(limit).await.unwrap();
        assert_eq!(next.number(), 0);
        next.release().await.unwrap();
    })
    .await;
}
