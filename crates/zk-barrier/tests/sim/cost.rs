//! What a round costs: requests and notifications, however many members there are.

use std::time::Duration;

use zk_core::Session;
use zk_core::transport::Request;
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::double;

/// Requests and lists of one round of all members, the members leaving in the given order, a moment apart or at once.
async fn round(ensemble: &Ensemble, sessions: &[Session], apart: Duration) -> (usize, usize) {
    let all = u32::try_from(sessions.len()).expect("not that many");
    let is_list = |request: &Request| matches!(request, Request::GetChildren2 { .. });
    let before = (ensemble.request_count(), ensemble.arrived(is_list));
    let mut enters = tokio::task::JoinSet::new();
    for session in sessions {
        let barrier = double(session, all);
        enters.spawn(async move { barrier.enter().await });
    }
    let inside = soon("all pass", enters.join_all()).await;
    let mut leaves = tokio::task::JoinSet::new();
    for member in inside {
        leaves.spawn(member.unwrap().leave());
        pass(apart).await;
    }
    for left in soon("all leave", leaves.join_all()).await {
        left.unwrap();
    }
    let after = (ensemble.request_count(), ensemble.arrived(is_list));
    (after.0 - before.0, after.1 - before.1)
}

#[tokio::test(start_paused = true)]
async fn a_member_sends_a_bounded_number_of_requests_per_round() {
    let ensemble = Ensemble::builder().servers(3).build();
    let mut sessions = Vec::new();
    for _ in 0..200 {
        sessions.push(ensemble.connect().await);
    }
    round(&ensemble, &sessions, Duration::ZERO).await;
    for apart in [Duration::ZERO, Duration::from_millis(20)] {
        let (requests, lists) = round(&ensemble, &sessions, apart).await;
        println!("{requests} requests and {lists} lists of 200 members, {apart:?} apart");
        assert!(requests < 200 * 10, "{requests} requests");
        // The opener alone lists, about as often as the logarithm of the number of members; B4: no busy loop.
        assert!(lists < 25, "{lists} lists");
    }
}
