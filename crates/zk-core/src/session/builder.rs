//! Describing a session and connecting it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(feature = "tls")]
use zk_wire::Tls;
#[cfg(feature = "sasl")]
use zk_wire::sasl::DigestMd5;
use zk_wire::{
    Acl, Config, ConnectString, Credentials, Host, HostProvider, NodePath, ParseConnectStringError,
    Release, SessionEnd, TlsFailure,
};

use crate::connect_diagnosis::{ConnectDiagnosis, diagnose};
use crate::deadline::Deadline;
use crate::ensemble_config::{ServerFilter, TrackedServers};
use crate::error::{Error, ErrorKind};
use crate::lease_clock;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session_defaults::{DEFAULT_TIMEOUT, SessionDefaults};
use crate::session_handle::SessionHandle;
use crate::transport::wire::{ConnectOptions, WireTransport};
use crate::transport::{Transport, TransportError};

/// A session to be; made by [`Session::builder`].
///
/// # Defaults
///
/// Session timeout 10 s, connect timeout 10 s, operation timeout 10 s, no credentials, open access rules, the default
/// [`RetryPolicy`], no read-only servers, the servers of the connect string, requests of at most 1048575 bytes.
#[derive(Debug, Clone)]
#[must_use = "no session is opened until `connect` is awaited"]
pub struct SessionBuilder {
    connect: String,
    config: Config,
    host_provider: Option<SharedProvider>,
    connect_timeout: Duration,
    defaults: SessionDefaults,
    has_invalid_user: bool,
    tracked_servers: Option<TrackedServers>,
}

/// The provider of hosts of a session and of its successors.
#[derive(Clone)]
struct SharedProvider(Arc<dyn HostProvider>);

impl fmt::Debug for SharedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostProvider")
    }
}

impl Session {
    /// Returns a builder for a session with the ensemble at `connect`: `host:port,host:port/chroot`.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), zk_core::ConnectError> {
    /// use std::time::Duration;
    /// use zk_core::Session;
    ///
    /// let session = Session::builder("zk1,zk2:2182,[::1]/app")
    ///     .session_timeout(Duration::from_secs(15))
    ///     .connect_timeout(Duration::from_secs(5))
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(connect: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(connect.into())
    }
}

impl SessionBuilder {
    fn new(connect: String) -> Self {
        Self {
            connect,
            config: Config::new(DEFAULT_TIMEOUT),
            host_provider: None,
            connect_timeout: DEFAULT_TIMEOUT,
            defaults: SessionDefaults::default(),
            has_invalid_user: false,
            tracked_servers: None,
        }
    }

    /// Sets all settings of the client, in place of those that were made so far: for what has no method of its own here, such
    /// as a SASL mechanism of your own, a session to resume, or how many requests may wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zk_core::Session;
    /// use zk_core::wire::Config;
    ///
    /// let mut config = Config::new(Duration::from_secs(15));
    /// config.max_queued = 1_000;
    /// let builder = Session::builder("zk1,zk2").config(config).allow_read_only();
    /// ```
    ///
    /// The chroot is that of the connect string: one in `config` is a [`ConnectError::InvalidOption`]. A session to resume
    /// that has ended is [`ConnectError::NotResumed`], also for clones of the builder.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Asks this provider for the hosts, such as `SrvHosts` of `zk-wire`. Of the connect string only the chroot counts then.
    ///
    /// With [`track_ensemble`](Self::track_ensemble) it is a [`ConnectError::InvalidOption`].
    pub fn host_provider(mut self, provider: impl HostProvider) -> Self {
        self.host_provider = Some(SharedProvider(Arc::new(provider)));
        self
    }

    /// Asks for a session that outlives a silence of this length; default 10 s.
    ///
    /// The server bounds it, by default to 2 to 20 of its ticks; [`Session::session_timeout`] says what it granted.
    /// A server that is silent for two thirds of it is left for another one. If a server shortens it when the session moves
    /// there (`maxSessionTimeout`), the session goes on with the shorter one.
    /// From 1 ms to 2^31-1 ms; anything else is a [`ConnectError::InvalidOption`].
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Bounds the whole of [`connect`](Self::connect); default 10 s, zero is a [`ConnectError::InvalidOption`].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Bounds every operation that has no timeout of its own; default 10 s, zero is a [`ConnectError::InvalidOption`].
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.operation_timeout = timeout;
        self
    }

    /// Authenticates the session with ZooKeeper's `digest` scheme. Called again, it adds another user.
    ///
    /// The credentials go to the server in the clear and are in no debug output, error or log of this crate.
    /// A server does not check them; they decide what the acls of nodes permit.
    /// An empty user, or one with a `:`, is a [`ConnectError::InvalidOption`].
    pub fn digest_auth(mut self, user: &str, password: &str) -> Self {
        self.has_invalid_user |= user.is_empty() || user.contains(':');
        self.config.auth.push(Credentials::digest(user, password));
        self
    }

    /// Adds credentials of any scheme that the servers know. [`Session::add_auth`] adds some later.
    ///
    /// They are in no debug output, error or log of this crate. A server that refuses them ends the session:
    /// [`ConnectError::AuthFailed`], or a [loss](Session::lost) if it does so after the connection was made.
    pub fn auth(mut self, scheme: &str, data: impl Into<Vec<u8>>) -> Self {
        self.config.auth.push(Credentials::new(scheme, data.into()));
        self
    }

    /// Sets the retry policy of the session's operations; the default is that of [`RetryPolicy`].
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.defaults.retry = policy;
        self
    }

    /// Sets the access rules of nodes that are created without rules of their own; default [`Acl::open`].
    ///
    /// They hold for parents and for the nodes of recipes, too. A list without entries is a
    /// [`ConnectError::InvalidOption`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.defaults.acl = acl;
        self
    }

    /// Encrypts the connections to all servers, and refuses servers that cannot prove who they are.
    ///
    /// It takes [`Certificates`](zk_wire::Certificates) in PEM, or a configuration of rustls. The connect string must
    /// contain the `secureClientPort` of the servers. Text that is not PEM, or a file that cannot be read, is a
    /// [`ConnectError::InvalidTls`].
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: impl Into<Tls>) -> Self {
        self.config.tls = Some(tls.into());
        self
    }

    /// Proves on each connection, with the SASL mechanism DIGEST-MD5, that this is a user whose password the servers know.
    ///
    /// The password is not sent, and is in no debug output, error or log of this crate. If it is wrong, connecting is a
    /// [`ConnectError::AuthFailed`].
    #[cfg(feature = "sasl")]
    pub fn sasl_digest(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.config.sasl = Some(Arc::new(DigestMd5::new(user, password)));
        self
    }

    /// Accepts a server that is cut off from the quorum, if no other is found; it answers reads only.
    ///
    /// Such a session is of that server alone: it is lost when the connection to it ends, and so is the access to
    /// what could be read.
    /// The servers must have the read-only mode enabled (`readonlymode.enabled`), and local sessions
    /// (`localSessionsEnabled`): without the quorum they grant no other ones.
    pub fn allow_read_only(mut self) -> Self {
        self.config.read_only = true;
        self
    }

    /// Sets the release of the oldest server, such as 3 and 4. Default: 3.6 or later.
    ///
    /// Servers before 3.6 need this setting, and `ClickHouse` Keeper does, with release 3.4. The session then uses its
    /// fallbacks: `create` and a read of the stat instead of `create2` (3.5), one-shot watches instead of persistent ones,
    /// and single reads instead of multi-reads (3.6). An operation that has none is refused with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) before it is sent.
    ///
    /// Without the setting, such a server refuses newer operations with [`Unsupported`](crate::ErrorKind::Unsupported), or
    /// leaves them without a reply, and closes the connection, with all other requests in flight. If the connection ends
    /// twice at the same call, and no operation as new was ever answered in the session, the call ends with
    /// [`ConnectionLost`](crate::ErrorKind::ConnectionLost) or [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), and
    /// its error names this setting.
    /// While servers are replaced by newer ones, keep the setting until the last one is new.
    pub fn assume_release(mut self, major: u16, minor: u16) -> Self {
        // Its last patch: the requests of containers and of TTL nodes came with patches of 3.5.
        self.config.assumed_release = Some(Release::new(major, minor, u16::MAX));
        self
    }

    /// Sets the longest request of the session in bytes: that of the servers, their `jute.maxbuffer`. Default 1048575, as
    /// the servers have it.
    ///
    /// The data of a node is less by its path and some headers. A longer request is
    /// [`TooLarge`](crate::ErrorKind::TooLarge), and not sent: a server would close the connection.
    /// Replies may be 16 times as long, at least 16 MiB: lists of children, and several values that are read at once.
    ///
    /// From 1024 to 2^31-1; anything else is a [`ConnectError::InvalidOption`].
    pub fn max_buffer(mut self, bytes: usize) -> Self {
        self.config.max_request = bytes;
        // Several values are read at once.
        let longest = bytes.saturating_mul(REPLY_FACTOR);
        self.config.max_reply = self.config.max_reply.max(longest);
        self
    }

    /// Follows the dynamic configuration of the ensemble (`reconfig`): uses servers that join it, and leaves those that
    /// are removed from it. By default the servers are those of the connect string.
    ///
    /// - The servers of the connect string are used until the configuration changes. If none of them can be reached, those
    ///   of the configuration are tried as well.
    /// - A change replaces the list. A connection to a server that is not in the new one is given up; the session moves.
    /// - If no server of the list can be reached, those of the connect string are tried as well.
    /// - Sessions of clones of this builder, such as the successors of a session that was lost, begin with the newest
    ///   configuration that one of them has seen, and with the connect string.
    ///
    /// Not for clients that reach the servers at other addresses than the configuration has, as through address
    /// translation or from outside of a network of containers: after each change they lose their connection and try the
    /// configured addresses first.
    /// A configuration that lacks the client address of a server is ignored (see
    /// [`EnsembleConfig::client_addresses`](crate::EnsembleConfig::client_addresses)), and so is that of servers before
    /// 3.5, which have none. Costs one watch, one round trip, and another one for each change.
    ///
    /// The server that answers chooses what the configuration contains, and its servers are sent
    /// the session's credentials: with [`digest_auth`](Self::digest_auth), the password.
    /// So those servers alone are used whose names are in the domain of a name of the connect string (`zk4.example.org`
    /// beside `zk1.example.org`), and those of the connect string itself. For addresses, and for names without a domain,
    /// [`track_servers`](Self::track_servers) says which ones are used.
    ///
    /// The configuration has no encrypted ports: with [`tls`](Self::tls) it is a [`ConnectError::InvalidOption`].
    pub fn track_ensemble(self) -> Self {
        self.track_filtered(ServerFilter::SameDomain)
    }

    /// Follows the dynamic configuration of the ensemble as [`track_ensemble`](Self::track_ensemble) does, and uses those
    /// of its servers for which `is_ours` returns true, whatever their names are.
    ///
    /// It runs on the task of the session and must not block. The credentials of the session are sent to each such server:
    /// permit no address at which another user could listen.
    pub fn track_servers(self, is_ours: impl Fn(&Host) -> bool + Send + Sync + 'static) -> Self {
        self.track_filtered(ServerFilter::Application(Arc::new(is_ours)))
    }

    fn track_filtered(mut self, filter: ServerFilter) -> Self {
        self.tracked_servers = Some(TrackedServers {
            newest: Arc::default(),
            filter,
        });
        self
    }

    /// Connects and returns the session, connected.
    ///
    /// Servers are tried in random order, again and again until the connect timeout.
    /// With a chroot, the node it names must exist.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Safe: no session remains that the ensemble does not end by itself after its timeout.
    ///
    /// # Cost
    ///
    /// One connection and one round trip, and one more for a chroot.
    pub async fn connect(self) -> Result<Session, ConnectError> {
        let deadline = Deadline::after(self.connect_timeout);
        let asked = lease_clock::now();
        let (transport, servers) = self.open(deadline).await?;
        let session = Session::new(SessionHandle::start(
            transport,
            servers,
            self.defaults,
            Some(asked),
        ));
        tracing::debug!(session = %session.id(), timeout = ?session.session_timeout(), "connected");
        check_chroot(&session, deadline).await?;
        Ok(session)
    }

    /// Connects as [`connect`](Self::connect) does, and returns what is below a session: for tests of transports.
    ///
    /// A chroot is that of the session: here it is neither looked for nor added to paths.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`]. Cancel safety is that of [`connect`](Self::connect).
    pub async fn transport(self) -> Result<Box<dyn Transport>, ConnectError> {
        let deadline = Deadline::after(self.connect_timeout);
        Ok(self.open(deadline).await?.0)
    }

    async fn open(
        &self,
        deadline: Deadline,
    ) -> Result<(Box<dyn Transport>, ConnectString), ConnectError> {
        let servers: ConnectString = self.connect.parse().map_err(ConnectError::ConnectString)?;
        self.check()?;
        // The last part of the time is reserved for finding out why no server answered.
        let for_probe = (self.connect_timeout / 4).min(LONGEST_PROBE);
        let for_attempts = Deadline::after(self.connect_timeout.saturating_sub(for_probe));
        let (tls_failure, unproved) = (Mutex::default(), Mutex::default());
        let options = ConnectOptions {
            hosts: &servers.hosts,
            host_provider: self.host_provider.as_ref().map(|provider| &provider.0),
            config: &self.config,
            tracked_servers: self.tracked_servers.as_ref(),
            tls_failure: &tls_failure,
            unproved: &unproved,
        };
        let connected = for_attempts
            // Boxed because it is large, with encryption above all, and waited for once in the life of a session.
            .bound(Box::pin(self.attempt_until_connected(&options)))
            .await;
        if connected.is_none()
            && let Ok(Some((server, source))) = tls_failure.into_inner()
        {
            return Err(ConnectError::NotEncrypted { server, source });
        }
        if !matches!(connected, Some(Ok(_)))
            && let Ok(Some((server, problem))) = unproved.into_inner()
        {
            return Err(ConnectError::NotProved { server, problem });
        }
        match connected {
            Some(Ok(transport)) => Ok((transport, servers)),
            Some(Err(refused)) => Err(refused),
            None => {
                let hosts = self.hosts(servers, deadline).await;
                let left = deadline.remaining();
                let diagnosis = diagnose(&hosts, self.connect_timeout, left).await;
                Err(ConnectError::Unanswered(diagnosis))
            }
        }
    }

    /// Returns the hosts that were tried: those of the provider, or else of the connect string.
    async fn hosts(&self, servers: ConnectString, deadline: Deadline) -> Vec<Host> {
        let Some(SharedProvider(provider)) = &self.host_provider else {
            return servers.hosts;
        };
        match deadline.bound(provider.hosts()).await {
            Some(Ok(hosts)) => hosts,
            _ => servers.hosts,
        }
    }

    async fn attempt_until_connected(
        &self,
        options: &ConnectOptions<'_>,
    ) -> Result<Box<dyn Transport>, ConnectError> {
        let mut pause = FIRST_PAUSE;
        let bounded_by_caller = Deadline::after(self.connect_timeout);
        loop {
            match WireTransport::connect(options).await {
                Ok(transport) => return Ok(Box::new(transport)),
                Err(TransportError::Ended(SessionEnd::Expired)) if self.config.resume.is_some() => {
                    return Err(ConnectError::NotResumed);
                }
                Err(
                    TransportError::Ended(SessionEnd::AuthFailed)
                    | TransportError::Refused(ErrorKind::AuthFailed, Some(_)),
                ) => return Err(ConnectError::AuthFailed),
                Err(TransportError::Ended(SessionEnd::AuthRequired)) => {
                    return Err(ConnectError::AuthRequired);
                }
                Err(TransportError::Refused(ErrorKind::InvalidArgument, Some(problem))) => {
                    return Err(ConnectError::InvalidTls { problem });
                }
                Err(fault) => {
                    tracing::debug!(?fault, "no server granted a session, trying again");
                }
            }
            bounded_by_caller.pause(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn check(&self) -> Result<(), ConnectError> {
        let invalid = |option, rule| Err(ConnectError::InvalidOption { option, rule });
        if !(1..=MOST_SESSION_MILLIS).contains(&self.config.timeout.as_millis()) {
            return invalid(
                "session timeout",
                "it must be from 1 to 2147483647 milliseconds",
            );
        }
        for (option, timeout) in [
            ("connect timeout", self.connect_timeout),
            ("operation timeout", self.defaults.operation_timeout),
        ] {
            if timeout.is_zero() {
                return invalid(option, "it must be longer than zero");
            }
        }
        if self.defaults.acl.entries().is_empty() {
            return invalid("acl", "it must have an entry");
        }
        let limits = 1024..=i32::MAX.cast_unsigned() as usize;
        if !limits.contains(&self.config.max_request) {
            return invalid("max_buffer", "it must be from 1024 to 2147483647 bytes");
        }
        if !self.config.chroot.is_root() {
            return invalid("chroot", "write it behind the hosts of the connect string");
        }
        if self.tracked_servers.is_some() && self.host_provider.is_some() {
            return invalid(
                "track_ensemble",
                "the hosts come from the provider; omit it or the provider",
            );
        }
        #[cfg(feature = "tls")]
        if self.tracked_servers.is_some() && self.config.tls.is_some() {
            return invalid(
                "track_ensemble",
                "the configuration of an ensemble has no encrypted ports; omit it or tls",
            );
        }
        if self.has_invalid_user {
            return invalid("digest user", "it must not be empty nor have a ':' in it");
        }
        Ok(())
    }
}

async fn check_chroot(session: &Session, deadline: Deadline) -> Result<(), ConnectError> {
    let chroot = session.servers().chroot.clone();
    if chroot.is_root() {
        return Ok(());
    }
    match session
        .exists(NodePath::root())
        .timeout(deadline.remaining())
        .await
    {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(ConnectError::NoChroot { chroot }),
        Err(source) if source.kind() == ErrorKind::AuthRequired => Err(ConnectError::AuthRequired),
        Err(source) => Err(ConnectError::ChrootUnchecked { chroot, source }),
    }
}

/// No session could be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connect string cannot be read.
    #[error(transparent)]
    ConnectString(ParseConnectStringError),
    /// An option of the builder is out of its bounds.
    #[error("{option} is not valid: {rule}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// The certificates or the key for an encrypted connection cannot be used.
    #[error("the tls options are not valid: {problem}")]
    #[non_exhaustive]
    InvalidTls {
        /// What is wrong with them.
        problem: String,
    },
    /// No encrypted connection could be made within the connect timeout.
    #[error("no session, because there is no encrypted connection to {server}")]
    #[non_exhaustive]
    NotEncrypted {
        /// The server that was tried last.
        server: Host,
        /// What failed there.
        source: TlsFailure,
    },
    /// A server has not proved that it knows the user's password, and no other one has granted a session.
    ///
    /// It may be another server in its place; or it has another password for the user, or no SASL. It was sent proofs
    /// that this client knows the password, at most three, and neither the password nor any request.
    #[error("no session, because SASL with {server} failed: {problem}")]
    #[non_exhaustive]
    NotProved {
        /// The server that was tried last.
        server: Host,
        /// What failed there.
        problem: String,
    },
    /// No server granted a session within the connect timeout.
    #[error(transparent)]
    Unanswered(ConnectDiagnosis),
    /// The server refused the credentials.
    #[error("the server refused the session's credentials")]
    AuthFailed,
    /// The server requires SASL, or another authentication that the session has not made.
    ///
    /// Such a server grants the session, and refuses its first operation. Connecting sends one only if there is a chroot,
    /// to check that it exists; otherwise the first operation returns [`ErrorKind::AuthRequired`].
    #[error("the server requires authentication")]
    AuthRequired,
    /// The session to [resume](zk_wire::Config::resume) has ended.
    #[error("the session that was to be resumed has ended")]
    NotResumed,
    /// Another client of the protocol, which made its transport itself, has opened no session, for this reason.
    #[error("{0}")]
    Transport(String),
    /// The node named by the chroot does not exist.
    #[error("the chroot {chroot} does not exist; connect without it and create it first")]
    #[non_exhaustive]
    NoChroot {
        /// The chroot of the connect string.
        chroot: NodePath,
    },
    /// Connected, but no answer to the question whether the chroot exists.
    #[error("cannot check whether the chroot {chroot} exists")]
    #[non_exhaustive]
    ChrootUnchecked {
        /// The chroot of the connect string.
        chroot: NodePath,
        /// Why not.
        source: Error,
    },
}

impl std::error::Error for ConnectDiagnosis {}

/// How many times as long as a request a reply may be.
const REPLY_FACTOR: usize = 16;
const LONGEST_PROBE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const MOST_SESSION_MILLIS: u128 = i32::MAX as u128;

#[cfg(test)]
mod tests;
