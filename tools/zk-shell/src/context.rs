//! What a command works with: the session, the time it may take, where paths begin, and the output.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zk_core::{Acl, ConnectString, ConnectionState, Error, ErrorKind, NodePath, Session};

use crate::credentials::{Access, Credentials, SESSION};
use crate::editor::Editor;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::{Interrupter, Signals, Watchdog};
use crate::{file_io, resolve_path};

/// The options that all commands have.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The connect string, if there is one.
    pub(crate) connect: Option<String>,
    /// The ACL of the nodes that commands create; `None` for the default of a session.
    pub(crate) acl: Option<Acl>,
    /// The longest a command may take.
    pub(crate) timeout: Duration,
    /// The longest request, if it is not the servers' default.
    pub(crate) max_buffer: Option<usize>,
    /// The release of the oldest server, if it is before 3.6.
    pub(crate) assume_release: Option<(u16, u16)>,
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
    /// When the time of the running command is up, and how long the reader of the output had taken when it started;
    /// `None` until it starts.
    deadline: Option<(Instant, Duration)>,
    /// Where relative paths begin; `None` for a single command, which has no relative paths.
    current: Option<NodePath>,
    /// The terminal of the interactive shell.
    editor: Option<Editor>,
    is_script: bool,
    is_stdin_taken: Cell<bool>,
    /// Whether a signal is how the running command ends.
    ends_with_signal: bool,
    /// The threads that write files, which are removed if their command ends early.
    writing: Vec<Writing>,
    interrupter: Rc<Interrupter>,
    watchdog: Watchdog,
}

/// A file that a thread writes.
#[derive(Debug)]
struct Writing {
    thread: JoinHandle<()>,
    file: PathBuf,
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
            current: None,
            editor: None,
            is_script: false,
            is_stdin_taken: Cell::new(false),
            ends_with_signal: false,
            writing: Vec::new(),
            interrupter: Rc::default(),
            watchdog: Watchdog::default(),
        }
    }

    /// Prepares for the lines of the interactive shell.
    pub(crate) fn begin_shell(&mut self, editor: Editor) {
        self.current = Some(NodePath::root());
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
        self.current.get_or_insert_with(NodePath::root);
        Ok(())
    }

    /// Notes that the script has ended, or was interrupted.
    pub(crate) fn end_script(&mut self) {
        self.is_script = false;
    }

    /// Prepares for a command of the shell or a script.
    pub(crate) fn begin_command(&mut self, timeout: Option<Duration>, is_json: bool) {
        self.deadline = None;
        self.ends_with_signal = false;
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
            let note =
                format!("session {id} is over, and its ephemeral nodes with it; opening another");
            self.output.note(&note).await;
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
            .map_or_else(NodePath::root, |parsed| parsed.chroot)
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

    /// Returns what sessions prove their identity with: from the environment, or with `addauth`.
    pub(crate) fn access(&self) -> Result<Access, Failure> {
        let mut access = Access::from_env(SESSION)?;
        access.digest.extend(self.credentials.iter().cloned());
        Ok(access)
    }

    /// Returns the time that the running command has left.
    pub(crate) fn remaining(&mut self) -> Duration {
        let now = Instant::now();
        // The time that the reader of the output takes is not that of the command.
        let waited = self.output.waited();
        let (deadline, before) = *self.deadline.get_or_insert((now + self.timeout, waited));
        (deadline + waited.saturating_sub(before)).saturating_duration_since(now)
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
        worked.unwrap_or_else(|_| Err(Failure::too_slow(self.timeout)))
    }

    /// Returns the failure of a request that might take as long as the command had left.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        match error.kind() {
            ErrorKind::TimedOut => Failure::too_slow(self.timeout),
            _ => error.into(),
        }
    }

    /// Returns the path that an argument means.
    pub(crate) fn path(&self, argument: &str) -> Result<NodePath, Failure> {
        Ok(resolve_path::resolve(self.current.as_ref(), argument)?)
    }

    /// Returns the path that an optional argument means: by default where relative paths begin.
    pub(crate) fn path_or_here(&self, argument: Option<&str>) -> Result<NodePath, Failure> {
        match argument {
            Some(argument) => self.path(argument),
            None => Ok(self.current.clone().unwrap_or_else(NodePath::root)),
        }
    }

    /// Lets relative paths begin at a node.
    pub(crate) fn go_to(&mut self, path: NodePath) {
        self.current = Some(path);
    }

    /// Returns whether the session goes on after the running command.
    pub(crate) fn has_next_command(&self) -> bool {
        self.current.is_some()
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

    /// Notes that the command runs until a signal, which is no failure then.
    pub(crate) fn end_with_signal(&mut self) {
        self.ends_with_signal = true;
    }

    /// Returns whether a signal is how the command ends.
    pub(crate) fn ends_with_signal(&self) -> bool {
        self.ends_with_signal
    }

    /// Keeps a thread that writes a file, so that the end of the program waits for it.
    pub(crate) fn wait_at_end(&mut self, thread: JoinHandle<()>, file: PathBuf) {
        self.writing.retain(|earlier| !earlier.thread.is_finished());
        self.writing.push(Writing { thread, file });
    }

    /// Returns what passes signals on to the running command.
    pub(crate) fn interrupter(&self) -> Rc<Interrupter> {
        Rc::clone(&self.interrupter)
    }

    /// Returns what ends the program if it is stuck after a signal.
    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Returns where results go.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Opens a session beside that of the context, also at another ensemble. [`close`] it.
    pub(crate) async fn open_other(
        &mut self,
        connect: String,
        access: Access,
    ) -> Result<Session, Failure> {
        let remaining = self.remaining();
        self.open_at(connect, remaining, access).await
    }

    /// Closes the session, and waits until the files that were begun are removed, however long that takes, or until a
    /// signal comes.
    pub(crate) async fn close(self) {
        if let Some(session) = self.session {
            close(session).await;
        }
        if self.writing.is_empty() {
            return;
        }
        self.watchdog.stop();
        let removing = async {
            for Writing { mut thread, file } in self.writing {
                let removed = tokio::time::timeout(SILENT_REMOVAL, &mut thread).await;
                if removed.is_err() {
                    let note = format!(
                        "waiting until the unfinished export is removed; a signal leaves it as {}… in {}",
                        file_io::TEMPORARY,
                        file_io::parent(&file).display()
                    );
                    drop(tokio::join!(self.output.note(&note), thread));
                }
            }
        };
        // Without signals it waits to the end.
        let signal = async {
            match Signals::listen() {
                Ok(mut signals) => signals.any().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = removing => {}
            _ = signal => {}
        }
    }

    /// Returns the longest request in bytes, and so more than a node can hold.
    pub(crate) fn max_buffer(&self) -> usize {
        self.settings.max_buffer.unwrap_or(DEFAULT_MAX_BUFFER)
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
        self.open_at(self.connect_string()?, timeout, self.access()?)
            .await
    }

    async fn open_at(
        &self,
        connect: String,
        timeout: Duration,
        access: Access,
    ) -> Result<Session, Failure> {
        let mut builder = Session::builder(connect)
            .connect_timeout(timeout)
            .operation_timeout(self.timeout);
        if let Some(bytes) = self.settings.max_buffer {
            builder = builder.max_buffer(bytes);
        }
        if let Some((major, minor)) = self.settings.assume_release {
            builder = builder.assume_release(major, minor);
        }
        for Credentials { user, password } in &access.digest {
            builder = builder.digest_auth(user, password);
        }
        if let Some(Credentials { user, password }) = access.sasl {
            builder = builder.sasl_digest(user, password);
        }
        if let Some(tls) = access.tls {
            builder = builder.tls(tls);
        }
        if let Some(acl) = &self.settings.acl {
            builder = builder.acl(acl.clone());
        }
        Ok(builder.connect().await?)
    }
}

/// Closes a session. If that is not acknowledged in time, the session ends at its timeout.
pub(crate) async fn close(session: Session) {
    drop(session.with_operation_timeout(CLOSE_TIMEOUT).close().await);
}

/// That of servers.
const DEFAULT_MAX_BUFFER: usize = 0xf_ffff;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the removal of an unfinished file takes before that is said.
const SILENT_REMOVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::tests::interrupt;

    fn context(timeout: Duration) -> Context {
        Context::new(Settings {
            connect: None,
            acl: None,
            timeout,
            max_buffer: None,
            assume_release: None,
            is_json: false,
        })
    }

    #[test]
    fn credentials_that_were_added_count() {
        let mut context = context(Duration::ZERO);
        context.credentials.push(Credentials {
            user: "alice".to_owned(),
            password: "secret".to_owned(),
        });
        assert!(context.access().unwrap().has_user());
    }

    #[test]
    fn the_time_that_the_reader_took_before_the_clock_started_again_is_not_added() {
        const HOUR: Duration = Duration::from_secs(3600);
        let mut context = context(HOUR);
        let remaining = |context: &mut Context| context.remaining().as_secs().div_ceil(60);
        context.output.add_waited(3 * HOUR);
        assert_eq!(remaining(&mut context), 60);
        context.output.add_waited(2 * HOUR);
        assert_eq!(remaining(&mut context), 180);
        context.restart_clock();
        assert_eq!(remaining(&mut context), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_until_all_unfinished_files_are_removed() {
        let mut context = context(Duration::ZERO);
        let mut done = Vec::new();
        for file in ["one/", "other/"] {
            let (sender, removed) = std::sync::mpsc::channel();
            done.push(sender);
            let thread = tokio::task::spawn_blocking(move || removed.recv().unwrap());
            context.wait_at_end(thread, PathBuf::from(file));
        }
        let watchdog = context.watchdog().clone();
        let mut closing = std::pin::pin!(context.close());
        // The first is the last to be removed.
        for sender in done.into_iter().rev() {
            for _ in 0..3 {
                assert!(futures_util::poll!(&mut closing).is_pending());
                tokio::time::advance(Duration::from_secs(600)).await;
            }
            sender.send(()).unwrap();
        }
        closing.await;
        assert!(!watchdog.is_over().await);
    }

    #[tokio::test]
    async fn a_signal_ends_the_wait_for_an_unfinished_file() {
        let mut context = context(Duration::ZERO);
        let (done, removed) = std::sync::mpsc::channel();
        let thread = tokio::task::spawn_blocking(move || removed.recv().unwrap());
        context.wait_at_end(thread, PathBuf::from("export/"));
        let mut closing = std::pin::pin!(context.close());
        assert!(futures_util::poll!(&mut closing).is_pending());
        interrupt();
        let closed = tokio::time::timeout(Duration::from_secs(10), closing).await;
        closed.expect("the signal arrives within 10 s");
        done.send(()).unwrap();
    }
}
