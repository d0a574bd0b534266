//! What a client finds out about the server that it is connected to.

use std::time::Duration;

use zk_harness::{Ensemble, Role};
use zk_wire::{Client, Config, ServerRole};

use crate::{expected, hosts_of, start};

async fn connect_to(host: &str) -> Client {
    let client = Client::new(hosts_of(host), Config::new(Duration::from_secs(10)));
    expected("a session", client.connected())
        .await
        .expect("the server grants a session");
    client
}

/// Asks until the server replies to `srvr` in time.
async fn known_role(client: &Client) -> (ServerRole, u64) {
    let asking = async {
        loop {
            if let Some(role) = client.server_role().await {
                break role;
            }
        }
    };
    expected("the role of the server", asking).await
}

async fn role(client: &Client) -> Option<(ServerRole, u64)> {
    expected("the role of the server", client.server_role()).await
}

#[tokio::test]
async fn the_role_is_that_of_the_server_of_the_connection() {
    let ensemble: Ensemble = start(3, false).await;
    let mut leaders = 0;
    for server in ensemble.servers() {
        let client = connect_to(&server.client_address().to_string()).await;
        let mode = server.srvr().await.expect("the server replies").mode;
        let expected = match mode {
            Role::Leader => ServerRole::Leader,
            Role::Follower => ServerRole::Follower,
            other => panic!("{other:?}"),
        };
        leaders += u32::from(expected == ServerRole::Leader);
        assert_eq!(known_role(&client).await, (expected, 1));
        client.close().await;
    }
    assert_eq!(leaders, 1);
    ensemble.down().await.expect("the servers go down");
}

#[tokio::test]
async fn the_role_is_unknown_behind_a_proxy_and_without_an_ensemble() {
    let proxied = start(3, true).await;
    let client = connect_to(&proxied.connect_string()).await;
    assert_eq!(role(&client).await, None);
    client.close().await;
    proxied.down().await.expect("the servers go down");
    let single = start(1, false).await;
    let client = connect_to(&single.connect_string()).await;
    assert_eq!(role(&client).await, None);
    client.close().await;
    single.down().await.expect("the server goes down");
}
