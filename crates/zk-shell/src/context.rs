//! What a command works with: the session, the time it may take, where paths begin, and the output.

use std::cell::Cell;
use std::time::Duration;
use std::time::Instant;

use zk_core::ConnectString;
use zk_core::ConnectionState;
use zk_core::NodePath;
use zk_core::Session;

use crate::credentials;
use crate::credentials::Credentials;
use crate::editor::Editor;
use crate::failure::Failure;
use crate::failure::tell;
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
    /// The time limit of the running command.
    timeout: Duration,
    output: Output,
    session: Option<Session>,
    /// Those that were added to the ones from the environment.
    credentials: Vec<Credentials>,
    /// When the time of the running command is up; `None` until it starts.
    deadline: Option<Instant>,
    /// Where relative paths begin; `None` for a single command, which has no relative paths.
    place: Option<NodePath>,
    /// The terminal of the interactive shell.
    editor: Option<Editor>,
    is_script: bool,
    is_stdin_taken: Cell<bool>,
}

impl Context {
    /// Creates the context of a single command.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            timeout: settings.timeout,
            output: Output::new(settings.is_json),
            settings,
            session: None,
            credentials: Vec::new(),
            deadline: None,
            place: None,
            editor: None,
            is_script: false,
            is_stdin_taken: Cell::new(false),
        }
    }

    /// Prepares for the lines of the interactive shell.
    pub(crate) fn begin_shell(&mut self, editor: Editor) {
        self.place = Some(NodePath::root());
        self.editor = Some(editor);
    }

    /// Prepares for the lines of a script. A script that the shell runs begins where the shell is.
    pub(crate) fn begin_script(&mut self) -> Result<(), Failure> {
        if self.is_script {
            return Err(Failure::usage(
                "a file of commands cannot run another",
                "run them one after the other",
            ));
        }
        self.is_script = true;
        // None of its commands relied on it.
        self.session.take_if(|session| session.state().is_lost());
        self.place.get_or_insert_with(NodePath::root);
        Ok(())
    }

    /// Notes that the script has ended, or was interrupted.
    pub(crate) fn end_script(&mut self) {
        self.is_script = false;
    }

    /// Prepares for a command of the shell or a script.
    pub(crate) fn begin_command(&mut self, timeout: Option<Duration>, is_json: bool) {
        self.deadline = None;
        self.timeout = timeout.unwrap_or(self.settings.timeout);
        self.output = Output::new(is_json || self.settings.is_json);
    }

    /// Returns the session and starts the time of the command; opens the session if there is none, or the last one was
    /// lost.
    ///
    /// Check everything that needs no server first, and read input: a session must not wait for it.
    pub(crate) async fn session(&mut self) -> Result<Session, Failure> {
        let remaining = self.remaining();
        if let Some(session) = &self.session {
            if !session.state().is_lost() {
                return Ok(session.with_operation_timeout(self.timeout));
            }
            let id = session.id();
            self.session = None;
            if self.is_script {
                return Err(Failure::operation(
                    format!("session {id} of this file is over, and its ephemeral nodes with it"),
                    Some("begin again: what the commands before it relied on may be gone"),
                ));
            }
            tell(&format!(
                "note: session {id} is over, and its ephemeral nodes with it; opening another\n"
            ));
        }
        let session = self.open(remaining).await?;
        self.session = Some(session.clone());
        Ok(session.with_operation_timeout(self.timeout))
    }

    /// Returns the session if there is one.
    pub(crate) fn open_session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns the state of the session; `None` if none was opened.
    pub(crate) fn state(&self) -> Option<ConnectionState> {
        self.session.as_ref().map(Session::state)
    }

    /// Returns the connect string, if there is one.
    pub(crate) fn connect(&self) -> Option<&str> {
        self.settings.connect.as_deref()
    }

    /// Returns the node that is the root for the session; `/` if the connect string says nothing else.
    pub(crate) fn chroot(&self) -> NodePath {
        let parsed = self.connect().map(str::parse::<ConnectString>);
        parsed
            .and_then(Result::ok)
            .map_or_else(NodePath::root, |parsed| parsed.chroot().clone())
    }

    /// Adds credentials to the session, and to those that replace it.
    pub(crate) async fn add_credentials(
        &mut self,
        credentials: Credentials,
    ) -> Result<(), Failure> {
        let session = self.session().await?;
        let Credentials { user, password } = &credentials;
        let added = async { Ok(session.add_digest_auth(user, password).await?) };
        self.within(added).await?;
        self.credentials.push(credentials);
        Ok(())
    }

    /// Returns whether sessions are authenticated as a user: from the environment, or with `addauth`.
    pub(crate) fn has_credentials(&self) -> bool {
        let mut variables = [DIGEST, SASL].iter();
        !self.credentials.is_empty()
            || variables.any(|variable| std::env::var_os(variable).is_some())
    }

    /// Returns the time that the running command has left.
    pub(crate) fn remaining(&mut self) -> Duration {
        let now = Instant::now();
        let timeout = self.timeout;
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

    /// Lets relative paths begin at a node.
    pub(crate) fn go_to(&mut self, path: NodePath) {
        self.place = Some(path);
    }

    /// Returns whether the session goes on after the running command.
    pub(crate) fn has_next_command(&self) -> bool {
        self.place.is_some()
    }

    /// Returns the terminal of the interactive shell.
    pub(crate) fn editor(&self) -> Option<&Editor> {
        self.editor.as_ref()
    }

    /// Claims standard input for data, a script or operations: it can be read once.
    pub(crate) fn take_stdin(&self) -> Result<(), Failure> {
        if self.editor.is_some() {
            return Err(Failure::usage(
                "standard input is the terminal of this shell",
                "give the data as an argument, or a file with --file",
            ));
        }
        if self.is_stdin_taken.replace(true) {
            return Err(Failure::usage(
                "standard input was read already",
                "give the data as an argument, or a file with --file",
            ));
        }
        Ok(())
    }

    /// Returns where results go.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Opens a session at another ensemble, with the same options. Close it with [`close_other`](Self::close_other).
    pub(crate) async fn open_other(&mut self, connect: &str) -> Result<Session, Failure> {
        let remaining = self.remaining();
        self.open_at(connect.to_owned(), remaining).await
    }

    /// Closes a session of another ensemble.
    pub(crate) async fn close_other(&mut self, session: Session) {
        close(session).await;
    }

    /// Closes the session.
    pub(crate) async fn close(self) {
        if let Some(session) = self.session {
            close(session).await;
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
            .operation_timeout(self.timeout);
        let from_env = Credentials::from_env(DIGEST)?;
        for Credentials { user, password } in from_env.iter().chain(&self.credentials) {
            builder = builder.digest_auth(user, password);
        }
        if let Some(Credentials { user, password }) = Credentials::from_env(SASL)? {
            builder = builder.sasl_digest(user, password);
        }
        if let Some(tls) = credentials::tls()? {
            builder = builder.tls(tls);
        }
        Ok(builder.connect().await?)
    }
}

/// Closes a session. If that is not acknowledged in time, the session ends at its timeout.
pub(crate) async fn close(session: Session) {
    drop(session.with_operation_timeout(CLOSE_TIMEOUT).close().await);
}

/// The variables of the environment with a user and a password, of the digest scheme and of SASL.
const DIGEST: &str = "ZK_AUTH";
const SASL: &str = "ZK_SASL";
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_were_added_count() {
        let mut context = Context::new(Settings {
            connect: None,
            timeout: Duration::ZERO,
            is_json: false,
        });
        context.credentials.push(Credentials {
            user: "alice".to_owned(),
            password: "secret".to_owned(),
        });
        assert!(context.has_credentials());
    }
}
