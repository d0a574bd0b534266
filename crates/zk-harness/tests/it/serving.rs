//! An ensemble that was started serves.

use std::time::Duration;

use zk_harness::{DataStore, Ensemble, Health, ProcessState, Role, ServerSpec};

use crate::support::{child_directory, for_each_release, in_child, in_memory, processes_of};

#[tokio::test]
async fn three_servers_serve_with_one_leader() {
    let ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let status = ensemble.status().await;
    assert!(
        matches!(status.health, Health::AllServing { .. }),
        "{}",
        status.seen()
    );
    let leaders = status
        .servers
        .iter()
        .filter(|server| server.role == Some(Role::Leader))
        .count();
    assert_eq!(leaders, 1, "{}", status.seen());
    assert!(ensemble.warnings().is_empty());
    for server in ensemble.servers() {
        let directory = server.directory();
        let myid = std::fs::read_to_string(directory.join("data/myid")).unwrap();
        assert_eq!(myid.trim(), server.id().to_string());
        assert!(directory.join(format!("zoo-{}.cfg", server.id())).exists());
        assert!(directory.join("start.sh").exists());
        assert!(
            server.log_tail(1_000).contains("binding to port"),
            "{}",
            server.log_tail(1_000)
        );
    }
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn ensembles_of_one_two_and_five_servers_serve() {
    for (servers, warnings) in [(1, 1), (2, 1), (5, 0)] {
        let ensemble = in_memory(servers).start().await.unwrap();
        let status = ensemble.status().await;
        assert!(
            matches!(status.health, Health::AllServing { .. }),
            "{}",
            status.seen()
        );
        assert_eq!(ensemble.servers().len(), servers);
        assert_eq!(ensemble.warnings().len(), warnings);
        ensemble.down().await.unwrap();
    }
}

#[tokio::test]
async fn both_supported_versions_serve_in_memory_and_on_disk() {
    for_each_release(async |version| {
        for data in [DataStore::Memory, DataStore::Disk] {
            let ensemble = Ensemble::builder()
                .servers(1)
                .zookeeper(version)
                .data(data)
                .start()
                .await
                .unwrap();
            assert!(
                ensemble.version().starts_with(&format!("{version}.")),
                "{}",
                ensemble.version()
            );
            let srvr = ensemble.servers()[0].srvr().await.unwrap();
            assert!(
                srvr.version.starts_with(ensemble.version()),
                "{}",
                srvr.version
            );
            let on_disk = ensemble.servers()[0].directory().join("data/myid").exists();
            assert_eq!(on_disk, data == DataStore::Disk);
            ensemble.down().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn every_four_letter_word_is_answered() {
    let ensemble = in_memory(3).start().await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    assert_eq!(leader.srvr().await.unwrap().mode, Role::Leader);
    assert!(leader.srvr().await.unwrap().epoch() >= 1);
    assert_eq!(leader.four_letter("ruok").await.unwrap(), "imok");
    let mntr = leader.mntr().await.unwrap();
    assert_eq!(mntr.number("zk_synced_followers"), Some(2));
    leader.cons().await.unwrap();
    assert_eq!(leader.wchs().await.unwrap().watches, 0);
    // The nodes of the readiness probes are removed with their sessions.
    for server in ensemble.servers() {
        // A lagging follower may still show them for a moment.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let dump = server.four_letter("dump").await.unwrap();
            let left = server.mntr().await.unwrap();
            let left: Option<u64> = left.number("zk_ephemerals_count");
            if !dump.contains("canary") && left == Some(0) {
                break;
            }
            let now = tokio::time::Instant::now();
            assert!(now < deadline, "{left:?} nodes left after a minute: {dump}");
        }
    }
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn settings_reach_the_servers() {
    let ensemble = Ensemble::builder()
        .server(ServerSpec::new(17))
        .server(ServerSpec::new(254))
        .server(ServerSpec::new(3))
        .data(DataStore::Memory)
        .tick_time(Duration::from_millis(300))
        .min_session_timeout(Duration::from_millis(700))
        .max_session_timeout(Duration::from_secs(9))
        .init_limit(40)
        .sync_limit(11)
        .max_client_connections(33)
        .property("snapCount", "5000")
        .start()
        .await
        .unwrap();
    for id in [17, 254, 3] {
        let conf = ensemble
            .server(id)
            .unwrap()
            .four_letter("conf")
            .await
            .unwrap();
        for line in [
            format!("serverId={id}"),
            "tickTime=300".to_owned(),
            "minSessionTimeout=700".to_owned(),
            "maxSessionTimeout=9000".to_owned(),
            "initLimit=40".to_owned(),
            "syncLimit=11".to_owned(),
            "maxClientCnxns=33".to_owned(),
        ] {
            assert!(
                conf.lines().any(|found| found == line),
                "{line} is not in\n{conf}"
            );
        }
    }
    assert!(ensemble.server(1).is_err());
    ensemble.down().await.unwrap();
}

/// Not a test: the process that the test below starts in another locale.
#[tokio::test]
async fn child_serves_from_odd_directories() {
    let Some(root) = child_directory() else {
        return;
    };
    for name in [
        "ünïcödé €😀",
        "-n $HOME `x` 'y' \\u0041 \\",
        "a=b:c#d!e;f*[g]%20&|<>",
    ] {
        let directory = root.join(name);
        let ensemble = Ensemble::builder().servers(1).directory(&directory);
        let ensemble = ensemble.start().await.unwrap();
        assert!(directory.join("server-1/data/version-2").exists());
        assert_eq!(processes_of(&directory), 1);
        let server = ensemble.server(1).unwrap();
        server.restart().await.unwrap();
        ensemble.wait_serving().await.unwrap();
        ensemble.down().await.unwrap();
        assert_eq!(processes_of(&directory), 0);
    }
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    println!("all served");
}

#[test]
fn odd_directories_serve_in_every_locale() {
    let root = tempfile::tempdir().unwrap();
    for locale in ["C", "C.UTF-8"] {
        let output = in_child("serving::child_serves_from_odd_directories", root.path())
            .env("LC_ALL", locale)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("all served"), "{locale}: {output:?}");
    }
}

#[tokio::test]
async fn a_server_can_be_started_with_its_script() {
    let ensemble = in_memory(3).start().await.unwrap();
    let follower = ensemble
        .servers()
        .iter()
        .find(|server| server.id() == 1)
        .unwrap();
    let script = follower.directory().join("start.sh");
    let refused = std::process::Command::new(&script).output().unwrap();
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.starts_with("server 1 already runs as process "),
        "{message}"
    );

    follower.kill().await.unwrap();
    let mut by_hand = std::process::Command::new(&script).spawn().unwrap();
    ensemble.wait_serving().await.unwrap();
    assert_eq!(follower.pid(), i32::try_from(by_hand.id()).ok());
    assert_eq!(follower.process_state(), ProcessState::Running);
    ensemble.down().await.unwrap();
    // It belongs to the ensemble, so it was killed.
    by_hand.wait().unwrap();
}

#[tokio::test]
async fn a_detached_ensemble_can_be_attached_to_and_taken_down() {
    let started = in_memory(1).start().await.unwrap();
    let connect = started.connect_string();
    let directory = started.detach().unwrap();
    let attached = Ensemble::attach(&directory).unwrap();
    assert_eq!(attached.connect_string(), connect);
    attached.leader().await.unwrap();
    drop(attached);
    let again = Ensemble::attach(&directory).unwrap();
    again.leader().await.unwrap();
    again.down().await.unwrap();
    assert!(!directory.exists());
    assert_eq!(processes_of(&directory), 0);
}
