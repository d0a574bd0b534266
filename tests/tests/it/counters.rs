//! A server whose counters for sequential nodes are about to end.

use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_tests::peers::seed_counter;

/// Starts a server that gives the next sequential child of each path this number.
pub(crate) async fn near_the_end(counters: &[(&str, i32)]) -> Ensemble {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = connect(&ensemble).await;
    for (path, _) in counters {
        session.create(*path, "").parents().await.unwrap();
    }
    session.close().await.unwrap();
    let server = ensemble.server(1).unwrap();
    server.stop().await.unwrap();
    for (path, next) in counters {
        seed_counter(&ensemble, path, *next).await.unwrap();
    }
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    ensemble
}

pub(crate) async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(20))
        .connect()
        .await
        .unwrap()
}
