//! What every client does on command, and ZooKeeper's own client.

use std::pin::Pin;
use std::time::Duration;

use zk_tests::peers::{Curator, CuratorProcess};

/// A client that carries out commands, and answers in the words that `PlainClient.java` lists.
pub(super) trait Peer: Send {
    fn does<'a>(&'a mut self, command: &'a str) -> Answer<'a>;
}

pub(super) type Answer<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// How a client connects.
#[derive(Debug, Clone)]
pub(super) struct Connect {
    /// `host:port,…/chroot`
    pub(super) servers: String,
    pub(super) timeout: Duration,
    /// Whether a server without a quorum will do.
    pub(super) read_only: bool,
    /// The scheme and the credentials.
    pub(super) auth: Option<(&'static str, &'static str)>,
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            servers: String::new(),
            timeout: Duration::from_secs(30),
            read_only: false,
            auth: None,
        }
    }
}

/// ZooKeeper's own client.
pub(super) struct Java(CuratorProcess);

impl Java {
    pub(super) async fn start(connect: &Connect) -> Self {
        let curator = Curator::find().await.unwrap();
        let timeout = connect.timeout.as_millis().to_string();
        let read_only = connect.read_only.to_string();
        let mut arguments = vec![connect.servers.as_str(), &timeout, &read_only];
        if let Some((scheme, credentials)) = connect.auth {
            arguments.extend([scheme, credentials]);
        }
        let process = CuratorProcess::start(&curator, "PlainClient", &arguments).await;
        Self(process.unwrap())
    }
}

impl Peer for Java {
    fn does<'a>(&'a mut self, command: &'a str) -> Answer<'a> {
        Box::pin(async move { self.0.does(command, "did").await.unwrap() })
    }
}

/// Waits until a condition holds, or for this long; returns the last state.
pub(super) async fn wait_for_state(
    wanted: &str,
    millis: &str,
    state: impl Fn() -> &'static str,
) -> String {
    let within = Duration::from_millis(millis.parse().unwrap());
    let reached = async {
        let mut poll = tokio::time::interval(Duration::from_millis(2));
        while state() != wanted {
            poll.tick().await;
        }
    };
    // What is answered is the state, whether it was reached or not.
    drop(tokio::time::timeout(within, reached).await);
    state().to_owned()
}
