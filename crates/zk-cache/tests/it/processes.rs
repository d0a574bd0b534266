//! The example program, paused for longer than its session lives.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use zk_harness::Ensemble;
use zk_sim::wait;

use crate::{connect, example, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_past_its_session_prints_the_difference() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = connect(&ensemble).await;
    for path in ["/t/a", "/t/b", "/t/c"] {
        session.create(path, "0").parents().await.unwrap();
    }
    let mut child = Command::new(example("follow"))
        .args([&ensemble.connect_string(), "/t"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = async |what: &str| {
        let mut said = Vec::new();
        soon(what, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let is_it = line.starts_with(what);
                said.push(line);
                if is_it {
                    return said;
                }
            }
            panic!("the program ended before it printed: {what}");
        })
        .await
    };
    let said = until("synchronized").await;
    assert_eq!(said.len(), 5, "{said:?}");
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    let server = ensemble.server(1).unwrap();
    let ours = session.id().as_i64().cast_unsigned();
    let others = async || {
        let mut sessions = server.cons().await.unwrap().sessions;
        sessions.retain(|id| *id != ours);
        sessions
    };
    let expiring = others().await;
    assert_eq!(expiring.len(), 1, "that of the program");
    kill_process(pid, Signal::STOP).unwrap();
    wait::until("its session expires", async || others().await.is_empty()).await;
    session.delete("/t/a").await.unwrap();
    session.create("/t/a", "0").await.unwrap();
    session.set("/t/b", "1").await.unwrap();
    session.delete("/t/c").await.unwrap();
    session.create("/t/d", "0").await.unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    let mut said = until("synchronized").await;
    assert_eq!(said.remove(0), "stale");
    said.pop();
    said.sort();
    assert_eq!(
        said,
        [
            "changed /t/b",
            "created /t/a",
            "created /t/d",
            "deleted /t/a",
            "deleted /t/c"
        ]
    );
    let next = others().await;
    assert!(
        next.len() == 1 && next != expiring,
        "it has another session"
    );
    child.kill().await.unwrap();
    ensemble.down().await.unwrap();
}
