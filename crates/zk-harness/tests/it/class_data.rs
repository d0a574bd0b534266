//! Tests that servers start from the class data of their distribution.

use std::path::Path;
use std::process::Command;

use zk_harness::Ensemble;

use crate::support::in_memory;

#[tokio::test]
async fn prepared_servers_start_from_class_data() {
    let distribution = Ensemble::builder().prepare().await.unwrap();
    let ensemble = in_memory(1).start().await.unwrap();
    let script = ensemble.servers()[0].directory().join("start.sh");
    let script = std::fs::read_to_string(script).unwrap();
    ensemble.down().await.unwrap();
    let flag = script.lines().find_map(|line| {
        let (_, file) = line.split_once("-XX:SharedArchiveFile=")?;
        Some(file.trim_end_matches([' ', '\\', '\'']))
    });
    // Java supports archives of application classes since version 13.
    assert_eq!(
        flag.is_some(),
        java_feature(&distribution.java) >= 13,
        "{script}"
    );
    let Some(file) = flag else { return };

    // Where Java loads a class of ZooKeeper from, started like the server.
    let loads = Command::new(&distribution.java)
        .args(["-XX:+UseSerialGC", "-Xlog:class+load", "-cp"])
        .arg(std::env::join_paths(&distribution.classpath).unwrap())
        .arg(format!("-XX:SharedArchiveFile={file}"))
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .output()
        .unwrap();
    let loads = String::from_utf8_lossy(&loads.stdout);
    let class = "org.apache.zookeeper.server.quorum.QuorumPeerMain source: shared objects file";
    assert!(loads.contains(class), "{loads}");
}

#[tokio::test]
async fn custom_jvm_flags_disable_class_data() {
    Ensemble::builder().prepare().await.unwrap();
    let flags = ["-Xmx64m", "-XX:TieredStopAtLevel=1"];
    let ensemble = in_memory(1).jvm_flags(flags).start().await.unwrap();
    let script = ensemble.servers()[0].directory().join("start.sh");
    let script = std::fs::read_to_string(script).unwrap();
    assert!(script.contains("-Xmx64m"), "{script}");
    assert!(!script.contains(".jsa"), "{script}");
    ensemble.down().await.unwrap();
}

fn java_feature(java: &Path) -> u32 {
    let version = Command::new(java).arg("-version").output().unwrap();
    let version = String::from_utf8(version.stderr).unwrap();
    let number = version.split('"').nth(1).unwrap();
    let number = number.strip_prefix("1.").unwrap_or(number);
    number.split('.').next().unwrap().parse().unwrap()
}
