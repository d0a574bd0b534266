//! Opens sessions.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::{ConnectString, NodePath, Session};

use crate::access::Identity;
use crate::driver::Driver;
use crate::transport::SimTransport;
use crate::world::SessionOptions;

/// The options of a session; `.await` opens it and returns the [`Session`].
#[derive(Debug)]
#[must_use = "the session is not opened before `.await`"]
pub struct Connect {
    driver: Arc<Driver>,
    options: SessionOptions,
    open_timeout: Duration,
    chroot: NodePath,
}

impl Connect {
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        Self {
            driver,
            options: SessionOptions {
                server: None,
                timeout: DEFAULT_TIMEOUT,
                identities: Vec::new(),
                takes_read_only: false,
                is_remote: false,
            },
            open_timeout: DEFAULT_OPEN_TIMEOUT,
            chroot: NodePath::root(),
        }
    }

    /// Sets the session timeout; default 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Attaches the session to this server, from 1; by default sessions take turns over the servers that do not lag.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn server(mut self, server: usize) -> Self {
        self.options.server = Some(crate::control::index(&self.driver, server));
        self
    }

    /// Authenticates the session as a user of the `digest` scheme, in addition to earlier ones.
    pub fn digest(mut self, user: &str, password: &str) -> Self {
        self.options
            .identities
            .push(Identity::digest(user, password));
        self
    }

    /// Sets the chroot, as a connect string does: all paths of the session are below it.
    ///
    /// The node need not exist.
    ///
    /// # Panics
    ///
    /// If `chroot` is not a valid node path.
    pub fn chroot(mut self, chroot: &str) -> Self {
        self.chroot = match NodePath::parse(chroot) {
            Ok(chroot) => chroot,
            Err(error) => panic!("{chroot:?} is not a valid chroot: {error}"),
        };
        self
    }

    /// Accepts a read-only session if there is no quorum; see [`EnsembleBuilder::read_only`].
    ///
    /// [`EnsembleBuilder::read_only`]: crate::EnsembleBuilder::read_only
    pub fn allow_read_only(mut self) -> Self {
        self.options.takes_read_only = true;
        self
    }

    /// Sets the time limit for opening the session; default 60 s.
    pub fn within(mut self, open_timeout: Duration) -> Self {
        self.open_timeout = open_timeout;
        self
    }

    /// Opens only the transport, without a [`Session`]. A chroot is that of the session, and not added to paths here.
    ///
    /// # Panics
    ///
    /// If no server grants the session in the time set by [`within`](Self::within), because none serves or the chosen
    /// one lags. Also outside of a Tokio runtime.
    pub async fn transport(self) -> SimTransport {
        let Self {
            driver,
            options,
            open_timeout,
            chroot: _,
        } = self;
        let opening = async {
            let (requested, (session, link, opened)) = loop {
                let requested = tokio::time::Instant::now().into_std();
                if let Some(session) = driver.open(&options) {
                    break (requested, session);
                }
                // The pause of a client between two attempts.
                let pause = driver.with(|world| world.settings().reconnect);
                drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
            };
            let transport = SimTransport::new(
                Arc::clone(&driver),
                session,
                options.timeout,
                requested,
                link,
            );
            let _gone = opened.await;
            transport
        };
        match tokio::time::timeout(open_timeout, opening).await {
            Ok(transport) => transport,
            Err(late) => panic!(
                "{late}: no server opened the session within {open_timeout:?}: none serves, or the chosen one lags; \
                 connect before you disturb the ensemble"
            ),
        }
    }
}

impl IntoFuture for Connect {
    type Output = Session;
    type IntoFuture = Pin<Box<dyn Future<Output = Session> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let chroot = match self.chroot.as_str() {
                "/" => "",
                chroot => chroot,
            };
            let servers: ConnectString = format!("{HOST}{chroot}")
                .parse()
                .expect("a constant host and a valid path are a connect string");
            Session::with_transport(self.transport().await, servers)
        })
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// The server that error messages name.
const HOST: &str = "simulated:2181";
