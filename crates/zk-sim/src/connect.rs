//! Opening a session.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::ConnectString;
use zk_core::NodePath;
use zk_core::Session;

use crate::access::Identity;
use crate::driver::Driver;
use crate::transport::SimTransport;
use crate::world::SessionOptions;

/// A session about to be opened; `.await` gives the [`Session`].
#[derive(Debug)]
#[must_use = "nothing is opened before it is kind"]
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

    /// Attaches the session to this server, from 1; otherwise sessions go round the servers that do not lag.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn server(mut self, server: usize) -> Self {
        self.options.server = Some(crate::control::index(&self.driver, server));
        self
    }

    /// Authenticates the session as a user of the `digest` scheme, besides those before.
    pub fn digest(mut self, user: &str, password: &str) -> Self {
        self.options
            .identities
            .push(Identity::digest(user, password));
        self
    }

    /// Gives the session a chroot, as a connect string does: every path of it is below this one.
    ///
    /// It is not looked whether the node exists.
    ///
    /// # Panics
    ///
    /// When it is not a path.
    pub fn chroot(mut self, chroot: &str) -> Self {
        self.chroot = match NodePath::parse(chroot) {
            Ok(chroot) => chroot,
            Err(error) => panic!("{chroot:?} is no chroot: {error}"),
        };
        self
    }

    /// Accepts a server without a quorum, if no other is found; see [`EnsembleBuilder::read_only`].
    ///
    /// [`EnsembleBuilder::read_only`]: crate::EnsembleBuilder::read_only
    pub fn allow_read_only(mut self) -> Self {
        self.options.takes_read_only = true;
        self
    }

    /// Sets how long a server that grants the session is waited for; default a minute.
    pub fn within(mut self, open_timeout: Duration) -> Self {
        self.open_timeout = open_timeout;
        self
    }

    /// Opens the session without [`Session`] on top.
    ///
    /// # Panics
    ///
    /// When no server grants the session for so long as [`within`](Self::within) says: none serves, or the one at hand
    /// lags. And outside of a Tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// The session may stay open until its timeout.
    pub async fn transport(self) -> SimTransport {
        let Self {
            driver,
            options,
            open_timeout,
            chroot,
        } = self;
        let opening = async {
            let (session, link, opened) = loop {
                if let Some(session) = driver.open(&options) {
                    break session;
                }
                // The pause of a client between two tries.
                let pause = driver.with(|world| world.settings().reconnect);
                drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
            };
            let transport =
                SimTransport::new(Arc::clone(&driver), session, options.timeout, link, chroot);
            let _gone = opened.await;
            transport
        };
        match tokio::time::timeout(open_timeout, opening).await {
            Ok(transport) => transport,
            Err(late) => panic!(
                "{late}: waited {open_timeout:?} for a server to open a session: none serves, or it lags; connect first, \
                 then disturb it"
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
                .expect("the connect string is one of ours");
            Session::over(self.transport().await, servers)
        })
    }
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// What errors name as the servers.
const HOST: &str = "simulated:2181";
