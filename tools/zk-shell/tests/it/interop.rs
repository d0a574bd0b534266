//! What `zk` writes, ZooKeeper's own Java shell reads, and the other way round.

use tokio::process::Command;
use zk_harness::Ensemble;

use crate::{command, in_memory};

/// Runs one command of the shell that comes with ZooKeeper and returns what it printed.
async fn java(ensemble: &Ensemble, arguments: &[&str]) -> String {
    let distribution = ensemble.distribution();
    let classpath = std::env::join_paths(&distribution.classpath).expect("paths without colons");
    let output = Command::new(&distribution.java)
        .arg("-cp")
        .arg(classpath)
        .args(["org.apache.zookeeper.ZooKeeperMain", "-server"])
        .arg(ensemble.connect_string())
        .args(arguments)
        // Java speaks the encoding of the locale.
        .env("LC_ALL", "C.UTF-8")
        .output()
        .await
        .expect("Java runs");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out
}

async fn zk(ensemble: &Ensemble, arguments: &[&str]) -> String {
    let output = command(&ensemble.connect_string(), arguments)
        .output()
        .await
        .expect("zk runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).expect("text")
}

/// The lines that both shells print; Java's also says when it has connected.
fn ends_with_lines(printed: &str, expected: &str) {
    assert!(
        printed.ends_with(expected),
        "{expected:?} is not the end of {printed:?}"
    );
}

#[tokio::test]
async fn java_reads_what_zk_wrote_and_the_other_way_round() {
    let ensemble = in_memory(1).await;
    zk(&ensemble, &["create", "-p", "/app/config", "größe=7"]).await;
    zk(&ensemble, &["create", "-s", "/app/item-", "one"]).await;
    ends_with_lines(&java(&ensemble, &["get", "/app/config"]).await, "größe=7\n");
    ends_with_lines(
        &java(&ensemble, &["get", "/app/item-0000000001"]).await,
        "one\n",
    );
    ends_with_lines(
        &java(&ensemble, &["ls", "/app"]).await,
        &zk(&ensemble, &["ls", "/app"]).await,
    );
    ends_with_lines(
        &java(&ensemble, &["stat", "/app/config"]).await,
        &zk(&ensemble, &["stat", "/app/config"]).await,
    );
    java(&ensemble, &["set", "/app/config", "size=8"]).await;
    assert_eq!(zk(&ensemble, &["get", "/app/config"]).await, "size=8\n");
    java(&ensemble, &["deleteall", "/app"]).await;
    assert_eq!(zk(&ensemble, &["ls", "/"]).await, "[zookeeper]\n");
    ensemble.down().await.expect("the server goes down");
}
