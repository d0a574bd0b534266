//! Starts, controls and removes the containers of an ensemble on a thread of its own.
//!
//! The thread has its own runtime: dropping an ensemble removes the containers, in code that cannot await, and a test
//! that blocks its runtime must not block them.
//!
//! A detached ensemble's containers stay when its thread ends. Another process finds them by name, so everything after
//! their start uses names, whether this process created them or attached to them.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::mem::ManuallyDrop;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as EngineError;
use testcontainers::bollard::models::{
    ContainerInspectResponse, HostConfig, NetworkConnectRequest, NetworkDisconnectRequest,
    PortBinding,
};
use testcontainers::bollard::query_parameters::{
    KillContainerOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};
use testcontainers::core::IntoContainerPort as _;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::image::IMAGE_WITHIN;
use super::member::{Command, Member, wait_blocking};
use super::{ContainerAction, ContainerImage, stale};
use crate::config::{CLIENT_PORT, Plan};
use crate::error::Error;
use crate::process::ProcessState;
use crate::server::Server;
use crate::unavailable::Unavailable;
use crate::wait::Polls;

/// The containers of an ensemble.
///
/// Dropping it waits for its thread. Containers that this process created are removed first, unless
/// [`leave`](Self::leave) was called; containers that it attached to stay.
#[derive(Debug)]
pub(crate) struct Containers {
    members: Vec<Member>,
    at_drop: End,
    end: Option<oneshot::Sender<End>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Whether the containers are removed at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Remove,
    Leave,
}

impl Containers {
    /// Creates and starts a container for each member of the plan.
    ///
    /// # Cancel safety
    ///
    /// A dropped future removes what was started.
    pub(crate) async fn launch(plan: Arc<Plan>, image: ContainerImage) -> Result<Self, Error> {
        // From here on the drop ends the thread, and the thread removes the containers.
        let (containers, is_ready) = Self::open(plan, Some(image))?;
        is_ready.await.unwrap_or_else(|_| Err(thread_ended()))?;
        Ok(containers)
    }

    /// Finds the containers that were created for the plan, running or not. Blocks.
    pub(crate) fn attach(plan: Arc<Plan>) -> Result<Self, Error> {
        let (containers, is_ready) = Self::open(plan, None)?;
        wait_blocking(is_ready).unwrap_or_else(|| Err(thread_ended()))?;
        Ok(containers)
    }

    /// Starts the thread, which creates the containers if there is an image.
    fn open(
        plan: Arc<Plan>,
        image: Option<ContainerImage>,
    ) -> Result<(Self, oneshot::Receiver<Result<(), Error>>), Error> {
        let (commands, received) = mpsc::unbounded_channel();
        let members: Vec<Member> = plan
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| {
                Member::new(member.id, plan.host(member.id), index, commands.clone())
            })
            .collect();
        let (end, ended) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let thread_members = members.clone();
        let at_drop = match image {
            Some(_) => End::Remove,
            None => End::Leave,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::io("start a runtime for", &plan.directory, source))?;
        let thread = std::thread::Builder::new()
            .name("zk-harness-containers".into())
            .spawn(move || {
                runtime.block_on(run(&plan, image, thread_members, received, ready, ended))
            })
            .map_err(|source| Error::io("start a thread for", &PathBuf::new(), source))?;
        let containers = Self {
            members,
            at_drop,
            end: Some(end),
            thread: Some(thread),
        };
        Ok((containers, is_ready))
    }

    /// Keeps the containers when this is dropped.
    pub(crate) fn leave(&mut self) {
        self.at_drop = End::Leave;
    }

    /// Removes the containers and their network, and blocks until they are gone.
    pub(crate) fn remove(mut self) -> Result<(), Error> {
        self.finish(End::Remove)
    }

    fn finish(&mut self, how: End) -> Result<(), Error> {
        if let Some(end) = self.end.take() {
            // The error of a thread that has already ended is returned below.
            let _ = end.send(how);
        }
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().unwrap_or_else(|_| Err(thread_ended()))
    }

    /// Assigns the containers to the servers, in the order of the plan.
    pub(crate) fn assign_to(&self, servers: &mut [Server]) {
        for (server, container) in servers.iter_mut().zip(&self.members) {
            server.put_into(container.clone());
        }
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        if let Err(error) = self.finish(self.at_drop) {
            tracing::warn!(%error, "cannot remove the containers");
        }
    }
}

fn thread_ended() -> Error {
    let panicked = std::io::Error::other("their thread panicked");
    Error::io("drive", Path::new("the containers"), panicked)
}

fn no_image(source: Cause) -> Error {
    Error::Image { source }
}

/// Connects to the container engine.
async fn connect() -> Result<Docker, Unavailable> {
    let unavailable = |reason: String| Unavailable {
        fault: "a server in a container",
        reason: format!(
            "{reason}; start a container engine, and set DOCKER_HOST if it does not listen at the default address"
        ),
    };
    let docker = docker_client_instance()
        .await
        .map_err(|error| unavailable(error.to_string()))?;
    match timeout(PING_WITHIN, docker.ping()).await {
        Ok(Ok(_)) => Ok(docker),
        Ok(Err(error)) => Err(unavailable(error.to_string())),
        Err(_) => Err(unavailable(format!("no reply within {PING_WITHIN:?}"))),
    }
}

struct Driver {
    docker: Docker,
    network: String,
    members: Vec<Member>,
    logs: Vec<PathBuf>,
    /// The containers that this process created. Dropping one removes it, so nothing is left if the thread panics.
    created: Vec<ContainerAsync<GenericImage>>,
}

async fn run(
    plan: &Plan,
    image: Option<ContainerImage>,
    members: Vec<Member>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    ready: oneshot::Sender<Result<(), Error>>,
    mut ended: oneshot::Receiver<End>,
) -> Result<(), Error> {
    let opened = tokio::select! {
        opened = open(plan, image, members) => opened,
        _ = &mut ended => return Ok(()),
    };
    let driver = match opened {
        Ok(driver) => driver,
        Err(error) => {
            drop(ready.send(Err(error)));
            return Ok(());
        }
    };
    // If the receiver is gone, the ensemble is being dropped.
    drop(ready.send(Ok(())));
    let mut polls = tokio::time::interval(POLL_EVERY);
    let end = loop {
        tokio::select! {
            end = &mut ended => break end.unwrap_or(End::Leave),
            Some(Command { index, action, done }) = commands.recv() => {
                drop(done.send(driver.perform(index, action).await));
            }
            _ = polls.tick() => driver.inspect_all().await,
        }
    };
    match end {
        End::Remove => driver.remove().await,
        End::Leave => {
            driver.leave();
            Ok(())
        }
    }
}

/// Creates the containers if there is an image; otherwise they must exist.
async fn open(
    plan: &Plan,
    image: Option<ContainerImage>,
    members: Vec<Member>,
) -> Result<Driver, Error> {
    let docker = connect().await?;
    let created = match &image {
        Some(image) => launch(&docker, plan, image).await?,
        None => Vec::new(),
    };
    let logs = plan.members.iter().map(|member| plan.server_log(member.id));
    let driver = Driver {
        docker,
        network: plan.host_prefix(),
        members,
        logs: logs.collect(),
        created,
    };
    for index in 0..driver.members.len() {
        // A created container runs or has exited; one that was attached to may have been stopped before.
        driver.inspect(index, image.is_none()).await?;
        if image.is_some() {
            driver.follow_log(index);
        }
    }
    Ok(driver)
}

async fn launch(
    docker: &Docker,
    plan: &Plan,
    image: &ContainerImage,
) -> Result<Vec<ContainerAsync<GenericImage>>, Error> {
    stale::remove(docker).await;
    let image = timeout(IMAGE_WITHIN, image.prepare(&plan.distribution))
        .await
        .map_err(|_| no_image(format!("no image after {IMAGE_WITHIN:?}").into()))??;
    let network = plan.host_prefix();
    let starts = plan.members.iter().map(|member| {
        let image = image.clone().with_exposed_port(CLIENT_PORT.tcp());
        let mut request = image
            .with_container_name(plan.host(member.id))
            .with_hostname(plan.host(member.id))
            .with_network(&network)
            .with_labels(stale::labels(plan))
            .with_startup_timeout(IMAGE_WITHIN)
            .with_host_config_modifier(publish_on_loopback)
            .with_copy_to("/conf/zoo.cfg", plan.render_config(member).into_bytes())
            .with_copy_to("/data/myid", format!("{}\n", member.id).into_bytes());
        for (key, value) in plan.container_environment() {
            request = request.with_env_var(key, value);
        }
        let id = member.id;
        async move {
            request.start().await.map_err(|error| Error::Container {
                action: "start",
                id,
                source: error.into(),
            })
        }
    });
    // The first one alone, because it creates the network; then the others concurrently.
    let mut containers = Vec::new();
    let mut starts = starts.collect::<Vec<_>>().into_iter();
    if let Some(first) = starts.next() {
        containers.push(first.await?);
    }
    let others: Result<Vec<_>, Error> = join_all(starts).await.into_iter().collect();
    containers.extend(others?);
    Ok(containers)
}

/// Publishes the client port on a free port of the loopback address alone, and no other port.
///
/// Published ports bypass many firewalls of the host, and the servers permit everything to everyone.
fn publish_on_loopback(host: &mut HostConfig) {
    let binding = PortBinding {
        host_ip: Some(Ipv4Addr::LOCALHOST.to_string()),
        host_port: None,
    };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(HashMap::from([(
        CLIENT_PORT.tcp().to_string(),
        Some(vec![binding]),
    )]));
}

impl Driver {
    async fn perform(&self, index: usize, action: ContainerAction) -> Result<(), Error> {
        let member = &self.members[index];
        let failed = |source: Cause| Error::Container {
            action: action.name(),
            id: member.id(),
            source,
        };
        timeout(ACTION_WITHIN, self.execute(index, action))
            .await
            .unwrap_or_else(|_| Err(format!("no reply within {ACTION_WITHIN:?}").into()))
            .map_err(failed)?;
        let expects_end = match action {
            ContainerAction::FollowLog => return Ok(()),
            ContainerAction::Stop | ContainerAction::Kill => true,
            ContainerAction::Start
            | ContainerAction::Pause
            | ContainerAction::Resume
            | ContainerAction::Disconnect
            | ContainerAction::Connect => false,
        };
        self.inspect(index, expects_end).await
    }

    async fn execute(&self, index: usize, action: ContainerAction) -> Result<(), Cause> {
        let docker = &self.docker;
        let name = self.members[index].name();
        match action {
            ContainerAction::Start => match docker.start_container(name, None).await {
                Err(error) if is_missing(&error) => {
                    return Err(
                        "the container and its data were removed; take the ensemble down".into(),
                    );
                }
                started => started?,
            },
            ContainerAction::Stop => {
                let options = StopContainerOptionsBuilder::new().t(STOP_SECONDS).build();
                docker.stop_container(name, Some(options)).await?;
            }
            ContainerAction::Kill => {
                let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
                docker.kill_container(name, Some(options)).await?;
            }
            ContainerAction::Pause => pause(docker, name).await?,
            ContainerAction::Resume => docker.unpause_container(name).await?,
            ContainerAction::Disconnect => {
                let request = NetworkDisconnectRequest {
                    container: name.to_owned(),
                    force: Some(true),
                };
                docker.disconnect_network(&self.network, request).await?;
            }
            ContainerAction::Connect => {
                let request = NetworkConnectRequest {
                    container: name.to_owned(),
                    ..NetworkConnectRequest::default()
                };
                docker.connect_network(&self.network, request).await?;
            }
            ContainerAction::FollowLog => {
                // What was printed so far before this returns, later output as it comes.
                copy_log(docker, name, &self.logs[index], false).await?;
                self.follow_log(index);
            }
        }
        Ok(())
    }

    /// Removes the containers and the network.
    async fn remove(self) -> Result<(), Error> {
        let created = self.created.into_iter().map(ContainerAsync::rm);
        // Errors are reported below.
        drop(join_all(created).await);
        let docker = &self.docker;
        let removals = self.members.iter().map(async |member| {
            let options = RemoveContainerOptionsBuilder::new()
                .force(true)
                .v(true)
                .build();
            match docker.remove_container(member.name(), Some(options)).await {
                Err(error) if !is_missing(&error) => Err(Error::Container {
                    action: "remove",
                    id: member.id(),
                    source: error.into(),
                }),
                _ => Ok(()),
            }
        });
        let removed: Result<(), Error> = join_all(removals).await.into_iter().collect();
        removed?;
        match docker.remove_network(&self.network).await {
            Err(error) if !is_missing(&error) => Err(Error::Network {
                name: self.network,
                source: error.into(),
            }),
            _ => Ok(()),
        }
    }

    /// Leaves the containers for a process that attaches to them.
    fn leave(self) {
        for container in self.created {
            // Dropping it would remove it, and the last one the network.
            let _left = ManuallyDrop::new(container);
        }
    }

    async fn inspect_all(&self) {
        for (index, member) in self.members.iter().enumerate() {
            let was_stopped = member.state() == ProcessState::Stopped && !member.has_exited();
            if let Err(error) = self.inspect(index, was_stopped).await {
                tracing::warn!(%error, "cannot inspect a container");
            }
        }
    }

    /// Reads a container's state and port.
    async fn inspect(&self, index: usize, expects_end: bool) -> Result<(), Error> {
        let member = &self.members[index];
        let seen = match self.docker.inspect_container(member.name(), None).await {
            Ok(seen) => seen,
            // It was removed: the server does not run.
            Err(error) if is_missing(&error) => ContainerInspectResponse::default(),
            Err(error) => {
                return Err(Error::Container {
                    action: "inspect",
                    id: member.id(),
                    source: error.into(),
                });
            }
        };
        let state = seen.state.unwrap_or_default();
        let state = match (state.running, state.paused) {
            (_, Some(true)) => ProcessState::Paused,
            (Some(true), _) => ProcessState::Running,
            _ => ProcessState::Stopped,
        };
        let port = seen
            .network_settings
            .and_then(|network| network.ports)
            .and_then(|mut ports| ports.remove(&format!("{CLIENT_PORT}/tcp"))?)
            .and_then(|bindings| bindings.first()?.host_port.clone()?.parse().ok());
        member.change(|observed| {
            observed.state = state;
            // A stopped or disconnected container has no port, and gets a new one later.
            observed.port = port.unwrap_or(0);
            observed.has_exited = state == ProcessState::Stopped && !expects_end;
        });
        Ok(())
    }

    /// Starts copying the server's output to its log file, over all its starts, unless that is done already.
    fn follow_log(&self, index: usize) {
        let member = self.members[index].clone();
        if member.observed().follows_log {
            return;
        }
        member.change(|observed| observed.follows_log = true);
        let docker = self.docker.clone();
        let path = self.logs[index].clone();
        // It ends with this thread's runtime, or when the container is removed.
        tokio::spawn(async move {
            let mut polls = tokio::time::interval(POLL_EVERY);
            loop {
                if let Err(error) = copy_log(&docker, member.name(), &path, true).await {
                    tracing::warn!(%error, path = %path.display(), "cannot copy the log of a container");
                    member.change(|observed| observed.follows_log = false);
                    return;
                }
                // Its output ends when the server does.
                loop {
                    polls.tick().await;
                    if member.state() != ProcessState::Stopped {
                        break;
                    }
                }
            }
        });
    }
}

/// Pauses a container, at the latest after [`PAUSE_WITHIN`].
///
/// Control groups of version 1 cannot be frozen while one of their processes waits for its disk. The engine then undoes
/// its attempt and reports a server error, and a later attempt may succeed.
async fn pause(docker: &Docker, name: &str) -> Result<(), EngineError> {
    let mut polls = Polls::within(PAUSE_WITHIN, POLL_EVERY);
    loop {
        match docker.pause_container(name).await {
            Err(error) if is_server_error(&error) && polls.again().await => {
                tracing::debug!(%error, name, "cannot pause a container yet");
            }
            paused => return paused,
        }
    }
}

/// Copies a container's output to a file, with `follow` until the container ends.
///
/// Each byte is written at its offset in the output, so several processes may do this at the same time.
async fn copy_log(docker: &Docker, name: &str, path: &Path, follow: bool) -> Result<(), Cause> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    let options = LogsOptionsBuilder::new()
        .follow(follow)
        .stdout(true)
        .stderr(true)
        .build();
    let mut lines = std::pin::pin!(docker.logs(name, Some(options)));
    let mut at = 0;
    while let Some(line) = lines.next().await {
        let line = line?.into_bytes();
        file.write_all_at(&line, at)?;
        at += line.len() as u64;
    }
    Ok(())
}

/// Returns whether the engine failed, and not the request.
fn is_server_error(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::DockerResponseServerError {
            status_code: 500..,
            ..
        }
    )
}

/// Returns whether the container or network does not exist.
fn is_missing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::DockerResponseServerError {
            status_code: 404,
            ..
        }
    )
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

const POLL_EVERY: Duration = Duration::from_millis(250);
const PING_WITHIN: Duration = Duration::from_secs(10);
const ACTION_WITHIN: Duration = Duration::from_secs(60);
const PAUSE_WITHIN: Duration = Duration::from_secs(10);
const STOP_SECONDS: i32 = 10;

#[cfg(test)]
mod tests {
    use testcontainers::bollard::API_DEFAULT_VERSION;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    const FROZEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    const CANNOT_FREEZE: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 52\r\n\r\n\
                                 {\"message\":\"runtime pause failed: unable to freeze\"}";
    const NOT_RUNNING: &str = "HTTP/1.1 409 Conflict\r\ncontent-length: 38\r\n\r\n\
                               {\"message\":\"container is not running\"}";

    /// Pauses a container of an engine that gives these replies, and returns the result and the number of requests.
    async fn pause_with(replies: &[&str]) -> (Result<(), EngineError>, usize) {
        let engine = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = engine.local_addr().unwrap().to_string();
        let docker = Docker::connect_with_http(&address, 10, API_DEFAULT_VERSION).unwrap();
        let mut requests = 0;
        let serve = async {
            for reply in replies {
                let (stream, _) = engine.accept().await.unwrap();
                requests += 1;
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    stream.read_line(&mut line).await.unwrap();
                }
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let paused = tokio::select! {
            paused = timeout(Duration::from_secs(60), pause(&docker, "one")) => paused,
            () = serve => unreachable!("it serves until the other ends"),
        };
        (paused.expect("paused within a minute"), requests)
    }

    #[tokio::test]
    async fn a_container_that_cannot_be_frozen_yet_is_paused_later() {
        let (paused, requests) = pause_with(&[CANNOT_FREEZE, CANNOT_FREEZE, FROZEN]).await;
        paused.unwrap();
        assert_eq!(requests, 3);
    }

    #[tokio::test]
    async fn a_container_in_the_wrong_state_is_not_asked_again() {
        let (paused, requests) = pause_with(&[NOT_RUNNING, FROZEN]).await;
        let error = paused.unwrap_err().to_string();
        assert!(error.contains("container is not running"), "{error}");
        assert_eq!(requests, 1);
    }
}
