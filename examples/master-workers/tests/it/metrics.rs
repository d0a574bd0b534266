//! What a process serves to Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use master_workers::metrics_endpoint::serve_metrics;
use master_workers::prune::{Pruned, prune};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_harness::Ensemble;

use crate::{Process, observer, program, tree, until};

/// An address that no other process has: all that begin with 127 are of this machine, and the rest is the process id.
fn address(port: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, high | 0x80, middle, low], port))
}

/// Waits until each of these begins a line of what is served.
async fn until_served(address: SocketAddr, expected: &[&str]) -> String {
    until("all metrics are served", async || {
        let text = scraped(address).await?;
        let is_served = |start: &&str| text.lines().any(|line| line.starts_with(*start));
        expected.iter().all(is_served).then_some(text)
    })
    .await
}

/// Reads all metrics as Prometheus does; `None` while there is no complete reply.
async fn scraped(address: SocketAddr) -> Option<String> {
    let scraping = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.ok()?;
        let (head, body) = reply.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200 ").then(|| body.to_owned())
    };
    timeout(Duration::from_secs(5), scraping).await.ok()?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_serves_the_metrics_of_all_crates_to_prometheus() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let address = address(9464);
    let option = address.to_string();
    let anna = Process::start_with("anna", &connect, &["--metrics", &option]);
    let submit = ["submit", "--count", "3", "paint fence"];
    let submitted = program(&connect).args(submit).output().await.unwrap();
    assert!(submitted.status.success(), "{submitted:?}");

    let expected = [
        "# TYPE zk_operation_duration_seconds histogram",
        "# TYPE zk_queue_delivery_duration_seconds histogram",
        "zk_sessions{state=\"connected\"} 1",
        "zk_leader_participants{state=\"leading\"} 1",
        "zk_caches{state=\"loading\"} 0",
        "zk_cache_unsynchronized_duration_seconds_bucket{state=\"loading\",le=\"300\"} ",
        "zk_queue_item_age_seconds_count ",
        "zk_queue_delivery_duration_seconds_count{outcome=\"acknowledged\"} 3",
        "zk_queue_items{queue=\"inbox\",state=\"ready\"} 0",
    ];
    let text = until_served(address, &expected).await;
    assert!(
        text.contains("# HELP zk_caches Caches that have not ended"),
        "{text}"
    );

    // Another process cannot have the address, and says so instead of running unobserved.
    let mut another = program(&connect);
    let another = another.args(["node", "--metrics", &option]).output();
    let refused = another.await.unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && complaint.contains("metrics cannot be served at 127."),
        "{complaint}"
    );
    anna.end().await;
    ensemble.down().await.unwrap();
}

/// A process of the application elects with a place in a queue, which is not measured. A service that prunes on a timer
/// reports the wait for the lock and its holding.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_prunes_serves_the_metrics_of_its_lock() {
    let address = address(9465);
    serve_metrics(address).unwrap();
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = observer(&ensemble).await;
    let pruned = prune(&session, &tree(), 10).await.unwrap();
    assert_eq!(pruned, Pruned::Deleted(0));
    let expected = [
        "# TYPE zk_lock_wait_duration_seconds histogram",
        "# TYPE zk_lock_hold_duration_seconds histogram",
        "zk_lock_wait_duration_seconds_count{kind=\"fair\",outcome=\"acquired\"} 1",
        "zk_lock_hold_duration_seconds_count{kind=\"fair\",outcome=\"released\"} 1",
    ];
    until_served(address, &expected).await;
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}
