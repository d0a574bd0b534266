//! What an answer proves.

use super::*;
use crate::path::NodePath;
use crate::transport::ReadOp;

#[test]
fn refusal_for_lack_of_access_is_a_commit_in_transactions_only() {
    let root = NodePath::root();
    let write = Answerer::of(&Request::Delete {
        path: root.clone(),
        version: None,
    });
    assert_eq!(write, Answerer::Quorum);
    let refused = |kind| Err(TransportError::Refused(kind, None));
    assert_eq!(
        write.of_answer(&refused(ErrorKind::NoAuth)),
        Some(Answerer::Server)
    );
    assert_eq!(
        write.of_answer(&refused(ErrorKind::NotEmpty)),
        Some(Answerer::Quorum)
    );
    assert_eq!(write.of_answer(&refused(ErrorKind::QuotaExceeded)), None);
    assert_eq!(
        write.of_answer(&Err(TransportError::Lost(String::new()))),
        None
    );
    let transaction = Answerer::of(&Request::Transaction(Vec::new()));
    let refused = Err(TransportError::RefusedAt {
        index: 0,
        kind: ErrorKind::NoAuth,
    });
    assert_eq!(
        transaction.of_answer(&refused),
        Some(Answerer::Quorum),
        "the check of a root that may not be read"
    );
    let reading = Answerer::of(&Request::Sync { path: root });
    assert_eq!(
        reading.of_answer(&Ok(Response::Synced)),
        Some(Answerer::Leader)
    );
}

#[test]
fn the_version_of_the_configuration_is_no_transaction() {
    let path = |path: &str| NodePath::parse(path).unwrap();
    let exists = |at: &str| Request::Exists {
        path: path(at),
        watch: false,
    };
    let config = "/zookeeper/config";
    let read =
        |at: &str| Request::MultiRead(vec![ReadOp::Data(path("/a")), ReadOp::Children(path(at))]);
    for (request, expected) in [
        (Request::GetConfig, true),
        (exists(config), true),
        (exists("/zookeeper/config/a"), false),
        (exists("/a"), false),
        (Request::GetAcl { path: path(config) }, true),
        (read(config), true),
        (read("/a"), false),
        (Request::Sync { path: path(config) }, false),
    ] {
        assert_eq!(request.reads_config(), expected, "{request:?}");
    }
}
