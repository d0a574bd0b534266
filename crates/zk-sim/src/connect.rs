//! Opening a session.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::Session;

use crate::access::Identity;
use crate::shared::Shared;
use crate::transport::SimTransport;

/// A session about to be opened; `.await` gives the [`Session`].
#[derive(Debug)]
#[must_use = "nothing is opened before it is awaited"]
pub struct Connect {
    shared: Arc<Shared>,
    server: Option<usize>,
    timeout: Duration,
    identities: Vec<Identity>,
}

impl Connect {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            server: None,
            timeout: DEFAULT_TIMEOUT,
            identities: Vec::new(),
        }
    }

    /// Sets the session timeout; default 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Attaches the session to this server, from 1; otherwise sessions go round the servers that do not lag.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn server(mut self, server: usize) -> Self {
        self.server = Some(crate::control::index(&self.shared, server));
        self
    }

    /// Authenticates the session as a user of the `digest` scheme, besides those before.
    pub fn digest(mut self, user: &str, password: &str) -> Self {
        self.identities.push(Identity::digest(user, password));
        self
    }

    /// Opens the session without [`Session`] on top.
    ///
    /// # Panics
    ///
    /// When the server has not applied the opening within the session timeout, because it lags; and outside of a Tokio
    /// runtime.
    ///
    /// # Cancel safety
    ///
    /// The session may stay open until its timeout.
    pub async fn transport(self) -> SimTransport {
        let Self {
            shared,
            server,
            timeout,
            identities,
        } = self;
        let (session, link, opened) = shared.open(|world| world.open(server, timeout, identities));
        let transport = SimTransport::new(shared, session, timeout, link);
        let opened = tokio::time::timeout(timeout, opened).await;
        assert!(
            opened.is_ok(),
            "waited {timeout:?} for a server that lags to open the session; connect first, then let it lag"
        );
        transport
    }
}

impl IntoFuture for Connect {
    type Output = Session;
    type IntoFuture = Pin<Box<dyn Future<Output = Session> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let transport = self.transport().await;
            let servers = CONNECT_STRING
                .parse()
                .expect("the connect string is one of ours");
            Session::over(transport, servers)
        })
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// What errors name as the servers.
const CONNECT_STRING: &str = "simulated:2181";
