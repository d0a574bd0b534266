//! Futures dropped at every await.

use std::time::Duration;

use zk_id::{Layout, Snowflakes, WorkerIds};
use zk_sim::Ensemble;

use crate::{PATH, Seen, TestClock, pass, polled, taken};

/// One worker, so that a node that a claim leaves blocks every other claim.
const ONE: Layout = Layout::new(41, 0, 8, Duration::from_secs(1_700_000_000));

/// What else happens at the moment of the drop.
#[derive(Debug, Clone, Copy)]
enum Besides {
    Nothing,
    Cut,
    MoveToLagging,
}

const BESIDES: [Besides; 3] = [Besides::Nothing, Besides::Cut, Besides::MoveToLagging];

impl Besides {
    fn happen(self, ensemble: &Ensemble, session: &zk_core::Session) {
        let link = ensemble.session(session.id());
        match self {
            Self::Nothing => {}
            Self::Cut => link.cut(),
            Self::MoveToLagging => {
                let next = link.server().unwrap_or(1) % 3 + 1;
                ensemble.server(next).lag_for(Duration::from_millis(300));
                link.move_to(next);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_claim_leaves_no_number_taken() {
    for besides in BESIDES {
        for polls in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let workers = WorkerIds::new(&session, PATH, 1).unwrap();
            let done = polled(polls, workers.claim()).await.is_some();
            besides.happen(&ensemble, &session);
            session.settled().await;
            pass(Duration::from_secs(2)).await;
            assert_eq!(taken(&ensemble), [""; 0], "{besides:?} after {polls} polls");
            let other = ensemble.connect().await;
            let others = WorkerIds::new(&other, PATH, 1).unwrap();
            others.claim().await.unwrap().release().await.unwrap();
            if done {
                assert!(polls > 5, "{polls}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_claim_or_release_leaves_and_repeats_nothing() {
    for besides in BESIDES {
        for polls in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let clock = TestClock::new();
            // The sessions of the last round end by themselves.
            pass(Duration::from_secs(60)).await;
            let tasks = || {
                tokio::runtime::Handle::current()
                    .metrics()
                    .num_alive_tasks()
            };
            let before = tasks();
            let snowflakes = |session: &zk_core::Session| {
                let snowflakes = Snowflakes::new(session, PATH, ONE).unwrap();
                let max_wait = Duration::from_secs(3600);
                snowflakes.with_clock(clock.clone()).with_max_wait(max_wait)
            };
            let mut seen = Seen::default();
            let what = format!("{besides:?} after {polls} polls");
            let claimed = polled(polls, snowflakes(&session).claim()).await.is_some();
            besides.happen(&ensemble, &session);
            session.settled().await;
            pass(Duration::from_secs(2)).await;
            assert_eq!(taken(&ensemble), [""; 0], "{what}");
            let ids = snowflakes(&session).claim().await.unwrap();
            seen.add(ids.next_many(1000).await.unwrap());
            let rest = ids.generator().clone();
            let released = polled(polls, ids.release()).await.is_some();
            seen.add(rest.try_next());
            besides.happen(&ensemble, &session);
            session.settled().await;
            pass(Duration::from_secs(2)).await;
            assert_eq!(taken(&ensemble), [""; 0], "{what}");
            let ids = snowflakes(&session).claim().await.unwrap();
            seen.add(rest.try_next());
            seen.add(ids.next_many(1000).await.unwrap());
            drop((ids, rest));
            session.settled().await;
            pass(Duration::from_secs(2)).await;
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            assert_eq!(tasks(), before, "{what}");
            if claimed && released {
                assert!(polls > 5, "{polls}");
                break;
            }
        }
    }
}
