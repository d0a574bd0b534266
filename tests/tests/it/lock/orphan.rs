//! Orphaned contenders on real servers: a create on its way while its client moves to another server.

use std::time::Duration;

use zk_core::Session;
use zk_tests::orphan::{Contender, Slow, Stage};

const LAGS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(300),
    // A round trip may take a fourteenth of the session timeout of 20 s: above a tenth the session's lease has gaps, and
    // an acquire may wait for long.
    Duration::from_millis(1400),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_create_on_its_way_is_waited_for_and_never_becomes_an_orphan() {
    let mut stage = Stage::start(None).await.unwrap();
    for slow in [Slow::FromLeader, Slow::ToLeader, Slow::ForQuorum] {
        for lag in LAGS {
            let begin = async |connect: String, path: String| {
                let session = Session::builder(connect).session_timeout(Contender::SESSION_TIMEOUT);
                Contender::ours(&session.connect().await?, &path)
            };
            let ending = stage.play(slow, lag, begin).await.unwrap();
            let what = format!("{slow:?}, {lag:?}: {ending:?}");
            println!("{what}");
            assert_eq!(ending.nodes, 1, "{what}");
            // The way back, the sync and the list each take a few times the lag; there is no wait for the end of its
            // session, which lives for 20 seconds.
            let bound = Duration::from_secs(20);
            assert!(ending.acquired.is_some_and(|after| after < bound), "{what}");
        }
    }
    stage.down().await.unwrap();
}
