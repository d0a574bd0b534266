//! Other clients on a simulated ensemble that listens on loopback TCP.
//!
//! Nothing here shows anything about real servers: no feature is covered by these tests.

use zk_sim::{Ensemble, matching};
use zk_tests::peers::{Curator, Kazoo};

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_does_its_basics_on_simulated_servers() {
    let kazoo = Kazoo::find().await.expect("kazoo is there");
    let ensemble = Ensemble::new(3);
    let listener = ensemble.listen().await.expect("ports are free");
    kazoo
        .basics(&listener.connect_string())
        .await
        .expect("each result is that of a server");
    assert_eq!(ensemble.sessions(), [], "kazoo has closed its sessions");
    assert_eq!(ensemble.tree().paths(), ["/lock"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_java_client_does_its_basics_on_simulated_servers() {
    let curator = Curator::find().await.expect("the client is there");
    let ensemble = Ensemble::new(3);
    let listener = ensemble.listen().await.expect("ports are free");
    curator
        .basics(&listener.connect_string())
        .await
        .expect("each result is that of a server");
    assert_eq!(
        ensemble.sessions(),
        [],
        "the client has closed its sessions"
    );
    assert_eq!(ensemble.tree().paths(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scripted_failure_reaches_another_client() {
    let kazoo = Kazoo::find().await.expect("kazoo is there");
    let ensemble = Ensemble::new(3);
    let listener = ensemble.listen().await.expect("ports are free");
    let lost = ensemble.on(matching::creates("/basics")).lose_reply();
    let error = kazoo
        .basics(&listener.connect_string())
        .await
        .expect_err("the reply to the first create is lost");
    assert!(error.to_string().contains("ConnectionLoss"), "{error}");
    assert_eq!(lost.count(), 1);
    assert!(ensemble.tree().node("/basics").is_some());
}
