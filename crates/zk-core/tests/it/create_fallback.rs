//! Creates without `create2`, whose stat needs a second request.

use zk_core::{ErrorKind, Session};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_stat_is_not_read_is_found_again() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let session = Session::builder(ensemble.connect_string()).assume_release(3, 4);
    let session = session.connect().await.expect("a session");
    let other = connect(&ensemble).await;
    let stat_of = |path| Match::exists(path).session(session.id().as_i64());

    let lost = proxy.on(stat_of("/cut")).once().drop_then_cut();
    let created = session.create("/cut", "data").ephemeral().await;
    let (_, created) = created.expect("it is found");
    lost.happened(MAX_WAIT).await.expect("the link was cut");
    let stat = other.stat("/cut").await.expect("the node is there");
    assert_eq!(created, stat);

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
    let unknown = created
        .expect("no panic")
        .expect_err("its time is not known");
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{unknown}");
    let again = other.exists("/deleted").await.expect("a reply");
    assert_eq!(again, None, "it is not created again");
    ensemble.down().await.expect("the server goes down");
}
