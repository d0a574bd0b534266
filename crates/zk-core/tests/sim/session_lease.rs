//! What the proof that a session is alive costs, and how long it takes.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::transport::TransportError;
use zk_core::{Acl, ErrorKind, Session};
use zk_sim::{Chaos, Check, Disturbance, Ensemble, matching};

use crate::{pass, soon};

/// How often the leader alone was asked so far, and how often the quorum.
fn asked(sim: &Ensemble) -> (usize, usize) {
    let syncs = sim.arrived(matching::syncs());
    (syncs, sim.arrived(matching::transactions("/")))
}

/// How long it takes until the proof holds, in hundredths of the session timeout.
async fn renewed(session: &Session) -> u128 {
    let begun = Instant::now();
    let session_lease = session.keep_lease();
    session_lease
        .renewed(session.session_timeout())
        .await
        .unwrap();
    assert!(session_lease.is_valid() && session_lease.is_lasting());
    begun.elapsed().as_millis() * 100 / session.session_timeout().as_millis()
}

#[tokio::test(start_paused = true)]
async fn session_that_no_handle_relies_on_sends_pings_only() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    pass(Duration::from_secs(600)).await;
    assert_eq!(sim.arrived(matching::anything()), 0);
    session.create("/a", "").await.unwrap();
    pass(Duration::from_secs(600)).await;
    assert_eq!(sim.arrived(matching::anything()), 1);
    assert!(session.valid_until().unwrap() < Instant::now().into_std());
}

#[tokio::test(start_paused = true)]
async fn lease_on_a_follower_commits_three_times_per_timeout_until_a_minute_later() {
    let sim = Ensemble::new(3);
    let follower = sim.leader().expect("there is one") % 3 + 1;
    let session = sim.connect().server(follower).await;
    let timeout = session.session_timeout();
    let session_lease = session.keep_lease();
    for _ in 0..1000 {
        pass(timeout / 10).await;
        assert!(session_lease.is_lasting());
    }
    let (syncs, writes) = asked(&sim);
    assert!((320..=345).contains(&writes), "{writes}");
    assert!(syncs + writes <= 1350, "{syncs} {writes}");
    drop(session_lease);
    pass(Duration::from_secs(61)).await;
    let rest = asked(&sim);
    assert_eq!(rest.1, writes, "it holds nothing");
    assert!((55..=62).contains(&(rest.0 - syncs)), "{rest:?} {syncs}");
    pass(Duration::from_secs(600)).await;
    assert_eq!(asked(&sim), rest);
}

#[tokio::test(start_paused = true)]
async fn lease_on_the_leader_commits_twice_per_timeout() {
    let sim = Ensemble::new(3);
    let leader = sim.leader().expect("there is one");
    let session = sim.connect().server(leader).await;
    let session_lease = session.keep_lease();
    for _ in 0..1000 {
        pass(session.session_timeout() / 10).await;
        assert!(session_lease.is_lasting());
    }
    let (syncs, writes) = asked(&sim);
    assert!((190..=200).contains(&writes), "{writes}");
    assert!(syncs + writes <= 1201, "{syncs} {writes}");
}

#[tokio::test(start_paused = true)]
async fn leases_on_followers_share_one_commit() {
    let sim = Ensemble::new(3);
    let leader = sim.leader().expect("there is one");
    let mut leases = Vec::new();
    for number in 0..20 {
        let follower = (leader + number % 2) % 3 + 1;
        let session = sim.connect().server(follower).await;
        leases.push((session.keep_lease(), session));
        pass(Duration::from_millis(37)).await;
    }
    let before = asked(&sim).1;
    let timeout = leases[0].1.session_timeout();
    for _ in 0..1000 {
        pass(timeout / 10).await;
        assert!(leases.iter().all(|(lease, _)| lease.is_lasting()));
    }
    // A single one would write 333 times.
    let writes = asked(&sim).1 - before;
    assert!((300..=1500).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn heartbeat_ends_with_the_last_handle() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let session_lease = session.keep_lease();
    let owned = session.create("/a", "").owned().await.unwrap();
    // The removal of the node keeps the session open.
    let later = TransportError::Later(ErrorKind::Throttled);
    sim.on(matching::deletes("/*-a")).every().refuse(later);
    drop(owned);
    pass(Duration::from_secs(60)).await;
    let id = session.id();
    let tasks = tokio::runtime::Handle::current().metrics();
    let before = (tasks.num_alive_tasks(), asked(&sim).0);
    drop((session_lease, session));
    pass(Duration::from_secs(60)).await;
    let after = (tasks.num_alive_tasks(), asked(&sim).0);
    assert!(sim.session(id).is_alive(), "it is still open");
    assert!(after.0 + 2 <= before.0, "tasks: {before:?} {after:?}");
    assert!(after.1 <= before.1 + 1, "syncs: {before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn proof_after_idling_takes_two_fifths_of_the_timeout() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(2).await;
    assert_eq!(renewed(&session).await, 0, "the session is new");
    for _ in 0..3 {
        pass(Duration::from_secs(120)).await;
        let cold = renewed(&session).await;
        assert!((35..=44).contains(&cold), "{cold}");
        for rest in [1, 10, 30, 59] {
            pass(Duration::from_secs(rest)).await;
            assert_eq!(renewed(&session).await, 0, "after {rest} s");
        }
        let standby = session.stand_by();
        pass(Duration::from_secs(600)).await;
        assert_eq!(renewed(&session).await, 0, "on standby");
        drop(standby);
    }
    let begun = asked(&sim);
    let standby = session.stand_by();
    pass(Duration::from_secs(600)).await;
    let ended = asked(&sim);
    assert_eq!(ended.1, begun.1, "a standby writes nothing");
    assert!(ended.0 - begun.0 <= 610, "{begun:?} {ended:?}");
    drop(standby);
}

#[tokio::test(start_paused = true)]
async fn proof_that_has_lapsed_is_not_revived_by_the_next_write() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let timeout = session.session_timeout();
    let session_lease = session.keep_lease();
    pass(timeout).await;
    for number in 1..=sim.servers() {
        sim.server(number).pause();
    }
    session_lease.lapsed().await;
    for number in 1..=sim.servers() {
        sim.server(number).resume();
    }
    session.create("/a", "").or_set().await.unwrap();
    // By the time of a report alone, a write in the last part of this would prove the first one: too early.
    let begun = Instant::now();
    while begun.elapsed() < timeout * 8 / 25 {
        let made = session.create("/a", "").or_set().await;
        assert!(made.is_ok() && !session_lease.is_valid(), "{made:?}");
        pass(timeout / 50).await;
    }
    session_lease.renewed(timeout).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn write_that_is_refused_for_lack_of_access_extends_no_proof() {
    for (acl, extends) in [(Acl::read_only(), false), (Acl::open(), true)] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        session.create("/a", "").acl(acl).await.unwrap();
        let opened = session.valid_until().unwrap();
        for _ in 0..18 {
            pass(session.session_timeout() / 20).await;
            let made = session.create("/a/b", "").sequential().await;
            assert_eq!(made.is_ok(), extends, "{made:?}");
        }
        assert_eq!(session.valid_until().unwrap() > opened, extends);
    }
}

/// After random faults, a session is cut off for good at any moment between two reports of its server.
#[test]
fn no_session_expires_while_its_proof_is_valid() {
    let checked = Check::new(0..300).seeds_from_env();
    checked.run(async |sim, seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        // Another moment between two reports each time.
        let other = sim.connect().await;
        pass(Duration::from_millis(random.u64(0..5000))).await;
        let session = sim.connect().server(random.usize(1..=3)).await;
        let writer = if random.bool() { &session } else { &other };
        let timeout = session.session_timeout();
        let millis = u64::try_from(timeout.as_millis()).unwrap();
        let session_lease = session.keep_lease();
        let most = millis / [4, 40, 400][random.usize(0..3)];
        let link = sim.session(session.id());
        let mut pause = random.fork();
        let writing = async {
            loop {
                pass(Duration::from_millis(pause.u64(0..most))).await;
                drop(writer.create("/a", "").or_set().await);
            }
        };
        let faults = async {
            let moment = Duration::from_millis(random.u64(0..3 * millis));
            // With many faults, proofs are rare.
            let every = timeout / [2, 10, 50][random.usize(0..3)];
            let chaos = Chaos::default().lasting(3 * timeout).every(every);
            let chaos = chaos.longest(timeout / 5);
            // A rule for a later request would stop a second server below.
            let chaos = chaos.weight(Disturbance::KillLeader, 0);
            drop(tokio::time::timeout(moment, chaos.run(&sim)).await);
            for number in 1..=sim.servers() {
                sim.server(number).start();
            }
            if random.bool()
                && let Some(server) = link.server()
            {
                sim.server(server).stop();
            }
            link.partition();
            std::future::pending::<()>().await;
        };
        let expires = async {
            while link.is_alive() {
                pass(Duration::from_millis(5)).await;
            }
            assert!(!session_lease.is_valid(), "seed {seed}");
        };
        let all = async {
            tokio::select! {
                biased;
                () = expires => {}
                () = faults => {}
                () = writing => {}
            }
        };
        soon("the session expires", all).await;
    });
}
