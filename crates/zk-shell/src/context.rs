//! What a command works with: the session, the time it may take, where paths begin, and the output.

use std::time::Duration;
use std::time::Instant;

use zk_core::NodePath;
use zk_core::Session;

use crate::failure::Failure;
use crate::output::Output;
use crate::place;

/// The options that all commands have.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The connect string, if there is one.
    pub(crate) connect: Option<String>,
    /// The longest a command may take.
    pub(crate) timeout: Duration,
    /// Whether results are JSON.
    pub(crate) is_json: bool,
}

/// What a command works with.
///
/// The session is opened when a command first asks for it, so that a wrong path, a missing file or slow input is noticed
/// before a server is.
#[derive(Debug)]
pub(crate) struct Context {
    settings: Settings,
    output: Output,
    session: Option<Session>,
    /// When the time of the running command is up; `None` until it starts.
    deadline: Option<Instant>,
    /// Where relative paths begin; `None` for a single command, which has no relative paths.
    place: Option<NodePath>,
}

impl Context {
    /// Creates the context of a single command.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            output: Output::new(settings.is_json),
            settings,
            session: None,
            deadline: None,
            place: None,
        }
    }

    /// Returns the session and starts the time of the command; opens the session if there is none.
    ///
    /// Check everything that needs no server first, and read input: a session must not wait for it.
    pub(crate) async fn session(&mut self) -> Result<Session, Failure> {
        let remaining = self.remaining();
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let session = self.open(remaining).await?;
        self.session = Some(session.clone());
        Ok(session)
    }

    /// Returns the time that the running command has left.
    pub(crate) fn remaining(&mut self) -> Duration {
        let now = Instant::now();
        let timeout = self.settings.timeout;
        let deadline = self.deadline.get_or_insert_with(|| now + timeout);
        deadline.saturating_duration_since(now)
    }

    /// Gives the command its whole time again, after it has waited for a person or followed a node.
    pub(crate) fn restart_clock(&mut self) {
        self.deadline = None;
    }

    /// Runs work that has no limit of its own for as long as the command has left.
    pub(crate) async fn within<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let worked = tokio::time::timeout(self.remaining(), work).await;
        worked.unwrap_or_else(|_| Err(Failure::too_slow()))
    }

    /// Returns the path that an argument means.
    pub(crate) fn path(&self, argument: &str) -> Result<NodePath, Failure> {
        Ok(place::resolve(self.place.as_ref(), argument)?)
    }

    /// Returns the path that an optional argument means: by default where relative paths begin.
    pub(crate) fn path_or_here(&self, argument: Option<&str>) -> Result<NodePath, Failure> {
        match argument {
            Some(argument) => self.path(argument),
            None => Ok(self.place.clone().unwrap_or_else(NodePath::root)),
        }
    }

    /// Returns whether the session goes on after the running command.
    pub(crate) fn has_next_command(&self) -> bool {
        self.place.is_some()
    }

    /// Returns where results go.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Returns whether results are JSON.
    #[cfg(feature = "top")]
    pub(crate) fn is_json(&self) -> bool {
        self.settings.is_json
    }

    /// Opens a session at another ensemble, with the same options. Close it with [`close_other`](Self::close_other).
    pub(crate) async fn open_other(&mut self, connect: &str) -> Result<Session, Failure> {
        let remaining = self.remaining();
        self.open_at(connect.to_owned(), remaining).await
    }

    /// Closes a session of another ensemble.
    pub(crate) async fn close_other(&mut self, session: Session) {
        let timeout = CLOSE_TIMEOUT.min(self.remaining());
        drop(tokio::time::timeout(timeout, session.close()).await);
    }

    /// Closes the session.
    pub(crate) async fn close(mut self) {
        let timeout = CLOSE_TIMEOUT.min(self.remaining());
        if let Some(session) = self.session {
            // The result is known; a session whose close is not acknowledged ends at its timeout.
            drop(tokio::time::timeout(timeout, session.close()).await);
        }
    }

    /// Returns the connect string.
    pub(crate) fn connect_string(&self) -> Result<String, Failure> {
        let connect = self.settings.connect.clone();
        connect
            .filter(|connect| !connect.trim().is_empty())
            .ok_or_else(|| {
                Failure::usage(
                    "no ensemble to connect to",
                    "give --connect host:port, set ZK_CONNECT, or run `cargo xtask ensemble up`",
                )
            })
    }

    /// Opens a session beside that of the context, within `timeout`.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<Session, Failure> {
        self.open_at(self.connect_string()?, timeout).await
    }

    async fn open_at(&self, connect: String, timeout: Duration) -> Result<Session, Failure> {
        let mut builder = Session::builder(connect)
            .connect_timeout(timeout)
            .operation_timeout(self.settings.timeout);
        if let Some((user, password)) = credentials()? {
            builder = builder.digest_auth(&user, &password);
        }
        Ok(builder.connect().await?)
    }
}

fn credentials() -> Result<Option<(String, String)>, Failure> {
    // No message contains the value: it is a password, well-formed or not.
    let malformed = || {
        Failure::usage(
            "ZK_AUTH is not user:password",
            "as in ZK_AUTH=alice:secret, or unset it",
        )
    };
    let Some(value) = std::env::var_os("ZK_AUTH") else {
        return Ok(None);
    };
    let value = value.into_string().map_err(|_| malformed())?;
    match value.split_once(':') {
        Some((user, password)) if !user.is_empty() => {
            Ok(Some((user.to_owned(), password.to_owned())))
        }
        _ => Err(malformed()),
    }
}

/// Returns whether sessions are authenticated as a user.
pub(crate) fn has_credentials() -> bool {
    std::env::var_os("ZK_AUTH").is_some()
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
