//! The client against real servers.

#![cfg(test)]

use std::time::Duration;

use bytes::Bytes;
use zk_harness::Ensemble;
use zk_wire::{
    Acl, Answer, Client, Config, ConnectionState, CreateMode, Host, NewNode, NodePath, Request,
    RequestError,
};

mod connections;
mod credentials;
mod operations;
#[cfg(feature = "digest-md5")]
mod sasl;
mod server_role;
mod sessions;
#[cfg(feature = "ring")]
mod tls;

/// How long a test waits for what it expects.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Waits for what is expected, and says so if it does not come.
async fn expected<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(MAX_WAIT, waiting).await;
    waited.unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {what}"))
}

/// Starts servers, without or with a proxy in front of them.
async fn start(servers: usize, proxied: bool) -> Ensemble {
    let ensemble = Ensemble::builder().servers(servers).proxied(proxied);
    // Servers that stand still for a moment stay in the quorum.
    let ensemble = ensemble.sync_limit(50);
    ensemble.start().await.expect("the servers start")
}

/// The addresses of an ensemble's servers, or of the proxy in front of them.
fn hosts(ensemble: &Ensemble) -> Vec<Host> {
    hosts_of(&ensemble.connect_string())
}

fn hosts_of(hosts: &str) -> Vec<Host> {
    let host = |host: &str| {
        let (name, port) = host.rsplit_once(':').expect("an address has a port");
        Host {
            name: name.to_owned(),
            port: port.parse().expect("a port is a number"),
        }
    };
    hosts.split(',').map(host).collect()
}

/// Connects to an ensemble with a session timeout.
async fn connect(ensemble: &Ensemble, timeout: Duration) -> Client {
    let client = Client::new(hosts(ensemble), Config::new(timeout));
    expected("a session", client.connected())
        .await
        .expect("a server grants a session");
    client
}

/// Sends a request, and waits for its answer.
async fn request(client: &Client, request: Request) -> Result<Answer, RequestError> {
    expected("the answer to a request", client.request(&request)).await
}

fn path(text: &str) -> NodePath {
    text.parse().expect("it is a path")
}

/// A node that everyone may do everything with.
fn node(at: &str, data: &'static str, mode: CreateMode) -> NewNode {
    NewNode {
        path: path(at),
        data: Bytes::from_static(data.as_bytes()).into(),
        acl: Acl::open(),
        mode,
    }
}

/// Waits for a connection after the one with this number, and returns its number.
async fn epoch_after(client: &Client, epoch: u64) -> u64 {
    let is_later = |state: &ConnectionState| match state {
        ConnectionState::Connected { epoch: now, .. } => *now > epoch,
        ConnectionState::Disconnected { .. } | ConnectionState::Over(_) => false,
    };
    let mut states = client.states();
    let state = expected("a new connection", states.wait_for(is_later)).await;
    match *state.expect("the client runs") {
        ConnectionState::Connected { epoch, .. } => epoch,
        ConnectionState::Disconnected { .. } | ConnectionState::Over(_) => epoch,
    }
}
