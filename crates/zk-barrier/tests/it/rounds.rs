//! Rounds of a double barrier on real servers, with connections that are cut.

use std::num::NonZeroU32;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use zk_barrier::{DoubleBarrier, Layout};
use zk_core::Session;
use zk_fault_proxy::{Clients, Close, FaultProxy};
use zk_harness::Ensemble;

use crate::{connect, soon, with_servers};

/// Lets all clients enter and leave so many rounds, and returns the numbers of the rounds of each.
async fn rounds(sessions: &[Session], rounds: usize, layout: Layout) -> Vec<Vec<Option<i64>>> {
    let all = u32::try_from(sessions.len()).expect("not that many");
    let all = NonZeroU32::new(all).expect("there are some");
    let mut clients = JoinSet::new();
    for session in sessions {
        let barrier = DoubleBarrier::new(session, "/app/steps", all).unwrap();
        let barrier = barrier.with_layout(layout);
        clients.spawn(async move {
            let mut numbers = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let member = barrier.enter().await.expect("its session lives");
                numbers.push(member.round());
                member.leave().await.expect("its session lives");
            }
            numbers
        });
    }
    clients.join_all().await
}

async fn sessions(ensemble: &Ensemble, count: usize) -> Vec<Session> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(connect(ensemble).await);
    }
    sessions
}

/// Cuts one connection after the other, each when it is up again, for ever.
async fn cut(proxy: FaultProxy, sessions: Vec<Session>) {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for session in sessions.iter().cycle() {
        ticks.tick().await;
        session.connected().await.expect("its session lives");
        let its = session.id().as_i64();
        proxy.cut(Clients::Session(its), Close::Rst).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_share_fifty_rounds_over_cuts() {
    with_servers(3, async |ensemble| {
        let sessions = sessions(ensemble, 10).await;
        let proxy = ensemble.proxy().expect("the ensemble has a proxy");
        let cuts = tokio::spawn(cut(proxy, sessions.clone()));
        let all = soon("all rounds are over", rounds(&sessions, 50, Layout::Rounds)).await;
        cuts.abort();
        assert!(all.iter().all(|numbers| *numbers == all[0]));
        assert!(all[0].len() == 50 && all[0].is_sorted_by(|one, next| one < next));
    })
    .await;
}

mod deep {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::history::{Event, History};

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_clients_share_1600_rounds() {
        with_servers(3, async |ensemble| {
            let sessions = sessions(ensemble, 50).await;
            let all = NonZeroU32::new(50).expect("it is not zero");
            let history = Arc::new(Mutex::new(History::default()));
            let mut clients = JoinSet::new();
            let begin = std::time::Instant::now();
            for session in &sessions {
                let barrier = DoubleBarrier::new(session, "/app/steps", all).unwrap();
                let history = Arc::clone(&history);
                clients.spawn(async move {
                    let record = |member, event| history.lock().unwrap().record(member, event);
                    for _ in 0..1_600 {
                        let id = history.lock().unwrap().enters();
                        let member = barrier.enter().await.expect("its session lives");
                        let number = member.round().expect("its layout has rounds");
                        record(id, Event::Entered(number));
                        record(id, Event::Leaves);
                        member.leave().await.expect("its session lives");
                        record(id, Event::Left);
                    }
                });
            }
            let ended = tokio::time::timeout(HALF_AN_HOUR, clients.join_all()).await;
            ended.expect("waited half an hour for all rounds");
            let per_second = 2.0 * 50.0 * 1_600.0 / begin.elapsed().as_secs_f64();
            println!("{per_second:.0} enters and leaves per second");
            let history = history.lock().unwrap();
            assert_eq!(history.check(50), Ok(1_600));
        })
        .await;
    }

    const HALF_AN_HOUR: Duration = Duration::from_secs(1800);
}
