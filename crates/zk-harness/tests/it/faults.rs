//! Tests the effect of each fault on an ensemble, and that it can be undone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_harness::fault::ClockShift;
use zk_harness::nemesis::{Fault, Nemesis};
use zk_harness::{Ensemble, Error, Health, ProcessState, Selector, Server};

use crate::support::{eventually, in_memory};

/// A session that sends no requests.
struct Silent {
    link: TcpStream,
    session: i64,
    password: [u8; 16],
}

impl Silent {
    /// Opens or resumes a session; `None` if the server grants none.
    fn open(server: &Server, session: i64, password: [u8; 16]) -> Option<Self> {
        let mut link = TcpStream::connect(server.client_address()).unwrap();
        link.set_read_timeout(Some(Duration::from_secs(60)))
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

#[tokio::test]
async fn expire_ends_a_session_at_any_server_at_once() {
    for version in ["3.8", "3.9"] {
        let ensemble = in_memory(3).zookeeper(version).start().await.unwrap();
        for server in ensemble.servers() {
            let mut session = Silent::open(server, 0, [0; 16]).expect("a session is granted");
            ensemble.expire(session.session).await.unwrap();
            // Its server closes the connection without sending anything.
            let mut rest = Vec::new();
            session.link.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, [] as [u8; 0], "{version}");
            let resumed = Silent::open(server, session.session, session.password);
            assert!(resumed.is_none(), "{version}: the session was resumed");
            let again = ensemble.expire(session.session).await.unwrap_err();
            assert!(matches!(again, Error::NoSuchSession { .. }), "{again:?}");
        }
        ensemble.down().await.unwrap();
    }
}

async fn leads(ensemble: &Ensemble) -> u32 {
    ensemble
        .wait_leader(Duration::from_secs(60))
        .await
        .unwrap()
        .id()
}

#[tokio::test]
async fn a_leader_with_a_full_disk_is_replaced_until_it_is_freed() {
    let ensemble = in_memory(3).start().await.unwrap();
    let full = ensemble.leader().await.unwrap();
    full.fill_disk().unwrap();
    // The write of the probe is the first one that fails.
    ensemble.wait_quorum().await.unwrap();
    assert_ne!(leads(&ensemble).await, full.id());

    match full.free_disk() {
        // It has exited because of the full disk, as servers of 3.9 may.
        Err(Error::WrongState { .. }) => {
            full.discard_torn_logs().unwrap();
            full.start().unwrap();
        }
        freed => freed.unwrap(),
    }
    ensemble.wait_serving().await.unwrap();
    let health = ensemble.status().await.health;
    assert!(matches!(health, Health::AllServing { .. }), "{health:?}");

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

#[tokio::test]
async fn a_server_starts_after_its_torn_log_was_discarded() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    let error = server.discard_torn_logs().unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot discard torn logs of server 1: it runs; stop it first"
    );
    server.kill().await.unwrap();
    // The probe wrote a node, so there is a complete log.
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

#[tokio::test]
async fn a_server_without_its_epoch_starts_after_the_repair() {
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

/// Returns the directory of a server's transaction logs from its configuration.
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
        .expect("the configuration contains it");
    PathBuf::from(named).join("version-2")
}

#[tokio::test]
async fn a_failed_nemesis_undoes_all_faults() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    // A paused server cannot be paused.
    server.fill_disk().unwrap();
    server.pause().await.unwrap();
    let nemesis = Nemesis::new(7).faults([Fault::Pause]);
    let error = nemesis.run(&ensemble, Duration::from_secs(30)).await;
    assert!(matches!(error, Err(Error::WrongState { .. })), "{error:?}");
    assert_eq!(server.process_state(), ProcessState::Running);
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn a_rolling_restart_restarts_every_server() {
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

#[tokio::test]
async fn a_clock_can_be_shifted_and_reset() {
    let ensemble = in_memory(1).movable_clock(true).start().await.unwrap();
    let server = ensemble.server(1).unwrap();
    let year = |server: &Server| {
        // The server logs each word with the time.
        let mut link = TcpStream::connect(server.client_address()).unwrap();
        link.write_all(b"srvr").unwrap();
        link.read_to_end(&mut Vec::new()).unwrap();
        server.log_tail(1).chars().take(2).collect::<String>()
    };
    assert_eq!(year(server), "20");
    server
        .shift_clock(ClockShift::Ahead(100 * 366 * 86_400))
        .unwrap();
    eventually("the server is in the next century", || year(server) == "21");
    // It still serves, because session timeouts use another clock.
    ensemble.wait_serving().await.unwrap();
    server
        .shift_clock(ClockShift::Behind(100 * 366 * 86_400))
        .unwrap();
    eventually("the server is in the last century", || year(server) == "19");
    server.shift_clock(ClockShift::None).unwrap();
    eventually("its clock is reset", || year(server) == "20");
    let pid = server.pid().unwrap();
    // A killed process cannot remove the shared memory of the clock's library.
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
        "a clock that jumps is not possible here: the ensemble was started without movable clocks; start it with movable clocks"
    );
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn selectors_use_the_current_roles() {
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
    assert_eq!(
        error.to_string(),
        "there is no follower: server 1: standalone"
    );
    alone.down().await.unwrap();
}
