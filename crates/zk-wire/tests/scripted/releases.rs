//! Requests that the server's release does not know.

use std::time::Duration;

use zk_wire::{Client, Config, NotSent, Release, Request, RequestErrorKind};

use crate::expected;
use crate::server::{Script, Server};

const REMOVE_WATCHES: i32 = 18;
const WHO_AM_I: i32 = 107;

async fn outcome(client: &Client, request: Request) -> Result<(), RequestErrorKind> {
    let answer = expected("the outcome", client.request(&request)).await;
    answer.map(drop).map_err(|error| error.kind)
}

fn sync() -> Request {
    let path = "/".to_owned();
    Request::Sync { path }
}

#[tokio::test]
async fn an_unknown_request_costs_one_connection() {
    let server = Server::start(Script {
        srvr: "Zookeeper version: 3.6.4--d65253dcf68e9097c6e95a126463fd5fdeb4521c, built on 2022-12-18",
        unknown: WHO_AM_I,
        ..Script::default()
    })
    .await;
    let client = Client::new(vec![server.host()], Config::new(Duration::from_secs(10)));
    let lost = outcome(&client, Request::WhoAmI).await;
    assert!(
        matches!(lost, Err(RequestErrorKind::Unknown { epoch: 1, .. })),
        "{lost:?}"
    );
    for _ in 0..3 {
        let refused = outcome(&client, Request::WhoAmI).await;
        let why = NotSent::Unsupported {
            needs: Release::new(3, 7, 0),
            release: Release::new(3, 6, 4),
        };
        assert_eq!(refused, Err(RequestErrorKind::NotSent(why)));
        assert_eq!(outcome(&client, sync()).await, Ok(()));
    }
    assert_eq!(server.granted(), 2);
}

#[tokio::test]
async fn a_server_that_does_not_name_its_release_is_sent_everything() {
    let server = Server::start(Script {
        srvr: "srvr is not executed because it is not in the whitelist.\n",
        unknown: WHO_AM_I,
        ..Script::default()
    })
    .await;
    let client = Client::new(vec![server.host()], Config::new(Duration::from_secs(10)));
    for connection in 1..4 {
        let lost = outcome(&client, Request::WhoAmI).await;
        assert!(
            matches!(lost, Err(RequestErrorKind::Unknown { epoch, .. }) if epoch == connection),
            "{lost:?}"
        );
    }
    assert_eq!(outcome(&client, sync()).await, Ok(()));
}

#[tokio::test]
async fn dropping_watches_costs_one_connection_at_most() {
    let server = Server::start(Script {
        srvr: "ClickHouse Keeper version: v23.8.15.35-lts-060ff8e813a766a16a540063127f8e91e2d9b9c5\n",
        unknown: REMOVE_WATCHES,
        ..Script::default()
    })
    .await;
    let client = Client::new(vec![server.host()], Config::new(Duration::from_secs(10)));
    for _ in 0..3 {
        let path = "/".to_owned();
        let recursive = false;
        let add = Request::AddWatch { path, recursive };
        let set = expected("the watch", client.request(&add)).await;
        drop(set.expect("the server sets it").watch);
        // What is in flight behind the first removal is lost with it.
        drop(outcome(&client, sync()).await);
    }
    assert_eq!(outcome(&client, sync()).await, Ok(()));
    assert_eq!(server.granted(), 2);
}
