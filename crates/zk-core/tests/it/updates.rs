//! Updates whose request or reply is lost, on a real server behind a proxy.

use std::time::Duration;

use zk_core::{IdempotencyTokens, NodePath};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::connect;

/// Counts up, in digits.
fn count_up(data: &[u8]) -> Option<Vec<u8>> {
    let count: u32 = std::str::from_utf8(data).ok()?.parse().ok()?;
    Some((count + 1).to_string().into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn update_is_applied_once_on_a_real_server() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let (session, other) = (connect(&ensemble).await, connect(&ensemble).await);
    let client = session.id().as_i64();
    let token = NodePath::parse("/n/token").unwrap();
    let tokens = IdempotencyTokens::below_existing(&session, token);
    let update = || {
        let update = session.update("/n", count_up).or_create("0");
        update.exactly_once(&tokens)
    };
    update().await.unwrap();
    for (round, is_applied) in (0..).zip([false, true, true, false]) {
        let rule = proxy.on(Match::writes().session(client)).once();
        let lost = if is_applied {
            rule.cut_on_reply()
        } else {
            rule.drop_then_cut()
        };
        // The other client counts as well.
        let (mine, theirs) = tokio::join!(
            update().into_future(),
            other.update("/n", count_up).into_future()
        );
        mine.unwrap();
        theirs.unwrap();
        lost.happened(Duration::ZERO).await.unwrap();
        session.sync("/n").with_quorum().await.unwrap();
        let (data, _) = session.get("/n").await.unwrap();
        assert_eq!(data, (3 + 2 * round).to_string());
    }
    ensemble.down().await.expect("the server goes down");
}
