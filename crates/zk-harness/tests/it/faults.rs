//! Faults on demand: what breaks, what the ensemble makes of it, and that it can be undone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_harness::fault::ClockShift;
use zk_harness::nemesis::{Fault, Nemesis};
use zk_harness::{Ensemble, Error, Health, ProcessState, Selector, Server};

use crate::support::{eventually, in_memory};

/// A session that says nothing, on a connection that is read from only.
struct Silent {
    link: TcpStream,
    session: i64,
    password: [u8; 16],
}

impl Silent {
    /// Opens a session, or resumes one; no session is granted where `None` is returned.
    fn open(server: &Server, session: i64, password: [u8; 16]) -> Option<Self> {
        let mut link = TcpStream::connect(server.client_address()).unwrap();
        link.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut hello = vec![0, 0, 0, 45, 0, 0, 0, 0];
        hello.extend([0; 8]);
        hello.extend(30_000_i32.to_be_bytes());
        hello.extend(session.to_be_bytes());
        hello.extend(16_i32.to_be_bytes());
        hello.extend(password);
        hello.push(0);
        link.write_all(&hello).unwrap();
        let mut answer = [0; 41];
        link.read_exact(&mut answer).unwrap();
        let session = i64::from_be_bytes(answer[12..20].try_into().unwrap());
        (session != 0).then(|| Self {
            link,
            session,
            password: answer[24..40].try_into().unwrap(),
        })
    }
}

// covers: H7
#[tokio::test]
async fn an_expired_session_is_over_at_once_at_whichever_server_it_is() {
    for version in ["3.8", "3.9"] {
        let ensemble = in_memory(3).zookeeper(version).start().await.unwrap();
        for server in ensemble.servers() {
            let mut session = Silent::open(server, 0, [0; 16]).expect("a session is granted");
            ensemble.expire(session.session).await.unwrap();
            // Its server ends the connection; nothing else comes over it.
            let mut rest = Vec::new();
            session.link.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, [] as [u8; 0], "{version}");
            let resumed = Silent::open(server, session.session, session.password);
            assert!(resumed.is_none(), "{version}: it lives on");
            let again = ensemble.expire(session.session).await.unwrap_err();
            assert!(matches!(again, Error::NoSuchSession { .. }), "{again:?}");
        }
        ensemble.down().await.unwrap();
    }
}

async fn leads(ensemble: &Ensemble) -> u32 {
    ensemble
        .wait_leader(Duration::from_secs(20))
        .await
        .unwrap()
        .id()
}

// covers: H7
#[tokio::test]
async fn a_leader_with_a_full_disk_is_succeeded_and_comes_back_when_there_is_room() {
    let ensemble = in_memory(3).start().await.unwrap();
    let full = ensemble.leader().await.unwrap();
    full.fill_disk().unwrap();
    // The write of the canary is the first one that fails.
    ensemble.wait_quorum().await.unwrap();
    assert_ne!(leads(&ensemble).await, full.id());

    match full.free_disk() {
        // It has ended for want of room, as servers of 3.9 may.
        Err(Error::WrongState { .. }) => {
            full.discard_torn_logs().unwrap();
            full.start().unwrap();
        }
        freed => freed.unwrap(),
    }
    ensemble.wait_serving().await.unwrap();
    let health = ensemble.status().await.health;
    assert!(matches!(health, Health::Whole { .. }), "{health:?}");

    full.kill().await.unwrap();
    let error = full.fill_disk().unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot fill the disk of server {}: it does not run; start it first",
            full.id()
        )
    );
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_server_with_a_torn_log_starts_once_that_is_discarded() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    let error = server.discard_torn_logs().unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot discard torn logs of server 1: it runs; stop it first"
    );
    server.kill().await.unwrap();
    // It wrote its canary, so there is a whole log to leave alone.
    assert_eq!(server.discard_torn_logs().unwrap(), Vec::<PathBuf>::new());
    let logs = log_directory(server);
    let torn = logs.join("log.7fffffff00000001");
    std::fs::write(&torn, "Z").unwrap();
    server.start().unwrap();
    let error = ensemble.wait_serving().await.unwrap_err();
    assert!(matches!(error, Error::ServerExited { .. }), "{error:?}");

    assert_eq!(server.discard_torn_logs().unwrap(), [torn]);
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_server_that_was_killed_before_it_wrote_its_epoch_starts_again() {
    let ensemble = in_memory(3).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    server.kill().await.unwrap();
    assert!(!server.write_missing_epoch().unwrap());
    let logs = log_directory(server);
    let epoch = logs.join("../../data/version-2/currentEpoch");
    let written = std::fs::read_to_string(&epoch).unwrap();
    std::fs::write(&epoch, "0").unwrap();
    server.start().unwrap();
    let error = ensemble.wait_serving().await.unwrap_err();
    assert!(
        matches!(error, Error::ServerExited { id: 1, .. }),
        "{error:?}"
    );

    assert!(server.write_missing_epoch().unwrap());
    assert_eq!(
        std::fs::read_to_string(&epoch).unwrap().trim(),
        written.trim()
    );
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

/// Where a server keeps its transaction logs, as its configuration says.
fn log_directory(server: &Server) -> PathBuf {
    let files = std::fs::read_dir(server.directory()).unwrap();
    let text: String = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cfg"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let named = text
        .lines()
        .find_map(|line| line.strip_prefix("dataLogDir="))
        .expect("the configuration names it");
    PathBuf::from(named).join("version-2")
}

// covers: H7
#[tokio::test]
async fn a_nemesis_that_fails_leaves_nothing_broken() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    // What is paused already cannot be paused.
    server.fill_disk().unwrap();
    server.pause().await.unwrap();
    let nemesis = Nemesis::new(7).faults([Fault::Pause]);
    let error = nemesis.run(&ensemble, Duration::from_secs(30)).await;
    assert!(matches!(error, Err(Error::WrongState { .. })), "{error:?}");
    assert_eq!(server.process_state(), ProcessState::Running);
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_rolling_restart_ends_with_the_leader_and_all_serve() {
    let ensemble = in_memory(3).start().await.unwrap();
    let pids = || -> Vec<_> { ensemble.servers().iter().map(Server::pid).collect() };
    let (before, leader) = (pids(), leads(&ensemble).await);
    ensemble.restart_rolling().await.unwrap();
    let after = pids();
    for (old, new) in before.iter().zip(&after) {
        assert!(old != new && new.is_some(), "{before:?} {after:?}");
    }
    assert_ne!(leads(&ensemble).await, leader);
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn a_clock_can_be_moved_and_put_right() {
    let ensemble = in_memory(1).movable_clock(true).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    let year = |server: &Server| {
        // Each question is logged, with the time.
        let mut link = TcpStream::connect(server.client_address()).unwrap();
        link.write_all(b"srvr").unwrap();
        link.read_to_end(&mut Vec::new()).unwrap();
        server.log_tail(1).chars().take(2).collect::<String>()
    };
    assert_eq!(year(server), "20");
    server
        .shift_clock(ClockShift::Ahead(100 * 366 * 86_400))
        .unwrap();
    eventually("the server lives in the next century", || {
        year(server) == "21"
    });
    // It serves on: sessions are counted on another clock.
    ensemble.wait_serving().await.unwrap();
    server
        .shift_clock(ClockShift::Behind(100 * 366 * 86_400))
        .unwrap();
    eventually("the server lives in the last century", || {
        year(server) == "19"
    });
    server.shift_clock(ClockShift::None).unwrap();
    eventually("its clock is right again", || year(server) == "20");
    let pid = server.pid().unwrap();
    // A process that is killed cannot tidy up what the clock's library shares.
    server.kill().await.unwrap();
    ensemble.down().await.unwrap();
    for shared in ["faketime_shm", "sem.faketime_sem"] {
        assert!(!Path::new(&format!("/dev/shm/{shared}_{pid}")).exists());
    }

    let ensemble = in_memory(1).start().await.unwrap();
    let error = ensemble
        .server(1)
        .unwrap()
        .shift_clock(ClockShift::Ahead(1))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a clock that jumps cannot be made here: the ensemble was started without movable clocks; start it with them"
    );
    ensemble.down().await.unwrap();
}

// covers: H7
#[tokio::test]
async fn selectors_mean_the_servers_of_the_moment() {
    let ensemble = in_memory(3).start().await.unwrap();
    let ids = async |which| -> Vec<u32> {
        let servers = ensemble.select(which).await.unwrap();
        servers.iter().map(|server| server.id()).collect()
    };
    let leader = leads(&ensemble).await;
    assert_eq!(ids(Selector::Leader).await, [leader]);
    assert_ne!(ids(Selector::Follower).await, [leader]);
    assert_eq!(ids(Selector::All).await, [1, 2, 3]);
    ensemble.server(leader).unwrap().kill().await.unwrap();
    assert_ne!(ids(Selector::Leader).await, [leader]);
    let error = ensemble.select(Selector::Id(9)).await.unwrap_err();
    assert!(
        matches!(error, Error::NoSuchServer { id: 9, .. }),
        "{error:?}"
    );
    ensemble.down().await.unwrap();

    let alone = in_memory(1).start().await.unwrap();
    let error = alone.select(Selector::Follower).await.unwrap_err();
    assert_eq!(error.to_string(), "no server follows: server 1: standalone");
    alone.down().await.unwrap();
}
