//! Servers that stop, pause and come back, and the effects on sessions.

use std::time::Duration;

use zk_core::transport::{Phase, Request, Transport};
use zk_core::{ErrorKind, NodePath, Session};
use zk_sim::wait::pass;
use zk_sim::{Ensemble, Proposal, RequestOutcome, matching};

const MS: Duration = Duration::from_millis(1);

fn since(sim: &Ensemble, moment: Duration) -> Duration {
    sim.now().saturating_sub(moment)
}

async fn connect(sim: &Ensemble, server: usize) -> Session {
    sim.connect().server(server).await
}

#[tokio::test(start_paused = true)]
async fn another_leader_begins_an_epoch_and_keeps_what_was_acknowledged() {
    let sim = Ensemble::new(3);
    let session = connect(&sim, 1).await;
    let (_, before) = session.create("/a", "").await.unwrap();
    assert_eq!((sim.leader(), before.czxid >> 32), (Some(3), 1));
    sim.server(3).stop();
    assert_eq!(sim.leader(), None);
    assert_eq!(
        sim.session(session.id()).server(),
        None,
        "the links to servers without a leader break"
    );
    let started = sim.now();
    let (_, after) = session.create("/b", "").await.unwrap();
    let pause = since(&sim, started);
    assert!((MS * 300..MS * 700).contains(&pause), "{pause:?}");
    assert_eq!(sim.leader(), Some(2));
    assert_eq!(after.czxid >> 32, 2);
    assert_eq!(sim.tree().paths(), ["/a", "/b"]);

    sim.server(3).start();
    assert!(!sim.server(3).is_serving(), "it has to catch up first");
    pass(MS * 250).await;
    assert!(sim.server(3).is_serving() && !sim.server(3).is_leader());
    assert_eq!(sim.server(3).tree(), sim.tree());
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_nothing_is_written_and_no_session_expires() {
    let sim = Ensemble::new(3);
    let session = sim.connect().timeout(Duration::from_secs(4)).await;
    session.create("/a", "").ephemeral().await.unwrap();
    let idle = sim
        .connect()
        .timeout(Duration::from_secs(4))
        .transport()
        .await;
    sim.session(idle.session_id()).partition();
    let zxid = sim.zxid();
    sim.server(1).stop();
    sim.server(2).stop();
    let refused = session.create("/b", "").timeout(Duration::from_secs(2));
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::NotConnected);
    pass(Duration::from_secs(3)).await;
    assert_eq!(sim.zxid(), zxid);
    assert!(sim.session(idle.session_id()).is_alive());

    sim.server(1).start();
    pass(MS * 350).await;
    assert_eq!(sim.leader(), Some(3));
    // A new leader restarts the timeouts.
    pass(Duration::from_millis(3900)).await;
    assert!(sim.session(idle.session_id()).is_alive());
    pass(MS * 200).await;
    assert!(!sim.session(idle.session_id()).is_alive());
    assert_eq!(sim.tree().paths(), ["/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_proposal_survives_its_leader_if_the_script_says_so() {
    for (proposal, expected) in [(Proposal::Survives, 1), (Proposal::Vanishes, 0)] {
        let sim = Ensemble::new(3);
        let session = connect(&sim, 1).await;
        let killed = sim.on(matching::creates("/a")).kill_leader(proposal);
        let error = session.create("/a", "").sequential().await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert_eq!(killed.count(), 1);
        assert!(!sim.requests().last().unwrap().answered);
        session.sync("/").await.unwrap();
        assert_eq!(sim.tree().paths().len(), expected, "{proposal:?}");
        let create = |seen: &&zk_sim::LoggedRequest| matches!(seen.request, Request::Create2(_));
        let outcome = sim.requests().iter().find(create).unwrap().outcome.clone();
        match proposal {
            // The former leader has assigned its zxid.
            Proposal::Survives => {
                assert!(
                    matches!(outcome, RequestOutcome::CarriedOut { zxid, .. } if zxid >> 32 == 1)
                );
            }
            _ => assert_eq!(outcome, RequestOutcome::Vanished),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_leader_delays_everything_until_it_is_excluded() {
    let sim = Ensemble::new(3);
    let session = connect(&sim, 1).await;
    session.create("/a", "").await.unwrap();
    sim.server(3).pause();
    let started = sim.now();
    assert_eq!(session.get("/a").await.unwrap().0, "", "reads go on");
    assert!(since(&sim, started) < MS * 10);
    // It continues before another server notices: nothing is lost.
    let create = session.create("/b", "").into_future();
    let create = tokio::spawn(create);
    pass(MS * 500).await;
    assert!(!create.is_finished());
    sim.server(3).resume();
    create.await.unwrap().unwrap();
    assert_eq!((sim.leader(), sim.zxid() >> 32), (Some(3), 1));

    sim.server(3).pause();
    let (_, stat) = session.create("/c", "").idempotent().await.unwrap();
    assert_eq!((sim.leader(), stat.czxid >> 32), (Some(2), 2));
    sim.server(3).resume();
    pass(MS * 300).await;
    assert!(sim.server(3).is_serving() && !sim.server(3).is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_is_noticed_by_its_client_and_healed_if_it_is_not() {
    let sim = Ensemble::new(3);
    let transport = sim.connect().server(1).transport().await;
    let link = sim.session(transport.session_id());
    let sync = || {
        transport.submit(Request::Sync {
            path: NodePath::root(),
        })
    };
    link.silence();
    let answer = tokio::spawn(sync());
    pass(Duration::from_millis(3900)).await;
    assert_eq!(
        transport.link().now().phase,
        Phase::Up,
        "no client has noticed"
    );
    link.heal();
    answer.await.unwrap().result.unwrap();
    assert_eq!((link.server(), transport.link().now().breaks), (Some(1), 0));

    link.silence();
    let started = sim.now();
    let lost = sync().await.result.unwrap_err();
    assert_eq!(
        lost,
        zk_core::transport::TransportError::Lost(
            "no response from connection in 4000ms".to_owned()
        )
    );
    // Two fifths of the timeout.
    assert!((MS * 4000..MS * 4004).contains(&since(&sim, started)));
    pass(MS * 20).await;
    assert_eq!(link.server(), Some(2));
    assert!(link.is_alive());
}

#[tokio::test(start_paused = true)]
async fn the_leader_expires_a_silent_session_after_its_timeout() {
    let sim = Ensemble::new(3);
    let leader = sim.leader().expect("there is one");
    let connect = sim.connect().server(leader);
    let transport = connect.timeout(MS * 4000).transport().await;
    let session = sim.session(transport.session_id());
    session.silence();
    // The client would reconnect after 2/5 of the timeout. That its link breaks does not restart the timeout.
    pass(MS * 1590).await;
    session.partition();
    pass(MS * 2390).await;
    assert!(session.is_alive());
    pass(MS * 30).await;
    assert!(!session.is_alive());
}

/// Reports come each second here. The session is opened at 0 s and sends a ping after a third of its timeout.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_session_runs_since_the_leader_last_heard_of_it() {
    for (at_leader, is_stopped, heard) in [
        (true, false, 2450),
        // The last message is still reported.
        (false, false, 3000),
        // The last report tells of the ping.
        (false, true, 2000),
    ] {
        let sim = Ensemble::new(3);
        let leader = sim.leader().expect("there is one");
        let server = if at_leader { leader } else { leader % 3 + 1 };
        let connect = sim.connect().server(server);
        let transport = connect.timeout(MS * 4000).transport().await;
        let session = sim.session(transport.session_id());
        pass((MS * 2450).saturating_sub(sim.now())).await;
        let sync = Request::Sync {
            path: NodePath::root(),
        };
        transport.submit(sync).await.result.unwrap();
        if is_stopped {
            sim.server(server).stop();
        }
        session.partition();
        pass((MS * (heard + 3990)).saturating_sub(sim.now())).await;
        assert!(session.is_alive(), "{heard}");
        pass(MS * 20).await;
        assert!(!session.is_alive(), "{heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_without_a_leader_grant_read_only_sessions_if_allowed() {
    let sim = Ensemble::builder().read_only().build();
    let before = connect(&sim, 1).await;
    before.create("/a", "x").await.unwrap();
    sim.server(2).stop();
    sim.server(3).stop();
    let session = sim.connect().allow_read_only().await;
    assert_eq!(session.get("/a").await.unwrap().0, "x");
    let error = session.set("/a", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyServer);
    assert_eq!(session.state(), zk_core::ConnectionState::ReadOnly);
    sim.server(2).start();
    session.lost().await;
    before.set("/a", "").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_long_costs_the_link() {
    let sim = Ensemble::builder().max_request(200).build();
    let transport = sim.connect().transport().await;
    let set = |length: usize| {
        transport.submit(Request::SetData {
            path: NodePath::root(),
            data: vec![0; length].into(),
            version: None,
        })
    };
    // The xid, the type, the path, the length and the version take the rest.
    set(200 - 8 - 5 - 4 - 4).await.result.unwrap();
    assert!(matches!(
        set(200 - 8 - 5 - 4 - 4 + 1).await.result,
        Err(zk_core::transport::TransportError::Lost(_))
    ));
    assert_eq!(transport.link().now().breaks, 1);
    assert_eq!(
        sim.requests().last().unwrap().outcome,
        RequestOutcome::NeverArrived
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_of_requests_is_bounded() {
    let sim = Ensemble::builder().request_log(10).build();
    let session = sim.connect().await;
    for number in 0..30 {
        session.create(format!("/{number}"), "").await.unwrap();
    }
    let kept = sim.requests();
    assert!(
        kept.len() <= 10 && sim.request_count() >= 30,
        "{}",
        kept.len()
    );
    assert_eq!(kept.last().unwrap(), &sim.last_requests(1)[0]);
    assert!(
        matches!(&kept.last().unwrap().request, Request::Create2(create) if create.path.as_str() == "/29")
    );
}
