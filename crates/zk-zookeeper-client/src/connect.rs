//! Connects.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::transport::{SessionEnd, TransportError};
use zk_core::{ConnectError, ConnectString, NodePath, Session};
use zookeeper_client as zk;

use crate::convert::fault;
use crate::transport::ClientTransport;

/// How to connect.
///
/// # Defaults
///
/// Session timeout 10 s, connect timeout 10 s, no credentials, no read-only servers.
#[derive(Clone)]
#[must_use = "no session is opened until `session` or `transport` is awaited"]
pub struct Connect {
    servers: String,
    session_timeout: Duration,
    max_wait: Duration,
    auth: Vec<(String, Vec<u8>)>,
    allow_read_only: bool,
}

impl Connect {
    /// Chooses the ensemble, and optionally a chroot: `host:port,host:port/chroot`.
    pub fn to(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            session_timeout: DEFAULT_TIMEOUT,
            max_wait: DEFAULT_TIMEOUT,
            auth: Vec::new(),
            allow_read_only: false,
        }
    }

    /// Asks for a session that outlives a silence of this length, in whole milliseconds; the server bounds it.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Bounds the time until a server has granted the session.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.max_wait = timeout;
        self
    }

    /// Adds credentials of a scheme that the servers know, such as `digest` and `user:password`. Their data are in no
    /// debug output, error or log of this crate.
    pub fn auth(mut self, scheme: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        self.auth.push((scheme.into(), data.into()));
        self
    }

    /// Accepts a server that is cut off from the quorum, if no other is found; it answers reads only.
    pub fn allow_read_only(mut self) -> Self {
        self.allow_read_only = true;
        self
    }

    /// Connects and returns the session, connected.
    ///
    /// With a chroot, the node it names must exist.
    ///
    /// # Errors
    ///
    /// [`ConnectError::ConnectString`], [`ConnectError::AuthFailed`] if the servers refuse the credentials, and
    /// [`ConnectError::Transport`] otherwise.
    pub async fn session(&self) -> Result<Session, ConnectError> {
        let (transport, servers) = self.open().await?;
        let chroot = servers.chroot.clone();
        let session = Session::with_transport(transport, servers);
        if !chroot.is_root() {
            let found = session.exists(NodePath::root()).await;
            let found = found.map_err(|error| {
                failed(format!(
                    "cannot check whether the chroot {chroot} exists: {error}"
                ))
            })?;
            found.ok_or_else(|| {
                failed(format!(
                    "the chroot {chroot} does not exist; connect without it and create it first"
                ))
            })?;
        }
        Ok(session)
    }

    /// Connects and returns what is below a session, for
    /// [`Session::with_transport`](zk_core::Session::with_transport).
    ///
    /// A chroot is that of the session: here it is neither looked for nor added to paths.
    ///
    /// # Errors
    ///
    /// As [`session`](Self::session) has them.
    pub async fn transport(&self) -> Result<ClientTransport, ConnectError> {
        Ok(self.open().await?.0)
    }

    async fn open(&self) -> Result<(ClientTransport, ConnectString), ConnectError> {
        let servers: ConnectString = self.servers.parse().map_err(ConnectError::ConnectString)?;
        let deadline = Instant::now() + self.max_wait;
        let mut pause = FIRST_PAUSE;
        loop {
            let requested = Instant::now().into_std();
            let attempt = tokio::time::timeout_at(deadline, self.attempt(&servers)).await;
            let why = match attempt {
                Ok(Ok(client)) => {
                    return Ok((ClientTransport::new(client, requested), servers));
                }
                Ok(Err(error)) => match fault(&error) {
                    TransportError::Ended(SessionEnd::AuthFailed) => {
                        return Err(ConnectError::AuthFailed);
                    }
                    _ => error.to_string(),
                },
                Err(_) => "the server is silent".to_owned(),
            };
            tracing::debug!(%servers, why, "no server granted a session");
            if Instant::now() + pause >= deadline {
                let within = self.max_wait;
                return Err(failed(format!(
                    "no server of {servers} granted a session within {within:?}: {why}"
                )));
            }
            #[expect(clippy::disallowed_methods, reason = "the pause between two attempts")]
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Tries each server once.
    async fn attempt(&self, servers: &ConnectString) -> Result<zk::Client, zk::Error> {
        let mut connector = zk::Client::connector()
            .with_session_timeout(self.session_timeout)
            .with_connection_timeout(link_timeout(self.session_timeout))
            .with_readonly(self.allow_read_only)
            .with_fail_eagerly();
        for (scheme, data) in &self.auth {
            connector = connector.with_auth(scheme, data);
        }
        let servers = servers.hosts.iter().map(ToString::to_string);
        connector
            .connect(&servers.collect::<Vec<_>>().join(","))
            .await
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("servers", &self.servers)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.max_wait)
            .field("allow_read_only", &self.allow_read_only)
            .finish_non_exhaustive()
    }
}

fn failed(problem: String) -> ConnectError {
    ConnectError::Transport(problem)
}

/// Returns how long the client waits for a silent server before it tries the next one: its own 2/5 of the session
/// timeout, and long enough for a reply if the server grants a longer timeout than requested.
///
/// The client divides this into eighths and pings after three of them without a request. With a lower value it would
/// ping more often, and all links to followers would break at each pause of the leader: a request that waits for the
/// leader delays the pings behind it.
fn link_timeout(session_timeout: Duration) -> Duration {
    (session_timeout * 2 / 5).max(SHORTEST_LINK_TIMEOUT)
}

const SHORTEST_LINK_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_server_is_left_after_two_fifths_of_the_timeout() {
        assert_eq!(
            link_timeout(Duration::from_secs(10)),
            Duration::from_secs(4)
        );
        // The server grants more than was asked for, and the client falls back to 2/5 of a grant that is that short.
        for asked in [1, 100, 2_000].map(Duration::from_millis) {
            assert_eq!(link_timeout(asked), Duration::from_secs(1));
        }
    }

    #[test]
    fn options_do_not_print_credentials() {
        let shown = format!("{:?}", Connect::to("zk1").auth("digest", "ann:secret"));
        assert!(
            shown.contains("zk1") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
