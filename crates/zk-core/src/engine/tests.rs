//! What an answer proves.

use zk_wire::NodePath;

use super::*;

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
    let transaction = Answerer::of(&Request::Multi(Vec::new()));
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

/// A transport whose link is up, and which answers nothing.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Silent(crate::transport::LinkSender);

#[cfg(target_os = "linux")]
impl Transport for Silent {
    fn session_id(&self) -> zk_wire::SessionId {
        zk_wire::SessionId::from_i64(1)
    }

    fn session_timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(10)
    }

    fn link(&self) -> LinkReceiver {
        self.0.subscribe()
    }

    fn submit(&self, _request: Request) -> crate::transport::Reply {
        Box::pin(std::future::pending())
    }

    fn close(&self) {}
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_session_that_was_opened_at_an_unknown_time_is_unproved() {
    let up = Link {
        phase: Phase::Up,
        breaks: 0,
    };
    for (asked, is_valid) in [(Some(lease_clock::now()), true), (None, false)] {
        let transport = Box::new(Silent(crate::transport::LinkSender::new(up)));
        let engine = Engine::new(transport, "zk".parse().unwrap(), asked);
        let until = engine.valid_until().expect("the session is open");
        assert_eq!(Instant::now().into_std() < until, is_valid, "{asked:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_lease_runs_out_while_the_machine_is_suspended() {
    let up = Link {
        phase: Phase::Up,
        breaks: 0,
    };
    let transport = Box::new(Silent(crate::transport::LinkSender::new(up)));
    let servers = "zk".parse().unwrap();
    let engine = Engine::new(transport, servers, Some(lease_clock::now()));
    let is_valid = || {
        let until = engine.valid_until().expect("the session is open");
        Instant::now().into_std() < until
    };
    assert!(is_valid());
    lease_clock::tests::EXTRA.set(std::time::Duration::from_secs(9));
    assert!(is_valid());
    lease_clock::tests::EXTRA.set(std::time::Duration::from_secs(10));
    assert!(!is_valid(), "the ensemble may have expired it");
}

/// A transport whose link has broken once, and whose every reply has this header.
#[derive(Debug)]
struct Answering {
    link: crate::transport::LinkSender,
    header: Option<crate::transport::ReplyHeader>,
}

impl Transport for Answering {
    fn session_id(&self) -> zk_wire::SessionId {
        zk_wire::SessionId::from_i64(1)
    }

    fn session_timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(10)
    }

    fn link(&self) -> LinkReceiver {
        self.link.subscribe()
    }

    fn submit(&self, _request: Request) -> crate::transport::Reply {
        let result = Ok(Response::Deleted);
        let header = self.header;
        Box::pin(std::future::ready(Answer { result, header }))
    }

    fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn only_replies_over_the_present_link_prove_a_session_alive() {
    let up = Link {
        phase: Phase::Up,
        breaks: 1,
    };
    let header = |breaks| crate::transport::ReplyHeader { zxid: 7, breaks };
    for (header, is_proved) in [
        (Some(header(1)), true),
        (Some(header(0)), false),
        (None, false),
    ] {
        let link = crate::transport::LinkSender::new(up);
        let transport = Box::new(Answering { link, header });
        let engine = Engine::new(transport, "zk".parse().unwrap(), None);
        for _ in 0..10 {
            let path = NodePath::root();
            let version = None;
            let written = engine.send(Request::Delete { path, version }).await;
            written.expect("there is a reply");
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        let until = engine.valid_until().expect("the session is open");
        assert_eq!(Instant::now().into_std() < until, is_proved, "{header:?}");
        let newest = header.map_or(i64::MIN, |header| header.zxid);
        assert_eq!(engine.newest_zxid(), newest);
    }
}
