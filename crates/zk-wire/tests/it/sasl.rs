//! SASL with real servers.

use std::sync::Arc;
use std::time::Duration;

use zk_fault_proxy::{Clients, Close};
use zk_harness::{Ensemble, SaslDigest};
use zk_wire::sasl::DigestMd5;
use zk_wire::{
    Acl, AclEntry, Client, Config, ConnectionState, CreateMode, ErrorCode, Identity, Loss,
    Permissions, Reply, Request, RequestErrorKind, SessionEnd,
};

use crate::{epoch_after, expected, hosts, node, path, request};

const PASSWORD: &str = "it's,=;secret";

async fn start(version: &str, required: bool) -> Ensemble {
    let mut users = SaslDigest::new([("alice", PASSWORD)]);
    users.required = required;
    let ensemble = Ensemble::builder()
        .servers(1)
        .zookeeper(version)
        .proxied(true);
    let ensemble = ensemble.sasl_digest(users).start().await;
    ensemble.expect("the server starts")
}

fn config(password: &str) -> Config {
    let mut config = Config::new(Duration::from_secs(10));
    config.sasl = Some(Arc::new(DigestMd5::new("alice", password)));
    config
}

async fn connected(client: &Client) -> Result<(), SessionEnd> {
    expected("a session or its end", client.connected()).await
}

async fn who_am_i(client: &Client) -> Vec<Identity> {
    match request(client, Request::WhoAmI)
        .await
        .expect("an answer")
        .reply
    {
        Reply::Identities(identities) => identities,
        other => panic!("no identities: {other:?}"),
    }
}

#[tokio::test]
async fn a_password_is_proved_on_every_connection() {
    for version in ["3.8", "3.9"] {
        let ensemble = start(version, true).await;
        let client = Client::new(hosts(&ensemble), config(PASSWORD));
        connected(&client).await.expect("the password is right");
        let mut own = node("/own", "x", CreateMode::Ephemeral);
        own.acl = Acl::new([AclEntry::new(Permissions::ALL, "sasl", "alice")]);
        request(&client, Request::Create(own))
            .await
            .expect("it is created");
        let proxy = ensemble.proxy().unwrap();
        proxy.cut(Clients::All, Close::Rst).await;
        assert_eq!(epoch_after(&client, 1).await, 2);
        let get = Request::GetData {
            path: path("/own"),
            watch: false,
        };
        request(&client, get).await.expect("alice may read it");
        let identities = who_am_i(&client).await;
        let is_alice = |of: &Identity| (of.scheme.as_str(), of.name.as_str()) == ("sasl", "alice");
        assert!(identities.iter().any(is_alice), "{version}: {identities:?}");
        client.close().await;
        ensemble.down().await.expect("the server goes down");
    }
}

/// With Netty, a follower can reply to a token before it replies to the handshake.
#[tokio::test]
async fn no_reply_is_taken_for_that_to_the_handshake() {
    let users = SaslDigest::new([("alice", PASSWORD)]).required();
    let ensemble = Ensemble::builder()
        .servers(3)
        .property(
            "serverCnxnFactory",
            "org.apache.zookeeper.server.NettyServerCnxnFactory",
        )
        .proxied(true)
        .sasl_digest(users);
    let ensemble = ensemble.start().await.expect("the servers start");
    let client = Client::new(hosts(&ensemble), config(PASSWORD));
    connected(&client).await.expect("the password is right");
    let proxy = ensemble.proxy().unwrap();
    let mut epoch = 1;
    while epoch < 300 {
        proxy.cut(Clients::All, Close::Rst).await;
        epoch = epoch_after(&client, epoch).await;
    }
    let identities = who_am_i(&client).await;
    assert!(identities.iter().any(|of| of.name == "alice"));
    client.close().await;
    ensemble.down().await.expect("the servers go down");
}

#[tokio::test]
async fn a_wrong_password_or_none_ends_the_session() {
    for version in ["3.8", "3.9"] {
        for required in [false, true] {
            let ensemble = start(version, required).await;
            let wrong = Client::new(hosts(&ensemble), config("wrong"));
            let end = connected(&wrong).await.expect_err("the password is wrong");
            println!("{version}, required {required}, a wrong password: {end}");
            assert_eq!(end, SessionEnd::AuthFailed);

            let without = Client::new(hosts(&ensemble), Config::new(Duration::from_secs(10)));
            connected(&without).await.expect("this alone is granted");
            let root = Request::GetChildren {
                path: path("/"),
                watch: false,
            };
            let answer = request(&without, root).await;
            if required {
                let error = answer.expect_err("SASL is required");
                println!("{version}, required {required}, none: {error}");
                let needed = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
                assert!(
                    matches!(error.kind, RequestErrorKind::Refused { code, .. } if code == needed),
                    "{error}"
                );
                let is_over = |state: &ConnectionState| {
                    *state == ConnectionState::Over(SessionEnd::AuthRequired)
                };
                let mut states = without.states();
                drop(
                    expected("the end", states.wait_for(is_over))
                        .await
                        .expect("it runs"),
                );
            } else {
                answer.expect("SASL is not required");
            }
            ensemble.down().await.expect("the server goes down");
        }
    }
}

#[tokio::test]
async fn a_server_without_sasl_is_not_taken_for_one_that_accepts() {
    for version in ["3.8", "3.9"] {
        let ensemble = Ensemble::builder()
            .servers(1)
            .zookeeper(version)
            .start()
            .await;
        let ensemble = ensemble.expect("the server starts");
        let client = Client::new(hosts(&ensemble), config(PASSWORD));
        let mut states = client.states();
        let is_lost = |state: &ConnectionState| {
            matches!(state, ConnectionState::Disconnected { why: Some(_) })
        };
        let state = expected("a reason", states.wait_for(is_lost))
            .await
            .expect("it runs")
            .clone();
        let ConnectionState::Disconnected {
            why: Some(why @ Loss::Sasl { .. }),
        } = state
        else {
            panic!("{version}: {state:?}");
        };
        println!("{version}, no SASL configured: {why}");
        drop(client);
        ensemble.down().await.expect("the server goes down");
    }
}

#[cfg(feature = "ring")]
#[tokio::test]
async fn sasl_and_tls_work_together() {
    let users = SaslDigest::new([("alice", PASSWORD)]).required();
    let ensemble = Ensemble::builder().servers(3).tls(true).sasl_digest(users);
    let ensemble = ensemble.start().await.expect("the servers start");
    let mut config = crate::tls::good(&ensemble);
    config.sasl = Some(Arc::new(DigestMd5::new("alice", PASSWORD)));
    let client = Client::new(crate::tls::secure_hosts(&ensemble), config);
    connected(&client).await.expect("the password is right");
    let created = Request::Create(node("/a", "x", CreateMode::Ephemeral));
    request(&client, created).await.expect("it is created");
    for id in [1, 2, 3] {
        let server = ensemble.server(id).unwrap();
        server.restart().await.unwrap();
        ensemble.wait_serving().await.unwrap();
    }
    let exists = Request::Exists {
        path: path("/a"),
        watch: false,
    };
    let found = loop {
        match request(&client, exists.clone()).await {
            Err(error) if matches!(error.kind, RequestErrorKind::Unknown { .. }) => {}
            found => break found,
        }
    };
    found.expect("the session lives on");
    client.close().await;
    ensemble.down().await.expect("the servers go down");
}
