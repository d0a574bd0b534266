use super::*;
use zk_core::Acl;
use zk_core::transport::{CreateMode, NewNode, NodeData};

use crate::leader::{Author, Leader};

const ME: SessionId = SessionId::from_i64(1);

fn create(acl: Acl) -> Request {
    Request::Create2(NewNode {
        path: path("/a"),
        data: NodeData::from(&b"x"[..]),
        mode: CreateMode::Container,
        acl,
    })
}

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

fn server(acl: Acl) -> Server {
    let mut leader = Leader::new(Counters::Stick, Release::V3_9);
    let ann = [Identity::digest("ann", "pw")];
    let author = Author {
        session: ME,
        identities: &ann,
    };
    let result = leader.write(author, &create(acl), Duration::ZERO);
    result.outcome.unwrap();
    let mut server = Server::new(Counters::Stick, Release::V3_9);
    server.apply(&leader.log()[0], |_, _| true);
    server
}

fn reads(at: &str) -> [Request; 4] {
    [
        Request::GetData {
            path: path(at),
            watch: true,
        },
        Request::GetChildren2 {
            path: path(at),
            watch: true,
        },
        Request::GetAcl { path: path(at) },
        Request::Exists {
            path: path(at),
            watch: true,
        },
    ]
}

#[test]
fn only_a_look_finds_nothing_without_being_refused_and_sets_its_watch() {
    let mut server = server(Acl::open());
    for request in reads("/none") {
        let (outcome, watch) = server.read(ME, &[], &request);
        if matches!(request, Request::Exists { .. }) {
            assert!(matches!(outcome, Ok(ServerReply::Stat(None))));
            assert_eq!(watch, Some((path("/none"), WatchKind::Exist)));
        } else {
            assert_eq!(
                outcome,
                Err(TransportError::Refused(ErrorKind::NoNode, None))
            );
            assert_eq!(watch, None);
        }
    }
    assert_eq!(server.watches.count(), 1);
}

#[test]
fn every_read_needs_permission_and_sets_no_watch_without_it() {
    let mut server = server(Acl::creator_only());
    for request in reads("/a") {
        let (outcome, watch) = server.read(ME, &[], &request);
        assert_eq!(
            outcome,
            Err(TransportError::Refused(ErrorKind::NoAuth, None))
        );
        assert_eq!(watch, None);
        assert_eq!(server.watches.count(), 0);
    }
    let ann = [Identity::digest("ann", "pw")];
    for request in reads("/a") {
        assert!(server.read(ME, &ann, &request).0.is_ok(), "{request:?}");
    }
    assert_eq!(server.watches.count(), 2);
}

#[test]
fn a_watch_set_again_is_silent_about_what_may_not_be_read() {
    let ann = [Identity::digest("ann", "pw")];
    for kind in [WatchKind::Exist, WatchKind::Data, WatchKind::Child] {
        let mut server = server(Acl::creator_only());
        let mut set = |identities| server.set_again(ME, identities, (&path("/a"), kind), 0);
        assert_eq!(set(&[]), None);
        assert!(set(&ann).is_some(), "{kind:?}");
        assert_eq!(server.watches.count(), 0, "{kind:?} is not set again");
        server.release = Release::V3_8;
        assert!(server.set_again(ME, &[], (&path("/a"), kind), 0).is_some());
    }
    // Who could read a node that is gone is not asked.
    let mut server = server(Acl::creator_only());
    let gone = path("/gone");
    let fired = server.set_again(ME, &[], (&gone, WatchKind::Data), 0);
    assert_eq!(
        fired,
        Some(Trigger::new(&gone, zk_core::WatchEvent::Deleted))
    );
}

#[test]
fn lag_says_when_a_transaction_is_applied() {
    let second = Duration::from_secs(1);
    for (lag, expected) in [
        (Lag::None, Some(second)),
        (Lag::By(second), Some(second * 2)),
        (Lag::Until(second * 5), Some(second * 5)),
        (Lag::Until(Duration::ZERO), Some(second)),
        (Lag::Endless, None),
    ] {
        assert_eq!(lag.due(second), expected, "{lag:?}");
    }
}
