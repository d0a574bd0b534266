//! Which client the sessions of a run use: a run with one client must not silently be one with the other.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use zk_core::{ProtocolClient, Session};
use zk_harness::Ensemble;

/// Chooses the client; `cargo xtask test wire` sets it.
const CLIENT: &str = "ZK_CORE_CLIENT";
/// For a program that ends at once on an idle machine.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn sessions_use_the_client_that_the_environment_names() {
    let ensemble = Ensemble::builder().servers(1).start().await;
    let ensemble = ensemble.expect("a server starts");
    let chosen = std::env::var(CLIENT).unwrap_or_else(|_| "zk-wire".to_owned());
    let by_default = Session::builder(ensemble.connect_string());
    let other = by_default.clone().client(ProtocolClient::ZookeeperClient);
    for (builder, client) in [(by_default, chosen.as_str()), (other, "zookeeper-client")] {
        let transport = builder.transport().await.expect("a session is granted");
        let shown = format!("{transport:?}");
        assert_eq!(
            shown.contains("WireTransport"),
            client == "zk-wire",
            "{shown}"
        );
        transport.close();
    }
    ensemble.down().await.expect("the server goes down");
}

/// A name that is no client ends a program, so each program reads the variable.
#[tokio::test(flavor = "multi_thread")]
async fn programs_use_the_client_that_the_environment_names() {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history");
    let history = history.to_str().unwrap();
    let nowhere = ["name", "127.0.0.1:1", "/path", "4000"];
    for (program, more) in [
        (env!("CARGO_BIN_EXE_lock-worker"), &[history][..]),
        (env!("CARGO_BIN_EXE_queue-worker"), &[history, "producer"]),
        (
            env!("CARGO_BIN_EXE_melee"),
            &[directory.path().to_str().unwrap(), "mutex", "curator"],
        ),
    ] {
        let mut child = Command::new(program)
            .args(nowhere)
            .args(more)
            .env(CLIENT, "neither")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        // The end of its input would end it, too.
        let input = child.stdin.take();
        let ended = tokio::time::timeout(SOON, child.wait_with_output()).await;
        drop(input);
        let output = ended.unwrap_or_else(|_| panic!("waited {SOON:?} for the end of {program}"));
        let output = output.expect("its output can be read");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{program}");
        assert!(said.contains("ZK_CORE_CLIENT=neither"), "{program}: {said}");
    }
}
