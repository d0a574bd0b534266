//! How the client crate's values become ours.

use super::*;

#[test]
fn every_error_of_the_client_is_classified() {
    let refused = |kind| TransportError::Refused(kind, None);
    let bad =
        |text: &str| TransportError::Refused(ErrorKind::InvalidArgument, Some(text.to_owned()));
    for (error, expected) in [
        (zk::Error::NoNode, refused(ErrorKind::NoNode)),
        (zk::Error::NodeExists, refused(ErrorKind::NodeExists)),
        (zk::Error::BadVersion, refused(ErrorKind::BadVersion)),
        (zk::Error::NotEmpty, refused(ErrorKind::NotEmpty)),
        (
            zk::Error::NoChildrenForEphemerals,
            refused(ErrorKind::ParentIsEphemeral),
        ),
        (zk::Error::NoAuth, refused(ErrorKind::NoAuth)),
        (zk::Error::InvalidAcl, refused(ErrorKind::InvalidAcl)),
        (zk::Error::QuotaExceeded, refused(ErrorKind::QuotaExceeded)),
        (zk::Error::NotReadOnly, refused(ErrorKind::ReadOnlyServer)),
        (zk::Error::Unimplemented, refused(ErrorKind::Unsupported)),
        (zk::Error::ReconfigDisabled, refused(ErrorKind::Unsupported)),
        (zk::Error::BadArguments(&"odd"), bad("bad arguments: odd")),
        (
            zk::Error::MarshallingError,
            bad("server fail to marshal client request"),
        ),
        (zk::Error::NoWatcher, bad("no watcher")),
        (
            zk::Error::Throttled,
            TransportError::Later(ErrorKind::Throttled),
        ),
        (
            zk::Error::SessionMoved,
            TransportError::Later(ErrorKind::SessionMoved),
        ),
        (
            zk::Error::UnexpectedErrorCode(-1),
            TransportError::Server("unexpected error code: -1".to_owned()),
        ),
        (
            zk::Error::SessionExpired,
            TransportError::Ended(SessionEnd::Expired),
        ),
        (
            zk::Error::AuthFailed,
            TransportError::Ended(SessionEnd::AuthFailed),
        ),
        (
            zk::Error::ClientClosed,
            TransportError::Ended(SessionEnd::Closed),
        ),
        (
            zk::Error::ConnectionLoss,
            TransportError::Lost("connection to server has lost".to_owned()),
        ),
        (
            zk::Error::Timeout,
            TransportError::Lost("timeout".to_owned()),
        ),
        (
            zk::Error::NoHosts,
            TransportError::Lost("no available hosts".to_owned()),
        ),
        (
            zk::Error::UnexpectedError("x".to_owned()),
            TransportError::Lost("unexpected error: x".to_owned()),
        ),
        (
            zk::Error::UnmarshalError {
                entity: "stat",
                reason: &"short",
            },
            TransportError::Lost("unable to unmarshal stat due to short".to_owned()),
        ),
        (
            zk::Error::RuntimeInconsistent,
            TransportError::Lost("runtime condition mismatch".to_owned()),
        ),
    ] {
        assert_eq!(fault(&error), expected, "{error:?}");
    }
}

#[test]
fn acls_survive_the_way_to_the_client_and_back() {
    let all = PERMISSIONS.iter().map(|(ours, _)| *ours);
    let sets = (0..32_usize).map(|bits| {
        let members = all
            .clone()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0);
        members.fold(Permissions::NONE, |set, (_, one)| set | one)
    });
    let acl = Acl::new(sets.map(|set| AclEntry::new(set, "digest", format!("user-{set}"))));
    assert_eq!(from_acl(&to_acl(&acl)), acl);
    assert_eq!(
        to_acl(&Acl::open()),
        [zk::Acl::new(zk::Permission::ALL, zk::AuthId::anyone())]
    );
}

#[test]
fn refused_arguments_are_not_server_errors() {
    let TransportError::Refused(ErrorKind::InvalidArgument, detail) =
        fault(&zk::Error::BadArguments(&"server error"))
    else {
        panic!("it is refused");
    };
    assert_eq!(detail.as_deref(), Some("the server refuses it"));
}
