//! TLS with real servers: sessions that work, and what a refusal says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_harness::certificates::{Flaw, Identity};
use zk_harness::{DataStore, Ensemble};
use zk_wire::{
    Certificates, Client, Config, ConnectionState, CreateMode, Host, Loss, NodeData, Reply,
    Request, Tls, TlsFailure,
};

use crate::{expected, hosts, hosts_of, node, path, request};

/// Starts servers, which offer TLS 1.2 before 3.9, and then 1.3 alone.
async fn start(servers: usize, version: &str) -> Ensemble {
    let mut ensemble = Ensemble::builder()
        .servers(servers)
        .zookeeper(version)
        // Large nodes on a busy disk would take longer than servers wait for one another.
        .data(DataStore::Memory);
    if version == "3.9" {
        ensemble = ensemble.property("ssl.enabledProtocols", "TLSv1.3");
        ensemble = ensemble.property("ssl.protocol", "TLSv1.3");
    }
    ensemble.tls(true).start().await.expect("the servers start")
}

/// Settings with these certificates.
fn config(authority: PathBuf, client: Option<&Identity>) -> Config {
    let mut certificates = Certificates::trusting(authority);
    if let Some(Identity {
        certificate, key, ..
    }) = client
    {
        certificates = certificates.with_identity(certificate.clone(), key.clone());
    }
    let mut config = Config::new(LONG);
    config.tls = Some(certificates.into());
    config
}

/// A session timeout that outlasts a restart of servers on a busy machine, whose first handshakes take seconds.
const LONG: Duration = Duration::from_secs(60);

/// Settings that the servers accept.
pub(crate) fn good(ensemble: &Ensemble) -> Config {
    let certificates = ensemble.certificates().expect("they have some");
    config(certificates.authority(), Some(&certificates.client()))
}

pub(crate) fn secure_hosts(ensemble: &Ensemble) -> Vec<Host> {
    hosts_of(&ensemble.secure_connect_string().expect("they have TLS"))
}

async fn connected(client: &Client) {
    let connected = expected("a session over TLS", client.connected()).await;
    connected.expect("a server grants a session");
}

/// Waits until no connection can be made, and returns why.
async fn refusal(hosts: Vec<Host>, config: Config) -> Loss {
    let client = Client::new(hosts, config);
    let mut states = client.states();
    let is_known = |state: &ConnectionState| {
        assert!(
            !matches!(state, ConnectionState::Connected { .. }),
            "it is connected"
        );
        matches!(state, ConnectionState::Disconnected { why: Some(_) })
    };
    let state = expected("a refusal", states.wait_for(is_known)).await;
    match state.expect("the client runs").clone() {
        ConnectionState::Disconnected { why: Some(why) } => why,
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Sends a request until it is answered: a connection may break at any time, also because servers that are busy elect
/// another leader.
async fn answered(client: &Client, wanted: &Request) -> Reply {
    loop {
        match request(client, wanted.clone()).await {
            Ok(answer) => return answer.reply,
            Err(error) => assert!(error.to_string().contains("unknown"), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_session_over_tls_moves_from_server_to_server() {
    for version in ["3.8", "3.9"] {
        let ensemble = start(3, version).await;
        let client = Client::new(secure_hosts(&ensemble), good(&ensemble));
        connected(&client).await;
        let created = Request::Create(node("/a", "x", CreateMode::Ephemeral));
        request(&client, created).await.expect("it is created");
        let id = client.saved_session().expect("it is established").id;
        // More than any buffer on the way takes at once, several times.
        let data = NodeData::from(vec![b'y'; 900_000]);
        let set = Request::SetData {
            path: path("/a"),
            data: data.clone(),
            version: None,
        };
        let sets = (0..8).map(|_| answered(&client, &set));
        futures_of(sets).await;
        ensemble.server(1).unwrap().kill().await.unwrap();
        ensemble.server(1).unwrap().start().unwrap();
        ensemble.wait_serving().await.unwrap();
        ensemble.server(2).unwrap().kill().await.unwrap();
        ensemble.server(2).unwrap().start().unwrap();
        ensemble.wait_serving().await.unwrap();
        let get = Request::GetData {
            path: path("/a"),
            watch: false,
        };
        let found = answered(&client, &get).await;
        assert!(matches!(found, Reply::Data { data: found, .. } if found == data));
        assert_eq!(client.saved_session().expect("it goes on").id, id);
        client.close().await;
        ensemble.down().await.expect("the servers go down");
    }
}

/// Runs futures at the same time.
async fn futures_of<T: Send + 'static>(
    all: impl Iterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(one) => {
                done.push(one);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done
}

#[tokio::test]
async fn each_refusal_of_a_certificate_says_why() {
    for version in ["3.8", "3.9"] {
        let ensemble = start(1, version).await;
        let certificates = ensemble.certificates().unwrap();
        let hosts = secure_hosts(&ensemble);
        let failure = async |config| match refusal(hosts.clone(), config).await {
            Loss::Tls { server, why } => {
                assert_eq!(server.host, hosts[0]);
                let shown = Loss::Tls {
                    server,
                    why: why.clone(),
                };
                println!("{version}: {shown}");
                why
            }
            other => panic!("{version}: {other}"),
        };
        let ca = certificates.authority();

        let mut other = config(certificates.other_authority(), Some(&certificates.client()));
        assert_eq!(failure(other).await, TlsFailure::UnknownAuthority);

        other = good(&ensemble);
        let renamed = other
            .tls
            .map(|tls| tls.with_server_name("zk.example").unwrap());
        other = good(&ensemble);
        other.tls = renamed;
        let wrong = failure(other).await;
        assert_eq!(
            wrong.to_string(),
            "the server's certificate is for localhost, 127.0.0.1, not for zk.example"
        );

        for client in [
            None,
            Some(certificates.flawed_client(Flaw::Expired)),
            Some(certificates.flawed_client(Flaw::OtherAuthority)),
        ] {
            let refused = failure(config(ca.clone(), client.as_ref())).await;
            assert!(
                matches!(refused, TlsFailure::ClientRefused(_)),
                "{client:?}: {refused:?}"
            );
        }

        for flaw in [Flaw::Expired, Flaw::OtherHost, Flaw::OtherAuthority] {
            certificates.replace_server(1, Some(flaw)).unwrap();
            ensemble.servers()[0].restart().await.unwrap();
            ensemble.wait_serving().await.unwrap();
            let refused = failure(good(&ensemble)).await;
            let is_it = match flaw {
                Flaw::Expired => matches!(refused, TlsFailure::Expired { .. }),
                Flaw::OtherHost => matches!(refused, TlsFailure::OtherHost { .. }),
                Flaw::OtherAuthority => refused == TlsFailure::UnknownAuthority,
            };
            assert!(is_it, "{flaw:?}: {refused:?}");
        }

        let plain = refusal(self::hosts(&ensemble), good(&ensemble)).await;
        println!("{version}: {plain}");
        let why = TlsFailure::Closed;
        assert!(
            matches!(&plain, Loss::Tls { why: found, .. } if *found == why),
            "{plain:?}"
        );
        ensemble.down().await.expect("the server goes down");
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_used_on_the_next_connection() {
    let ensemble = start(1, "3.9").await;
    let certificates = ensemble.certificates().unwrap();
    let directory = ensemble.directory().join("of-the-client");
    std::fs::create_dir(&directory).unwrap();
    let copied = |name: &str| directory.join(name);
    let replace = |by: &Identity| {
        std::fs::copy(&by.certificate, copied("certificate.pem")).unwrap();
        std::fs::copy(&by.key, copied("key.pem")).unwrap();
    };
    replace(&certificates.flawed_client(Flaw::Expired));
    let files = Certificates::trusting(certificates.authority())
        .with_identity(copied("certificate.pem"), copied("key.pem"));
    let mut config = Config::new(LONG);
    config.tls = Some(Tls::from(files));
    let client = Client::new(secure_hosts(&ensemble), config);
    let mut states = client.states();
    let is_refused =
        |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { why: Some(_) });
    drop(
        expected("a refusal", states.wait_for(is_refused))
            .await
            .expect("it runs"),
    );

    replace(&certificates.client());
    connected(&client).await;

    // The server gets another one, too, and the session goes on.
    let id = client.saved_session().expect("it is established").id;
    certificates.replace_server(1, None).unwrap();
    ensemble.servers()[0].restart().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    let root = Request::GetChildren {
        path: path("/"),
        watch: false,
    };
    request(&client, root).await.expect("it goes on");
    assert_eq!(client.saved_session().expect("it goes on").id, id);
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_in_the_reason() {
    let somewhere = vec![Host {
        name: "127.0.0.1".to_owned(),
        port: listener().await,
    }];
    let missing = refusal(
        somewhere,
        config(Path::new("/no/such/ca.pem").to_owned(), None),
    )
    .await;
    let text = missing.to_string();
    assert!(
        text.contains("cannot read /no/such/ca.pem: No such file or directory"),
        "{text}"
    );
}

/// Returns the port of a listener that accepts connections and says nothing, as long as the test runs.
async fn listener() -> u16 {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    port
}
