//! Requests that the server's release does not know.

use std::time::Duration;

use zk_wire::{Client, Config, Loss, NodePath, Release, Request, RequestErrorKind, SubmitError};

use crate::expected;
use crate::server::{Script, Server};

const WHO_AM_I: i32 = 107;

async fn outcome(client: &Client, request: Request) -> Result<(), RequestErrorKind> {
    let answer = expected("the outcome", client.request(&request)).await;
    answer.map(drop).map_err(|error| error.kind)
}

fn sync() -> Request {
    let path = NodePath::root();
    Request::Sync { path }
}

#[tokio::test]
async fn each_unknown_request_costs_a_connection_and_says_so() {
    let server = Server::start(Script {
        unknown: WHO_AM_I,
        ..Script::default()
    })
    .await;
    let client = Client::new(vec![server.host()], Config::new(Duration::from_secs(10)));
    for connection in 1..4 {
        let lost = outcome(&client, Request::WhoAmI).await;
        let Err(RequestErrorKind::Unknown { epoch, why }) = lost else {
            panic!("the server has answered: {lost:?}");
        };
        assert_eq!(epoch, connection);
        assert!(matches!(why, Loss::MaybeTooOld { .. }), "{why:?}");
    }
    assert_eq!(outcome(&client, sync()).await, Ok(()));
}

#[tokio::test]
async fn with_an_assumed_release_nothing_unknown_is_sent() {
    let server = Server::start(Script {
        unknown: WHO_AM_I,
        ..Script::default()
    })
    .await;
    let mut config = Config::new(Duration::from_secs(10));
    let assumed = Release::new(3, 4, 0);
    config.assumed_release = Some(assumed);
    let client = Client::new(vec![server.host()], config);
    let needs = Release::new(3, 7, 0);
    let refused = SubmitError::Unsupported { needs, assumed };
    assert_eq!(
        outcome(&client, Request::WhoAmI).await,
        Err(RequestErrorKind::Submit(refused))
    );
    assert_eq!(outcome(&client, sync()).await, Ok(()));
    assert_eq!(server.granted(), 1);
}
