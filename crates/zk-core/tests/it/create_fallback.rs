//! Creates without `create2`, whose stat needs a second request.

use std::time::{Duration, Instant};

use zk_core::{ProtocolClient, Session};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_stat_is_not_read_is_a_success() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let session = Session::builder(ensemble.connect_string())
        .client(ProtocolClient::ZkWire)
        .assume_release(3, 4);
    let session = session.connect().await.expect("a session");
    let other = connect(&ensemble).await;
    let stat_of = |path| Match::exists(path).session(session.id().as_i64());

    let lost = proxy.on(stat_of("/cut")).once().drop_then_cut();
    let asked = Instant::now();
    let (_, created) = session.create("/cut", "data").await.expect("it is created");
    // A machine that stands still for that long has no time left to read the stat again.
    let is_given_up = asked.elapsed() >= Duration::from_secs(2);
    lost.happened(MAX_WAIT).await.expect("the link was cut");
    let stat = other.stat("/cut").await.expect("the node is there");
    if !is_given_up {
        assert_eq!(created, stat, "read on the next connection");
    }

    let held = proxy.on(stat_of("/deleted")).once().hold();
    let create = session.spawn({
        let session = session.clone();
        async move { session.create("/deleted", "").await }
    });
    held.happened(MAX_WAIT)
        .await
        .expect("the stat is asked for");
    other.delete("/deleted").await.expect("it was created");
    held.release();
    let created = within(MAX_WAIT, "the create", create).await;
    created.expect("no panic").expect("it was created");
    let again = other.exists("/deleted").await.expect("a reply");
    assert_eq!(again, None, "it is not created again");
    ensemble.down().await.expect("the server goes down");
}
