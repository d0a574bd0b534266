//! Requests with a deadline.

use std::time::Duration;

use tokio::time::Instant;
use zk_wire::{Client, Config, NodePath, Request, RequestErrorKind};

use crate::expected;
use crate::server::{Script, Server};

const SYNC: i32 = 9;

fn sync() -> Request {
    let path = NodePath::root();
    Request::Sync { path }
}

#[tokio::test]
async fn at_its_deadline_a_request_is_taken_back_unless_it_was_sent() {
    let script = Script {
        unanswered: SYNC,
        ..Script::default()
    };
    let server = Server::start(script).await;
    let mut config = Config::new(Duration::from_secs(60));
    config.max_in_flight = 1;
    let client = Client::new(vec![server.host()], config);
    expected("a session", client.connected()).await.unwrap();
    let deadline = Instant::now() + Duration::from_millis(200);
    let (first, second) = (sync(), sync());
    let (sent, waiting) = tokio::join!(
        client.request_by(&first, deadline),
        client.request_by(&second, deadline)
    );
    let kinds = [sent, waiting].map(|result| result.unwrap_err().kind);
    let outcomes = [RequestErrorKind::Unanswered, RequestErrorKind::TakenBack];
    assert_eq!(kinds, outcomes);

    let silent = Script {
        silent: usize::MAX,
        ..Script::default()
    };
    let server = Server::start(silent).await;
    let client = Client::new(vec![server.host()], Config::new(Duration::from_secs(60)));
    // One that has passed already.
    let error = client
        .request_by(&sync(), Instant::now())
        .await
        .unwrap_err();
    assert_eq!(error.kind, RequestErrorKind::TakenBack);
}
