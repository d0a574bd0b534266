//! Servers that refuse to say what they know of a session and of their tree, or cannot.

use zk_core::{Acl, AclEntry, ErrorKind, Identity, Permissions};
use zk_sim::Ensemble;

#[tokio::test(start_paused = true)]
async fn refusals_name_the_request_and_the_node() {
    let sim = Ensemble::new(3);
    let session = sim.connect().digest("user", "secret").await;
    let missing = session.descendant_count("/no").await.unwrap_err();
    let expected = "count the nodes below /no: the node does not exist";
    assert_eq!(missing.to_string(), expected);
    let closed = Acl::new([AclEntry::new(Permissions::WRITE, "world", "anyone")]);
    session.create("/closed", "").acl(closed).await.unwrap();
    let refused = session.descendant_count("/closed").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoAuth);
    let user = Identity {
        scheme: "digest".to_owned(),
        name: "user".to_owned(),
    };
    assert_eq!(session.whoami().await.unwrap(), [user]);
    assert_eq!(session.config().await.unwrap().text(), "");
}

#[tokio::test(start_paused = true)]
async fn servers_before_3_6_are_said_not_to_know_the_requests() {
    let sim = Ensemble::builder().without_persistent_watches().build();
    let session = sim.connect().await;
    for (error, expected) in [
        (
            session.whoami().await.unwrap_err(),
            "whoami: the server does not support it",
        ),
        (
            session.ephemerals("/a").await.unwrap_err(),
            "list the ephemeral nodes at /a: the server does not support it",
        ),
        (
            session.descendant_count("/a").await.unwrap_err(),
            "count the nodes below /a: the server does not support it",
        ),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), expected);
    }
}
