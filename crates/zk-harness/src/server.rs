//! Starts, stops, pauses and queries one server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::admin::{self, AdminError};
use crate::config::{Member, Plan};
use crate::container::{Container, ContainerAction};
use crate::error::Error;
use crate::process::{self, ProcessState};
use crate::unavailable::Unavailable;
use crate::wait::Polls;

/// One server of an [`Ensemble`](crate::Ensemble).
#[derive(Debug)]
pub struct Server {
    plan: Arc<Plan>,
    index: usize,
    /// The process, if this `Server` started it. It has to be reaped.
    child: Mutex<Option<Child>>,
    /// Its container, if it runs in one.
    container: Option<Container>,
}

impl Server {
    pub(crate) fn new(plan: Arc<Plan>, index: usize) -> Self {
        Self {
            plan,
            index,
            child: Mutex::new(None),
            container: None,
        }
    }

    /// Assigns a container to it.
    #[cfg(feature = "containers")]
    pub(crate) fn put_into(&mut self, container: Container) {
        self.container = Some(container);
    }

    /// Returns the `myid`.
    pub fn id(&self) -> u32 {
        self.member().id
    }

    /// Returns the client port on the loopback address.
    ///
    /// The port of a container changes whenever it starts or is reconnected to its network; it is 0 while the container
    /// is stopped or disconnected.
    pub fn client_port(&self) -> u16 {
        self.container
            .as_ref()
            .map_or_else(|| self.member().client_port, Container::port)
    }

    /// Returns the address for clients, with the current [port](Self::client_port).
    pub fn client_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.client_port()).into()
    }

    /// Returns the port for clients with TLS on the loopback address, if the ensemble [has it](crate::Spec::tls).
    pub fn secure_port(&self) -> Option<u16> {
        self.member().secure_port
    }

    /// Returns the directory with the server's configuration, start script and log.
    pub fn directory(&self) -> PathBuf {
        self.plan.server_directory(self.id())
    }

    /// Returns the file with the server's output, over all its starts.
    ///
    /// The process that started a container copies the container's output there; another process does so after
    /// [`follow_log`](Self::follow_log).
    pub fn log_file(&self) -> PathBuf {
        self.plan.server_log(self.id())
    }

    /// Copies the output of a container to the [log file](Self::log_file), and continues while the ensemble is attached.
    /// A server that is a process writes to its file itself, so nothing is done.
    ///
    /// # Errors
    ///
    /// [`Error::Container`] if the engine does not return the output, or the file cannot be written.
    pub async fn follow_log(&self) -> Result<(), Error> {
        match &self.container {
            Some(container) => container.perform(ContainerAction::FollowLog).await,
            None => Ok(()),
        }
    }

    /// Returns the last `lines` lines of the log; empty if there is none yet.
    pub fn log_tail(&self, lines: usize) -> String {
        // The last output, such as the reason of an exit, may not have been copied yet.
        if let Some(container) = &self.container
            && let Err(error) = container.perform_blocking(ContainerAction::FollowLog)
        {
            tracing::warn!(%error, "the log of a container may be incomplete");
        }
        let text = fs::read(self.log_file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Returns the name of its container, if it runs in one.
    pub fn container(&self) -> Option<&str> {
        self.container.as_ref().map(Container::name)
    }

    /// Returns the process id if the server runs or is paused; `None` for a server in a container.
    pub fn pid(&self) -> Option<i32> {
        self.find().map(|(pid, _)| pid.as_raw_pid())
    }

    /// Returns the state of the server's process.
    pub fn process_state(&self) -> ProcessState {
        if let Some(container) = &self.container {
            return container.state();
        }
        self.find()
            .map_or(ProcessState::Stopped, |(_, state)| state)
    }

    /// Starts the server's process without waiting until it serves; see
    /// [`Ensemble::wait_serving`](crate::Ensemble::wait_serving).
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if it already runs, [`Error::Io`] if it cannot be started.
    pub fn start(&self) -> Result<(), Error> {
        if let Some(container) = &self.container {
            self.expect_state("start", ProcessState::Stopped)?;
            return container.perform_blocking(ContainerAction::Start);
        }
        if let Some((pid, state)) = self.find() {
            let hint = if state == ProcessState::Paused {
                "it is paused; resume it"
            } else {
                "it already runs"
            };
            return Err(self.wrong_state("start", format!("{hint} (process {})", pid.as_raw_pid())));
        }
        let script = self.plan.start_script(self.id());
        // An old process id must not be mistaken for the new one before the script has written it.
        match fs::remove_file(self.plan.pid_file(self.id())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &self.plan.pid_file(self.id()), error));
            }
            _ => {}
        }
        let child = Command::new("/bin/sh")
            .arg(&script)
            // The script ignores it; the guard process recognizes this shell by it before it becomes a server.
            .arg(self.plan.server_marker(self.id()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal must end only the program that uses the ensemble.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::io("start", &script, source))?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// Stops the server with SIGTERM and waits until its process has ended.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if it does not run or is paused, [`Error::StillRunning`] if it has not ended after 10 s.
    pub async fn stop(&self) -> Result<(), Error> {
        if self.process_state() == ProcessState::Paused {
            return Err(
                self.wrong_state("stop", "it is paused; resume it first, or kill it".into())
            );
        }
        self.end("stop", Signal::TERM, ContainerAction::Stop).await
    }

    /// Kills the server with SIGKILL and waits until its process has ended. A paused container is resumed first.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if it does not run, [`Error::StillRunning`] if it has not ended after 10 s.
    pub async fn kill(&self) -> Result<(), Error> {
        if let Some(container) = &self.container
            && container.state() == ProcessState::Paused
        {
            // Current engines refuse to kill a paused container.
            container.perform(ContainerAction::Resume).await?;
        }
        self.end("kill", Signal::KILL, ContainerAction::Kill).await
    }

    /// [Stops](Self::stop) the server if it runs, then [starts](Self::start) it.
    ///
    /// # Errors
    ///
    /// The errors of both. A server that does not run is not an error.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may leave the server stopped.
    pub async fn restart(&self) -> Result<(), Error> {
        if self.process_state() != ProcessState::Stopped {
            self.stop().await?;
        }
        self.start()
    }

    /// Pauses the server's process with SIGSTOP, like a long garbage collection.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if it does not run, or is not paused after 10 s.
    pub async fn pause(&self) -> Result<(), Error> {
        let (from, to) = (ProcessState::Running, ProcessState::Paused);
        self.change_state("pause", Signal::STOP, ContainerAction::Pause, from, to)
            .await
    }

    /// Resumes a paused server with SIGCONT.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if it is not paused, or still paused after 10 s.
    pub async fn resume(&self) -> Result<(), Error> {
        let (from, to) = (ProcessState::Paused, ProcessState::Running);
        self.change_state("resume", Signal::CONT, ContainerAction::Resume, from, to)
            .await
    }

    /// Disconnects the server's container from its network: neither clients nor the other servers can connect to it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] unless the server runs in a container, [`Error::Container`] if the engine refuses.
    pub async fn disconnect(&self) -> Result<(), Error> {
        self.in_container()?
            .perform(ContainerAction::Disconnect)
            .await
    }

    /// Reconnects the server's container to its network; its [port](Self::client_port) changes.
    ///
    /// # Errors
    ///
    /// As for [`disconnect`](Self::disconnect).
    pub async fn reconnect(&self) -> Result<(), Error> {
        self.in_container()?.perform(ContainerAction::Connect).await
    }

    /// Sends `srvr`: role, last transaction, packets received.
    ///
    /// # Errors
    ///
    /// [`Error::Admin`] without a valid answer within 30 s.
    pub async fn srvr(&self) -> Result<admin::Srvr, Error> {
        self.ask("srvr").await
    }

    /// Sends `mntr`, for the server's counters.
    ///
    /// # Errors
    ///
    /// [`Error::Admin`] without a valid answer within 30 s.
    pub async fn mntr(&self) -> Result<admin::Mntr, Error> {
        self.ask("mntr").await
    }

    /// Sends `cons`: the sessions that are connected to the server.
    ///
    /// # Errors
    ///
    /// [`Error::Admin`] without a valid answer within 30 s.
    pub async fn cons(&self) -> Result<admin::Cons, Error> {
        self.ask("cons").await
    }

    /// Sends `wchs`, for the number of watches.
    ///
    /// # Errors
    ///
    /// [`Error::Admin`] without a valid answer within 30 s.
    pub async fn wchs(&self) -> Result<admin::Wchs, Error> {
        self.ask("wchs").await
    }

    /// Sends any four-letter word and returns the answer.
    ///
    /// # Errors
    ///
    /// [`Error::Admin`] if there is no answer within 30 s.
    pub async fn four_letter(&self, word: &str) -> Result<String, Error> {
        admin::four_letter(self.client_address(), word, ANSWER_WITHIN)
            .await
            .map_err(|source| self.admin_error(source))
    }

    /// Returns whether the process that this value started last has ended by itself.
    pub fn has_exited(&self) -> bool {
        if let Some(container) = &self.container {
            return container.has_exited();
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    pub(crate) fn find(&self) -> Option<(Pid, ProcessState)> {
        // Before the start script has written the pid file, only this process knows the child.
        self.child().and_then(process::child).or_else(|| {
            process::find(
                &self.plan.pid_file(self.id()),
                &self.plan.server_marker(self.id()),
            )
        })
    }

    /// Returns the process that this value started last, if it still runs; reaps it otherwise.
    fn child(&self) -> Option<Pid> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let child = child.as_mut()?;
        matches!(child.try_wait(), Ok(None)).then(|| Pid::from_child(child))
    }

    /// Reaps a process that was stopped on request, so that it does not count as one that exited by itself.
    ///
    /// Returns whether none is left. A killed process can be reaped only when all of its threads have ended, a moment
    /// after it has lost its command line.
    pub(crate) fn reap(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
        {
            *child = None;
        }
        child.is_none()
    }

    /// Returns an error for a server in a container, which does not support this fault.
    pub(crate) fn expect_process(&self, fault: &'static str) -> Result<(), Unavailable> {
        match self.container {
            None => Ok(()),
            Some(_) => Err(Unavailable {
                fault,
                reason: "the server runs in a container; start the ensemble with processes".into(),
            }),
        }
    }

    /// Returns the file with the epoch of its data.
    pub(crate) fn epoch_file(&self) -> PathBuf {
        let directory = self.plan.data_directory(self.id());
        directory.join("version-2").join("currentEpoch")
    }

    /// Returns the directory of its transaction logs.
    pub(crate) fn log_directory(&self) -> PathBuf {
        self.plan.log_directory(self.id()).join("version-2")
    }

    fn in_container(&self) -> Result<&Container, Unavailable> {
        self.container.as_ref().ok_or_else(|| Unavailable {
            fault: "a disconnected network",
            reason: "the server is a process of this machine; block its links instead".into(),
        })
    }

    fn expect_state(&self, action: &'static str, wanted: ProcessState) -> Result<(), Error> {
        let state = self.process_state();
        if state == wanted {
            return Ok(());
        }
        Err(self.wrong_state(action, refused(state).into()))
    }

    fn member(&self) -> &Member {
        &self.plan.members[self.index]
    }

    /// Ends the process by a signal, or the container by an action, and waits until it has ended.
    async fn end(
        &self,
        action: &'static str,
        signal: Signal,
        in_container: ContainerAction,
    ) -> Result<(), Error> {
        if let Some(container) = &self.container {
            self.expect_state(action, ProcessState::Running)?;
            return container.perform(in_container).await;
        }
        let Some((pid, _)) = self.find() else {
            return Err(self.wrong_state(action, refused(ProcessState::Stopped).into()));
        };
        process::signal(pid, signal)
            .map_err(|errno| Error::io(action, &self.directory(), errno.into()))?;
        let mut polls = Polls::within(REACT_WITHIN, POLL_EVERY);
        while self.find().is_some() || process::is_ending(pid) {
            if !polls.again().await {
                return Err(Error::StillRunning {
                    action,
                    id: self.id(),
                    pid: pid.as_raw_pid(),
                    within: REACT_WITHIN,
                });
            }
        }
        self.reap();
        Ok(())
    }

    /// Changes the state of the process by a signal, or of the container by an action, and waits until it has changed.
    async fn change_state(
        &self,
        action: &'static str,
        signal: Signal,
        in_container: ContainerAction,
        from: ProcessState,
        to: ProcessState,
    ) -> Result<(), Error> {
        self.expect_state(action, from)?;
        if let Some(container) = &self.container {
            return container.perform(in_container).await;
        }
        if let Some((pid, _)) = self.find() {
            process::signal(pid, signal)
                .map_err(|errno| Error::io(action, &self.directory(), errno.into()))?;
        }
        let mut polls = Polls::within(REACT_WITHIN, POLL_EVERY);
        loop {
            let state = self.process_state();
            if state == to {
                return Ok(());
            }
            if !polls.again().await {
                return Err(
                    self.wrong_state(action, format!("after {REACT_WITHIN:?} {}", refused(state)))
                );
            }
        }
    }

    pub(crate) fn wrong_state(&self, action: &'static str, reason: String) -> Error {
        Error::WrongState {
            action,
            id: self.id(),
            reason,
        }
    }

    async fn ask<T: FromStr<Err = AdminError>>(&self, word: &str) -> Result<T, Error> {
        let answer = self.four_letter(word).await?;
        answer.parse().map_err(|source| self.admin_error(source))
    }

    fn admin_error(&self, source: AdminError) -> Error {
        Error::Admin {
            id: self.id(),
            source,
        }
    }
}

/// Returns why an operation is not possible in this state.
const fn refused(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "it runs",
        ProcessState::Paused => "it is already paused",
        ProcessState::Stopped => "it does not run; start it first",
    }
}

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const REACT_WITHIN: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(5);
