//! The shell against an ensemble that loses servers.

use std::time::Duration;

use crate::{MAX_WAIT, command, in_memory};

async fn run(connect: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let running = command(connect, arguments).output();
    let output = tokio::time::timeout(MAX_WAIT, running).await;
    let output = output.expect("it ends").expect("zk runs");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

#[tokio::test]
async fn get_answers_after_the_leader_is_killed_and_fails_in_time_without_a_quorum() {
    let ensemble = in_memory(3).await;
    let connect = ensemble.connect_string();
    let (code, out, err) = run(&connect, &["create", "/hello", "world"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "Created /hello\n"), "{err}");

    let leader = ensemble.wait_leader(MAX_WAIT).await.expect("one leads");
    leader.kill().await.expect("it can be killed");
    ensemble
        .wait_quorum()
        .await
        .expect("two of three elect another");
    let (code, out, err) = run(&connect, &["get", "/hello"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "world\n"), "{err}");

    let second = ensemble.wait_leader(MAX_WAIT).await.expect("one leads");
    second.kill().await.expect("it can be killed");
    // The last one may serve until it notices.
    let noticing = async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        while !ensemble
            .status()
            .await
            .seen()
            .contains("does not serve requests")
        {
            looks.tick().await;
        }
    };
    tokio::time::timeout(MAX_WAIT, noticing)
        .await
        .expect("the last one notices that it is alone");
    let (code, out, err) = run(&connect, &["--timeout", "8s", "get", "/hello"]).await;
    assert!(err.contains("within 8s"), "{err}");
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for server in ensemble.servers() {
        let address = server.client_address().to_string();
        assert!(err.contains(&address), "{address} is not in: {err}");
    }
    assert!(
        err.contains("refused the connection") && err.contains("does not serve"),
        "{err}"
    );

    leader.start().expect("it starts again");
    second.start().expect("it starts again");
    ensemble.wait_serving().await.expect("three serve again");
    let (code, out, err) = run(&connect, &["get", "/hello"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "world\n"), "{err}");
    ensemble.down().await.expect("the servers go down");
}
